package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/manifest"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/rag/route"
)

// classifyLine is the output of `classify --json` for a text: its labels, or its labelled parts.
type classifyLine struct {
	ID     string          `json:"id,omitempty"`
	Labels *[]classifyItem `json:"labels,omitempty"`
	Spans  *[]classifySpan `json:"spans,omitempty"`
	// of a router: the assigned labels and the reason to abstain
	Given       *[]string `json:"given,omitempty"`
	Abstained   *bool     `json:"abstained,omitempty"`
	Familiarity *float64  `json:"familiarity,omitempty"`
}

type classifyItem struct {
	Label       string  `json:"label"`
	Probability float32 `json:"probability"`
}

type classifySpan struct {
	Label       string  `json:"label"`
	Start       int     `json:"start"` // in bytes of the text
	End         int     `json:"end"`
	Text        string  `json:"text"`
	Probability float32 `json:"probability"`
}

type classifyFlags struct {
	query
	top       int
	threshold float64
	given     bool // --threshold was set; otherwise the model's own threshold is used
}

// shownLabels is how many labels are shown for a text by default; JSON has all.
const shownLabels = 5

func (a *app) classifyCommand() *cobra.Command {
	var f classifyFlags
	cmd := &cobra.Command{
		Use:   "classify --classifier MODEL TEXT",
		Short: "give texts labels, or find the labelled parts of texts",
		Long: `Prints the labels of a text with their probabilities, best first, by a sequence-classification model. A model with one
label or with problem_type multi_label_classification gives each label a probability of its own; of others, they sum to 1.
By a token-classification model it prints the parts of the text that have a label, such as names, with their place in
bytes: a word has the label of its first token (the aggregation "first"). By a router ('sluice train router') it prints
labels with their probabilities, and which ones the text gets: none where it is unlike all that the router was trained
on.

The model is a name of 'sluice models list', or a folder: one that 'sluice train classifier' or 'train router' made, or one
as Hugging Face publishes it, with config.json, model.safetensors and tokenizer.json or vocab.txt.

Labels below --threshold are not printed: a text may get none. The default is the model's own threshold, if it has one.
It needs no store.
` + questionHelp + batchHelp,
		Example: "  sluice classify --classifier distilbert-sst2 \"What a fine day!\"\n" +
			"  sluice classify --classifier router --threshold 0.6 --batch questions.jsonl --json\n" +
			"  sluice classify --classifier bert-base-NER \"Ada Lovelace was born in London.\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			f.given = cmd.Flags().Changed("threshold")
			return a.classify(cmd, &f, args)
		},
	}
	f.flags(cmd)
	a.flags(cmd, "classifier")
	_ = cmd.RegisterFlagCompletionFunc("classifier",
		modelNames(true, manifest.Classifier, manifest.TokenClassifier)) // fails only for unknown flags
	cmd.Flags().IntVar(&f.top, "top", 0,
		"labels or parts at most; 0 is all, and 5 labels where they are shown to a person")
	cmd.Flags().Float64Var(&f.threshold, "threshold", 0,
		"print nothing that is less probable (default: the model's own threshold)")
	return cmd
}

func (a *app) classify(cmd *cobra.Command, f *classifyFlags, args []string) error {
	text, err := f.text(cmd.Context(), a, args)
	if err != nil {
		return err
	}
	if !(f.threshold >= 0 && f.threshold <= 1) {
		return usagef("--threshold must be a probability from 0 to 1, given %g", f.threshold)
	}
	if f.top < 0 {
		return usagef("--top must not be negative, given %d", f.top)
	}
	return a.with(cmd, func(s *sluice.Sluice, c config.Config) error {
		if c.Classifier == "" {
			return usagef("--classifier is missing: a name of 'sluice models list', or a folder")
		}
		if s.Router().Configured() {
			return a.classifyByRouter(cmd, s, f, text)
		}
		spinner := a.spin("loading " + c.Classifier)
		parts, err := s.Models().LabelsParts(cmd.Context())
		spinner.Stop()
		if err != nil {
			return err
		}
		if f.batch == "" {
			return a.classifyOne(cmd, s, f, parts, text)
		}
		return f.print(cmd.Context(), a, true, func(texts []string) (func(int, string) any, error) {
			lines, _, err := a.classified(cmd, s, f, parts, texts)
			return func(i int, id string) any {
				lines[i].ID = id
				return lines[i]
			}, err
		})
	})
}

