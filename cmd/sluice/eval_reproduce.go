package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/eval/experiment"
	"github.com/sluice-rag/sluice/eval/preset"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/internal/terminal"
)

// What a model that is not in the list is taken to need for each parameter: an encoder's float32, and the bits of the
// quantisation Q4_K_M, which most people fetch.
const (
	encoderBytes   = 4
	generatorBytes = 4.85 / 8
	// aLineBytes is a speed of the network, in bytes per second, that times of fetching are given for.
	aLineBytes = 10e6
)

// paperModel is a model of a paper, and what it takes to use it.
type paperModel struct {
	preset.Model
	Listed    bool    `json:"listed"` // 'models pull' knows it
	Here      bool    `json:"here"`
	Bytes     int64   `json:"bytes,omitempty"`     // 0: it cannot be fetched
	Estimated bool    `json:"estimated,omitempty"` // Bytes, by the number of parameters
	Seconds   float64 `json:"seconds,omitempty"`   // of its answers; 0: not known
}

// reproduction lists the models of a paper.
type reproduction struct {
	Paper   string       `json:"paper"`
	Models  []paperModel `json:"models"`
	Fetch   int64        `json:"fetch_bytes"`
	Answers int          `json:"answers"` // of each generator
	Speed   string       `json:"speed"`   // what the times go by; "" without times
}

func (a *app) evalReproduceCommand() *cobra.Command {
	var use, out string
	var sample int
	var asFile bool
	cmd := &cobra.Command{
		Use: "reproduce PRESET", Short: "what it takes to run a paper's experiment with the paper's models",
		Long: `Lists the models of the paper: whether they are here, how much has to be fetched, and how long the answers would
take. Nothing is fetched and nothing is run. --results names the folder of an earlier run, with any language model: the
times are its times per answer, in proportion to the sizes of the models, because reading the weights takes most of the
time of an answer. --yaml prints the experiment with these models instead, for 'eval run'.`,
		Example: "  sluice eval reproduce keibel-matrix --models paper --results results\n" +
			"  sluice eval reproduce keibel-matrix --models paper --yaml > keibel.yaml",
		Args: takes(1, 1), ValidArgs: preset.Papers(),
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case use != "paper":
				return usagef("--models %q: known is paper; 'sluice eval %s' runs the preset with its own", use,
					args[0])
			case sample < 0:
				return usagef("--sample must not be negative, given %d", sample)
			}
			file, err := preset.Paper(args[0])
			if err != nil {
				return usageError{err}
			}
			if sample > 0 {
				file.Scale(sample)
			}
			if asFile {
				return yaml.NewEncoder(a.stdout).Encode(file)
			}
			return a.reproduce(file, out)
		},
	}
	cmd.Flags().StringVar(&use, "models", "paper", "whose models: paper")
	cmd.Flags().StringVar(&out, "results", "", "folder of an earlier run, by whose speed times are estimated")
	cmd.Flags().IntVar(&sample, "sample", 0, "about so many questions in each part (0: as the preset says)")
	cmd.Flags().BoolVar(&asFile, "yaml", false, "print the experiment with the paper's models")
	return cmd
}

func (a *app) reproduce(file *experiment.File, results string) error {
	list, err := preset.Models(file.Name)
	if err != nil {
		return err
	}
	known, err := models.List()
	if err != nil {
		return err
	}
	r := reproduction{Paper: file.Name, Answers: file.Answers()}
	perByte := 0.
	if results != "" {
		if perByte, r.Speed, err = speed(results, known); err != nil {
			return err
		}
	}
	for _, m := range list {
		p := paperModel{Model: m}
		if i := listedAt(known, m.Name); i >= 0 {
			p.Listed, p.Here, p.Bytes = true, known[i].Dir != "", known[i].Bytes
		}
		if p.Bytes == 0 {
			p.Estimated = m.Billions > 0
			per := generatorBytes
			if m.Role == "encoder" || m.Role == "classifier" {
				per = encoderBytes
			}
			p.Bytes = int64(m.Billions * 1e9 * per)
		}
		if m.Role == "generator" {
			p.Seconds = perByte * float64(p.Bytes) * float64(r.Answers)
		}
		if !p.Here {
			r.Fetch += p.Bytes
		}
		r.Models = append(r.Models, p)
	}
	return a.result(r, "%s", r.text(a.screen()))
}

