package train

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/engine/cores"
)

// Tokenizer turns texts into the ids that the model reads; *embed.Tokenizer is one.
type Tokenizer interface {
	// Tokens returns the ids of each text after a prefix, including special tokens, cut at maxTokens, and the number
	// of texts that were cut.
	Tokens(texts []string, prefix string, maxTokens int) (ids [][]uint32, cut int, err error)
	// Windows returns a question with the windows of a context.
	Windows(question, context string, maxTokens, stride int) ([]embed.Window, error)
	// Digest returns the digest of the tokenizer's file.
	Digest() string
}

// Input holds the data and the options of a training.
type Input[T any] struct {
	Training   *Data[T]
	Validation *Data[T] // nil: a share of the training data
	Test       *Data[T] // used once, at the end; may be nil; not for encoders
	From       string   // folder of the model that training starts from
	Out        string   // folder of the result, and of the checkpoint during training
	Name       string   // in model.yaml; "": the name of the folder
	Settings   Settings
	Tokenizer  Tokenizer
	Threshold  float64 // of a classifier; 0: derived from the validation texts
	Engine     *engine.Engine
	Hooks      Hooks
}

// The inputs of the trainings of classifiers, encoders and readers. Validation data that are a share of the training
// data are not trained on: of pairs whole groups, of questions all those of a context.
type (
	ClassifierInput = Input[Example]
	EncoderInput    = Input[Pair]
	ReaderInput     = Input[Question]
)

// Result is the outcome of a training.
type Result struct {
	Out         string       `json:"out"`
	Labels      int          `json:"labels,omitempty"`
	Epochs      int          `json:"epochs"` // number of epochs run
	BestEpoch   int          `json:"best_epoch"`
	Before      *Scores      `json:"before,omitempty"` // scores of the initial model; encoders only
	Validation  Scores       `json:"validation"`       // of the best epoch
	Calibration *Calibration `json:"calibration,omitempty"`
	Test        *Scores      `json:"test,omitempty"`
	Report      *Report      `json:"report,omitempty"` // for the test texts, or without any for the validation texts
	Seconds     float64      `json:"seconds"`          // duration of the training, over all its runs
}

// labelledSet is a set with the labels of its texts.
type labelledSet struct {
	set
	targets []target
}

// classifier is the training of a classifier.
type classifier struct {
	task[Example]
	objective  objective
	labels     []string
	train, val labelledSet
	logits     []float32 // of the validation texts, after validate
}

// Classifier trains a classifier and writes it to in.Out. It resumes an unfinished training there with the same data
// and settings. If the context ends, a checkpoint is left.
func Classifier(ctx context.Context, in ClassifierInput) (*Result, error) {
	return train(ctx, in, openClassifier)
}

// openClassifier reads the model, tokenises the texts and computes what is constant over all epochs.
func openClassifier(ctx context.Context, in ClassifierInput) (*run, error) {
	training, validation := split(in)
	for _, other := range []*Examples{in.Validation, in.Test} {
		if other != nil && other.Multi != in.Training.Multi {
			return nil, fmt.Errorf("%w: %s has %s, %s has %s", ErrData, other.Source, kindOf(other.Multi),
				in.Training.Source, kindOf(in.Training.Multi))
		}
	}
	if len(validation) == 0 {
		return nil, fmt.Errorf("%w: %s: nothing is left to validate with: %d texts are too few, or the "+
			"validation share of %v is too small", ErrData, in.Training.Source, len(in.Training.List),
			in.Settings.ValidationShare)
	}
	c := &classifier{labels: slices.Sorted(maps.Keys(countOf(training)))}
	c.in = in
	if err := c.checkLabels(training, validation); err != nil {
		return nil, err
	}
	if err := c.open(true); err != nil {
		return nil, err
	}
	c.in.Settings.MaxTokens = c.base.limit(in.Settings.MaxTokens, c.net.Positions)
	c.net.dropout = dropout{rate: in.Settings.Dropout, seed: in.Settings.Seed}
	c.net.addClassHead(len(c.labels), in.Settings.Seed)
	var err error
	if c.train, err = c.tokenise(ctx, in.Training, training); err != nil {
		return nil, err
	}
	if c.val, err = c.tokenise(ctx, cmp.Or(in.Validation, in.Training), validation); err != nil {
		return nil, err
	}
	c.objective = objective{labels: len(c.labels), multi: in.Training.Multi}
	if in.Settings.ClassWeights {
		c.objective.weights = balanced(c.train.targets, len(c.labels))
	}
	return c.run("classifier", len(training), len(training), c)
}

