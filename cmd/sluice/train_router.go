package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed/train"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/internal/progress"
	"github.com/sluice-rag/sluice/rag/route"
)

type routerFlags struct {
	data, out, field, outside string
	replace                   bool
}

func (a *app) trainRouterCommand() *cobra.Command {
	var f routerFlags
	cmd := &cobra.Command{Use: "router --data FILE.jsonl --out DIR",
		Short: "train a router: a fast classifier of texts by their words and vectors",
		Long: `Reads {"text","label"} lines, or {"text","labels":[…]} lines where a text may have several labels or none. Bad
lines are an error, with their numbers; empty texts and ids that were there before are left out and counted. Kinds:
multinomial and Gaussian naive Bayes (mnb, gnb), logistic regression (lr), a linear support vector classifier (svc), or
distilbert, which is 'train classifier'. They read the weights of words (tfidf), the encoder's vectors (embedding), or
both; mnb reads words only. The default took the most right labels of CLINC150 and SciBench (docs/routing.md).

Each fifth of the texts is scored by a router of the others (from 5000 texts on, one fifth is): these scores set the
temperature of the probabilities and the thresholds, and make the report: precision, recall and F1 of each label, and
which label is taken for which. A router abstains from texts that are unlike those that it was trained on: from the rest
of --keep of the held-out ones, or with --outside where it tells the texts of that label from the others best.

The folder holds router.json (settings, digests, report), vocabulary.txt and router.safetensors. 'classify --classifier
DIR' uses it; with another encoder than the one it was trained with it is refused.`,
		Example: "  sluice train router --data tickets.jsonl --out router\n" +
			"  sluice train router --kind lr --features tfidf --data tickets.jsonl --out router --json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.trainRouter(cmd, &f) }}
	fl := cmd.Flags()
	fl.StringVar(&f.data, "data", "", `texts with labels (required; "-": standard input)`)
	fl.StringVar(&f.out, "out", "", "folder of the router (required)")
	fl.BoolVar(&f.replace, "replace", false, "write over a router in that folder")
	fl.StringVar(&f.field, "label-field", "",
		`field of the lines with the label or labels (default "label" or "labels")`)
	fl.StringVar(&f.outside, "outside", "", "label of texts of no domain: they set the threshold, and are no class")
	a.routerFlags(cmd)
	return cmd
}

func (a *app) trainRouter(cmd *cobra.Command, f *routerFlags) error {
	if err := needed(f.data, f.out); err != nil {
		return err
	}
	l, err := a.settings(cmd)
	if err != nil {
		return err
	}
	set := routerSettings(l, route.Defaults().Keep)
	set.Outside = f.outside
	if set.Kind == "distilbert" {
		if cmd.Flags().Changed("features") || f.field != "" || f.outside != "" {
			return usagef("--kind distilbert reads texts: --features, --label-field and --outside do not go with it")
		}
		t := trainFlags{data: f.data, out: f.out, kind: string(set.Kind), set: train.ClassifierDefaults(),
			from: sluice.DefaultEncoder}
		t.set.Seed = set.Seed
		return a.trainClassifier(cmd, &t)
	}
	if _, err := os.Stat(f.out); !errors.Is(err, fs.ErrNotExist) && !f.replace {
		if entries, readErr := os.ReadDir(f.out); readErr != nil || len(entries) > 0 {
			return usagef("--out %s is there already; --replace writes over a router", f.out)
		}
	}
	examples, err := a.routerExamples(f)
	if err != nil {
		return err
	}
	return a.with(cmd, func(s *sluice.Sluice, _ config.Config) error {
		report, done := a.stages()
		r, err := s.Router().TrainOn(cmd.Context(), sluice.RouterOptions{Examples: examples, Settings: set,
			Progress: report, Warn: func(text string) { a.warn("%s", text) }})
		done()
		if err == nil {
			err = r.Save(f.out)
		}
		if err != nil {
			return err
		}
		return a.trainedRouter(f.out, r)
	})
}

// routerExamples reads the data, and reports what was left out.
func (a *app) routerExamples(f *routerFlags) (*route.Examples, error) {
	e, err := readData(a.stdin, f.data, func(r io.Reader, path string) (*route.Examples, error) {
		return route.ReadExamples(r, path, f.field)
	})
	if err == nil && e.Left != (route.Left{}) {
		a.warn("left out: %s without a letter, %s with the id of one before", count(e.Left.Empty, "text"),
			count(e.Left.Duplicates, "text"))
	}
	return e, err
}

// stages shows the progress of consecutive stages; done ends the last one.
func (a *app) stages() (report func(stage string, done, total int), done func()) {
	var mu sync.Mutex
	var now *progress.Task
	name := ""
	report = func(stage string, at, total int) {
		mu.Lock()
		defer mu.Unlock()
		if stage != name {
			now.Finish()
			unit := "texts"
			if stage != "embedding" {
				unit = "steps"
			}
			now, name = a.task(stage, unit), stage
		}
		now.Set(int64(at), int64(total))
	}
	return report, func() {
		mu.Lock()
		defer mu.Unlock()
		now.Finish()
		now = nil
	}
}

// routerLine is the output of `train router --json`.
type routerLine struct {
	Out string `json:"out"`
	route.About
}

func (a *app) trainedRouter(out string, r *route.Router) error {
	if a.json {
		return a.printJSON(routerLine{out, r.About})
	}
	h := r.HeldOut
	var b strings.Builder
	labelTable(&b, h.Labels, h.Confusion, r.Multi)
	fmt.Fprintf(&b, "%d texts held out: accuracy %.4f, F1 %.4f (mean of the labels), calibration error %.4f\n", h.Texts,
		h.Accuracy, h.MacroF1, h.ECE)
	fmt.Fprintf(&b, "it abstains from %.1f %% of them; of the others, %.2f %% are right\n", 100*h.Abstains, 100*h.Kept)
	if h.Outside > 0 {
		fmt.Fprintf(&b, "%d texts of no domain: it abstains from %.1f %% of them (AUROC %.4f)\n", h.Outside,
			100*h.Refused, h.AUROC)
	}
	fmt.Fprintf(&b, "trained on %d texts in %.1f s; the router is in %s\n", r.Data.Texts, r.Seconds, out)
	return a.print(b.String())
}

type confused struct {
	is, got string
	texts   int
}

// labelTable prints the scores of each label, and the most frequent confusions unless a text may have several labels.
func labelTable(b *strings.Builder, labels []route.LabelReport, confusion [][]int, multi bool) {
	width, names := 5, make([]string, len(labels))
	for i, l := range labels {
		names[i] = printable.Line(l.Label)
		width = max(width, len(names[i]))
	}
	fmt.Fprintf(b, "%-*s  precision  recall      F1  texts\n", width, "label")
	for i, l := range labels {
		fmt.Fprintf(b, "%-*s     %6.4f  %6.4f  %6.4f  %5d\n", width, names[i], l.Precision, l.Recall, l.F1, l.Support)
	}
	if multi {
		return
	}
	for _, c := range confusions(names, confusion, 5) {
		fmt.Fprintf(b, "%d of %s were taken for %s\n", c.texts, c.is, c.got)
	}
}

func confusions(labels []string, confusion [][]int, most int) (list []confused) {
	for range most {
		top := confused{}
		for i, row := range confusion {
			for j, n := range row {
				c := confused{labels[i], labels[j], n}
				if i != j && n > top.texts && !slices.Contains(list, c) {
					top = c
				}
			}
		}
		if top.texts == 0 {
			break
		}
		list = append(list, top)
	}
	return list
}
