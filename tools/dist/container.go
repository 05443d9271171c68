package dist

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// image is the result of a Containerfile, as far as this project's uses it: the instructions that change files, in
// order, and the program's start command.
type image struct {
	steps   []instruction // COPY and RUN
	env     []string
	workdir string
	user    string
	start   []string // ENTRYPOINT and CMD
}

type instruction struct{ name, args string }

// readContainerfile parses a Containerfile. An instruction that image cannot represent is an error, so that the check
// covers the whole file.
func readContainerfile(path string) (*image, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	img := &image{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, args, _ := strings.Cut(line, " ")
		if err := img.read(instruction{name, strings.TrimSpace(args)}); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(img.start) == 0 || img.user == "" || len(img.steps) == 0 {
		return nil, fmt.Errorf("%s: no program, no user or no files", path)
	}
	return img, nil
}

func (img *image) read(i instruction) error {
	switch i.name {
	case "COPY", "RUN":
		img.steps = append(img.steps, i)
	case "ENV":
		img.env = append(img.env, strings.Fields(i.args)...)
	case "WORKDIR":
		img.workdir = i.args
	case "USER":
		img.user = i.args
	case "ENTRYPOINT", "CMD":
		var words []string
		if err := json.Unmarshal([]byte(i.args), &words); err != nil {
			return fmt.Errorf("%s %s: %w", i.name, i.args, err)
		}
		img.start = append(img.start, words...)
	case "ARG", "FROM", "VOLUME", "EXPOSE", "STOPSIGNAL": // of the container's surroundings
	default:
		return fmt.Errorf("%s is not known here", i.name)
	}
	return nil
}