// checkLabels refuses data with fewer than two labels and warns about labels with too few texts to be learned or
// validated well.
func (c *classifier) checkLabels(training, validation []Example) error {
	if len(c.labels) == 0 || len(c.labels) == 1 && !c.in.Training.Multi {
		return fmt.Errorf("%w: %s: all texts have the label %q: there is nothing to tell apart", ErrData,
			c.in.Training.Source, strings.Join(c.labels, ""))
	}
	count := countOf(training)
	single := slices.DeleteFunc(slices.Clone(c.labels), func(l string) bool { return count[l] > 1 })
	if len(single) > 0 {
		c.in.Hooks.warn("labels with one text to train on: %s", list(single))
	}
	validated := countOf(validation)
	none := slices.DeleteFunc(slices.Clone(c.labels), func(l string) bool { return validated[l] > 0 })
	if len(none) > 0 {
		c.in.Hooks.warn("labels without a text to validate with, so that the scores say nothing of them: %s",
			list(none))
	}
	return nil
}

// list returns the first few labels in quotes.
func list(labels []string) string {
	var quoted []string
	for _, l := range labels[:min(len(labels), shown)] {
		quoted = append(quoted, strconv.Quote(l))
	}
	text := strings.Join(quoted, ", ")
	if more := len(labels) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// tokenise converts examples of a file to ids, targets and, if layers are frozen, features.
func (c *classifier) tokenise(ctx context.Context, of *Examples, list []Example) (labelledSet, error) {
	var s labelledSet
	var err error
	if s.targets, err = targetsOf(of, list, c.labels); err != nil {
		return s, err
	}
	texts := make([]string, len(list))
	for i, x := range list {
		texts[i] = x.Text
	}
	cut := 0
	if s.ids, cut, err = tokens(c.in.Tokenizer, texts, "", c.in.Settings.MaxTokens); err != nil {
		return s, err
	}
	if cut > 0 {
		c.in.Hooks.warn("%s: %d of %d texts are longer than %d tokens: their ends are not read", of.Source, cut,
			len(texts), c.in.Settings.MaxTokens)
	}
	s.features, err = freeze(ctx, c.net, &s.set, c.in.Hooks.Prepare)
	return s, err
}

// tokens is Tokenizer.Tokens with ids of the type that networks take.
func tokens(t Tokenizer, texts []string, prefix string, limit int) (ids [][]int32, cut int, err error) {
	raw, cut, err := t.Tokens(texts, prefix, limit)
	if err != nil {
		return nil, 0, err
	}
	ids = make([][]int32, len(raw))
	for i, row := range raw {
		for _, id := range row {
			ids[i] = append(ids[i], int32(id))
		}
	}
	return ids, cut, nil
}

// freeze computes the output of the frozen layers for the texts of a set. It returns nil if no layer is frozen or the
// output would take more than a quarter of the free memory (1 GiB where that is not known).
func freeze(ctx context.Context, n *network[float32], s *set, report func(done, total int)) ([][]float32, error) {
	if n.from == 0 {
		return nil, nil
	}
	only := n.from == n.Layers && n.first
	size := len(s.ids) * n.Hidden
	if !only {
		size = 0
		for _, t := range s.ids {
			size += len(t) * n.Hidden
		}
	}
	free, _, known := cores.AvailableMemory()
	if !known {
		free = 4 << 30
	}
	if int64(size) > free/4/4 {
		return nil, nil
	}
	out := make([][]float32, 0, len(s.ids))
	for _, items := range portions(s.ids) {
		x, b, err := featuresOf(n, s, items)
		if err != nil {
			return nil, err
		}
		for t := range items {
			from, to := b.starts[t], b.starts[t+1]
			if only {
				from, to = t, t+1
			}
			out = append(out, slices.Clone(x[from*n.Hidden:to*n.Hidden]))
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if report != nil {
			report(len(out), len(s.ids))
		}
	}
	return out, nil
}

// portions divides texts into runs of indices that are processed together if no gradients are needed: up to 1,024
// tokens, or one text.
func portions(ids [][]int32) [][]int {
	const budget = 1024
	var out [][]int
	size := 0
	for i, t := range ids {
		if size += len(t); i == 0 || size > budget {
			out, size = append(out, nil), len(t)
		}
		out[len(out)-1] = append(out[len(out)-1], i)
	}
	return out
}

// step computes the gradients of some training texts.
func (c *classifier) step(items []int) (float64, error) {
	p, err := passOf(c.net, &c.train.set, items)
	if err != nil {
		return 0, err
	}
	targets := make([]target, len(items))
	for i, at := range items {
		targets[i] = c.train.targets[at]
	}
	l, d := loss(&c.objective, p.logits, targets)
	return l, c.net.gradients(p, d)
}

// validate scores the validation texts.
func (c *classifier) validate() (s Scores, err error) {
	if c.logits, err = logitsOf(c.net, &c.val.set); err != nil {
		return s, err
	}
	return score(&c.objective, c.logits, c.val.targets), nil
}

// better reports whether a has the higher accuracy, or the same accuracy and a smaller loss.
func (c *classifier) better(a, b Scores) bool {
	return a.Accuracy > b.Accuracy || a.Accuracy == b.Accuracy && a.Loss < b.Loss
}

// complete calibrates the best epoch and tests it.
func (c *classifier) complete(ctx context.Context, out *Result) (err error) {
	if out.Validation, err = c.validate(); err != nil {
		return err
	}
	out.Labels = len(c.labels)
	out.Report = report(&c.objective, c.labels, c.logits, c.val.targets)
	calibration := calibrate(&c.objective, c.logits, c.val.targets)
	if c.in.Threshold > 0 {
		calibration.Threshold = c.in.Threshold
		calibration.Kept, calibration.Precision = above(
			decisions(&c.objective, c.logits, c.val.targets, calibration.Temperature), c.in.Threshold)
	}
	out.Calibration = &calibration
	if c.in.Test != nil {
		out.Test, out.Report, err = c.test(ctx)
	}
	return err
}

// test scores the test texts. Texts with a label that was not trained cannot be classified correctly; their number is
// reported.
func (c *classifier) test(ctx context.Context) (*Scores, *Report, error) {
	known := *c.in.Test
	known.List = nil
	strange := map[string]bool{}
	for _, x := range c.in.Test.List {
		new := slices.DeleteFunc(slices.Clone(x.Labels), func(l string) bool { return slices.Contains(c.labels, l) })
		for _, l := range new {
			strange[l] = true
		}
		if len(new) == 0 {
			known.List = append(known.List, x)
		}
	}
	if missed := len(c.in.Test.List) - len(known.List); missed > 0 {
		c.in.Hooks.warn("%s: %d of %d texts have labels that the training does not, and are left out of the scores: %s",
			c.in.Test.Source, missed, len(c.in.Test.List), list(slices.Sorted(maps.Keys(strange))))
	}
	if len(known.List) == 0 {
		return nil, nil, fmt.Errorf("%w: %s: no text has a label that was trained", ErrData, c.in.Test.Source)
	}
	s, err := c.tokenise(ctx, &known, known.List)
	if err != nil {
		return nil, nil, err
	}
	logits, err := logitsOf(c.net, &s.set)
	if err != nil {
		return nil, nil, err
	}
	scores := score(&c.objective, logits, s.targets)
	return &scores, report(&c.objective, c.labels, logits, s.targets), nil
}

var _ Tokenizer = (*embed.Tokenizer)(nil)
