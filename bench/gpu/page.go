package gpu

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// about is what the page of results says before them.
const about = `# GPU benchmarks

%s

` + "`make gpu-bundle`" + ` packs program, tests and the script ` + "`run-gpu`" + ` into ` + "`dist/gpu-bundle.tar.gz`" + `. On a machine with an NVIDIA GPU, without
toolchain and network, ` + "`./run-gpu`" + ` runs all stages into the folder ` + "`results`" + `, and ` + "`./run-gpu cases`" + ` one. ` +
	"`sluice bench gpu --import results`" + `
made this page of them.

`

// Import writes one page of a folder of results of run-gpu: what became of each stage, and the reports of those that
// measured, in the order of the stages. It returns ErrOption if the folder holds no results.
func Import(w io.Writer, dir string) error {
	summary, err := os.ReadFile(filepath.Join(dir, "summary.txt"))
	if err != nil {
		return fmt.Errorf("%w: no results of run-gpu: %w", ErrOption, err)
	}
	state := "Results of one run."
	if _, err := os.Stat(filepath.Join(dir, "STAND-IN")); err == nil {
		state = "**Stand-in: not a GPU, no figure counts.**"
	}
	fmt.Fprintf(w, about, state)
	fmt.Fprint(w, "| stage | |\n|---|---|\n")
	var reports []string
	for line := range strings.Lines(string(summary)) {
		stage, what, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			continue
		}
		fmt.Fprintf(w, "| %s | %s |\n", stage, strings.ReplaceAll(what, "|", "\\|"))
		folder := stage
		if part, ok := strings.CutPrefix(stage, "pairs-"); ok {
			folder = part
		}
		text, err := os.ReadFile(filepath.Join(dir, folder, "report.md"))
		switch {
		case err == nil:
			reports = append(reports, under(stage, string(text)))
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	_, err = fmt.Fprint(w, "\n"+strings.Join(reports, "\n"))
	return err
}

// under returns a report as a section of the name, with its headings below that.
func under(name, report string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n", name)
	title := true
	for line := range strings.Lines(report) {
		if title && strings.HasPrefix(line, "# ") {
			title = false
			continue
		}
		if strings.HasPrefix(line, "#") {
			line = "#" + line
		}
		b.WriteString(line)
	}
	return b.String()
}