// classified labels texts; best has the best labels below the threshold, for texts without any other.
func (a *app) classified(
	cmd *cobra.Command, s *sluice.Sluice, f *classifyFlags, parts bool, texts []string,
) (lines []classifyLine, best []classifyItem, err error) {
	lines = make([]classifyLine, len(texts))
	if parts {
		found, err := s.Models().Spans(cmd.Context(), texts)
		if err != nil {
			return nil, nil, err
		}
		a.cutTexts(found.Truncated, found.Repaired)
		for i, list := range found.Texts {
			lines[i].Spans = f.spans(list, texts[i])
		}
		return lines, nil, nil
	}
	classes, err := s.Models().Classify(cmd.Context(), texts)
	if err != nil {
		return nil, nil, err
	}
	a.cutTexts(classes.Truncated, classes.Repaired)
	threshold := classes.Threshold
	if f.given {
		threshold = f.threshold
	}
	best = make([]classifyItem, len(texts))
	for i := range texts {
		labels := []classifyItem{}
		for _, j := range classes.Ranked(i, f.top, threshold) {
			labels = append(labels, classifyItem{classes.Labels[j], classes.Row(i)[j]})
		}
		lines[i].Labels = &labels
		best[i] = classifyItem{classes.Label(i), classes.Row(i)[classes.Best[i]]}
	}
	return lines, best, nil
}

// spans returns the parts above the threshold, in the order of the text.
func (f *classifyFlags) spans(list []embed.Span, text string) *[]classifySpan {
	out := []classifySpan{}
	for _, p := range list {
		if float64(p.Probability) >= f.threshold && (f.top == 0 || len(out) < f.top) {
			out = append(out, classifySpan{p.Label, p.Start, p.End, text[p.Start:p.End], p.Probability})
		}
	}
	return &out
}

// cutTexts reports how many texts were truncated or repaired.
func (a *app) cutTexts(truncated, repaired int) {
	if truncated > 0 {
		a.warn("%s %s cut at the model's limit: what is behind was not read", count(truncated, "text"),
			byNumber(truncated, "was", "were"))
	}
	a.repairedTexts(repaired, "")
}

// repairedTexts reports texts that were not text throughout; of says of which line they are.
func (a *app) repairedTexts(n int, of string) {
	if n > 0 {
		a.warn("%s %s NUL bytes or invalid UTF-8, read as U+FFFD%s", count(n, "text"), byNumber(n, "has", "have"), of)
	}
}

func (a *app) classifyOne(cmd *cobra.Command, s *sluice.Sluice, f *classifyFlags, parts bool, text string) error {
	if f.top == 0 && !a.json && !parts {
		f.top = shownLabels
	}
	lines, best, err := a.classified(cmd, s, f, parts, []string{text})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(lines[0])
	}
	var b strings.Builder
	switch {
	case parts && len(*lines[0].Spans) == 0:
		a.note("no part of the text has a label")
	case parts:
		for _, p := range *lines[0].Spans {
			fmt.Fprintf(&b, "%.4f  %s  %s  (bytes %d to %d)\n", p.Probability, printable.Line(p.Label),
				short(p.Text, 60), p.Start, p.End)
		}
	case len(*lines[0].Labels) == 0:
		a.note("no label: the best one, %s, has %.4f, which is below the threshold", best[0].Label, best[0].Probability)
	default:
		for _, l := range *lines[0].Labels {
			fmt.Fprintf(&b, "%.4f  %s\n", l.Probability, printable.Line(l.Label))
		}
	}
	return a.print(b.String())
}

// classifyByRouter runs `classify` with a router.
func (a *app) classifyByRouter(cmd *cobra.Command, s *sluice.Sluice, f *classifyFlags, text string) error {
	if f.batch == "" {
		spinner := a.spin("classifying")
		found, err := s.Router().Route(cmd.Context(), nil, []string{text})
		spinner.Stop()
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(f.routed(found[0]))
		}
		return a.showRoute(f, found[0])
	}
	return f.print(cmd.Context(), a, true, func(texts []string) (func(int, string) any, error) {
		found, err := s.Router().Route(cmd.Context(), nil, texts)
		return func(i int, id string) any {
			line := f.routed(found[i])
			line.ID = id
			return line
		}, err
	})
}

// routed converts a decision to its JSON output, with the labels that --top and --threshold leave.
func (f *classifyFlags) routed(d route.Decision) classifyLine {
	labels := []classifyItem{}
	for _, l := range d.Labels {
		if (f.top == 0 || len(labels) < f.top) && (!f.given || l.Probability >= f.threshold) {
			labels = append(labels, classifyItem{l.Label, float32(l.Probability)})
		}
	}
	return classifyLine{Labels: &labels, Given: &d.Given, Abstained: &d.Abstained, Familiarity: &d.Familiarity}
}

// showRoute prints a decision for a person.
func (a *app) showRoute(f *classifyFlags, d route.Decision) error {
	f.top = cmp.Or(f.top, shownLabels)
	if d.Abstained {
		a.note("no label: the text is unlike those that the router was trained on (familiarity %.3f)", d.Familiarity)
	}
	var b strings.Builder
	for _, l := range *f.routed(d).Labels {
		mark := " "
		if slices.Contains(d.Given, l.Label) {
			mark = ">"
		}
		fmt.Fprintf(&b, "%s %.4f  %s\n", mark, l.Probability, printable.Line(l.Label))
	}
	return a.print(b.String())
}