func listedAt(known []models.Info, name string) int {
	return slices.IndexFunc(known, func(k models.Info) bool { return strings.EqualFold(k.Name, name) })
}

// speed returns the seconds that an answer took in an earlier run for each byte of the language model, and what was
// measured. Models whose size is not known are left out.
func speed(results string, known []models.Info) (perByte float64, measured string, err error) {
	answers, err := readFile(filepath.Join(results, experiment.Journal),
		func(r io.Reader) ([]experiment.Answered, error) {
			list, _, err := experiment.ReadAnswers(r)
			return list, err
		})
	if err != nil {
		return 0, "", err
	}
	type total struct {
		n       int
		seconds float64
	}
	by := map[string]total{}
	for _, x := range answers {
		if ms := x.MS["generate"]; ms > 0 {
			t := by[x.Model]
			by[x.Model] = total{t.n + 1, t.seconds + ms/1000}
		}
	}
	best := ""
	size := int64(0)
	for model, t := range by {
		n := bytesOf(model, known)
		if n > 0 && (t.n > by[best].n || t.n == by[best].n && model < best) {
			best, size = model, n
		}
	}
	if best == "" {
		return 0, "", fmt.Errorf("%s has no answer of a language model whose file is here", results)
	}
	each := by[best].seconds / float64(by[best].n)
	return each / float64(size), fmt.Sprintf("%d answers of %s (%s MB) took %.2f s each", by[best].n,
		best, megabytes(size), each), nil
}

// bytesOf returns the size of a language model by its name in the list or its path; 0 if it is not known.
func bytesOf(model string, known []models.Info) int64 {
	if i := listedAt(known, model); i >= 0 {
		return known[i].Bytes
	}
	path, err := models.LocateGGUF(model)
	if err != nil {
		return 0
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

func (r reproduction) text(screen terminal.Screen) string {
	table := terminal.Table{Columns: []terminal.Column{{Title: "ROLE", Keep: true}, {Title: "MODEL", Keep: true},
		{Title: "HERE", Keep: true}, {Title: "MB", Right: true, Keep: true},
		{Title: "ANSWERS TAKE", Right: true, Keep: true},
		{Title: "NOTE", Spare: true}}}
	var pull, files []string
	for _, m := range r.Models {
		size, took := "-", "-"
		if m.Bytes > 0 {
			size = map[bool]string{true: "about "}[m.Estimated] + megabytes(m.Bytes)
		}
		if m.Role == "generator" && m.Bytes > 0 {
			took = "?"
			if m.Seconds > 0 {
				took = "about " + (time.Duration(m.Seconds) * time.Second).String()
			}
		}
		switch {
		case m.Here || m.Bytes == 0:
		case m.Listed:
			pull = append(pull, m.Name)
		default:
			files = append(files, m.Name)
		}
		table.Add(m.Role, m.Name, yes(m.Here), size, took, m.Note)
	}
	var b strings.Builder
	b.WriteString(table.Text(screen))
	fmt.Fprintf(&b, "\n%s MB to fetch: %v at %.0f MB/s. %s of each generator.\n", megabytes(r.Fetch),
		(time.Duration(float64(r.Fetch)/aLineBytes) * time.Second), aLineBytes/1e6, count(r.Answers, "answer"))
	fmt.Fprintf(&b, "Times: %s.\n", cmp.Or(r.Speed, "not known; --results names the folder of an earlier run"))
	if len(pull) > 0 {
		fmt.Fprintf(&b, "sluice models pull %s\n", strings.Join(pull, " "))
	}
	if len(files) > 0 {
		fmt.Fprintf(&b, "Not in the list of models, to be named by the path of a file: %s\n", strings.Join(files, ", "))
	}
	return b.String()
}
