package train

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/eval/squad"
)

// ReaderScores are the measures of SQuAD 2.0 without a threshold, beside the best ones. A question's measure of having
// no answer is the score of no answer minus that of the best answer.
type ReaderScores struct {
	squad.Scores `yaml:",inline"`
	// AUROC says how well that measure tells answerable questions from others; 0 where there is only one kind.
	AUROC float64 `json:"auroc,omitempty" yaml:"auroc,omitempty"`
}

// windowSet holds tokenised questions.
type windowSet struct {
	set
	questions []Question
	windows   []window
}

// reader is the training of a reader.
type reader struct {
	task[Question]
	train, val windowSet
}

// Reader trains a reader and writes it to in.Out, like Classifier. It has the architecture of the model in in.From:
// BERT, DistilBERT, RoBERTa (XLM-R, CamemBERT) or MPNet.
func Reader(ctx context.Context, in ReaderInput) (*Result, error) { return train(ctx, in, openReader) }

// openReader reads the model and tokenises the questions.
func openReader(ctx context.Context, in ReaderInput) (*run, error) {
	training, validation, err := splitGroups(in, "questions", func(q Question) string { return q.Context })
	if err != nil {
		return nil, err
	}
	r := &reader{}
	r.in = in
	if err := r.open(false); err != nil {
		return nil, err
	}
	r.in.Settings.MaxTokens = min(cmp.Or(in.Settings.MaxTokens, r.net.Positions), r.net.Positions)
	r.net.dropout = dropout{rate: in.Settings.Dropout, seed: in.Settings.Seed}
	r.net.addSpanHead(in.Settings.Seed)
	if r.train, err = r.tokenise(ctx, in.Training, training); err != nil {
		return nil, err
	}
	if r.val, err = r.tokenise(ctx, cmp.Or(in.Validation, in.Training), validation); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(r.train.windows, func(w window) bool { return w.end > 0 }) {
		return nil, fmt.Errorf("%w: %s: none of the questions to train on has an answer", ErrData,
			in.Training.Source)
	}
	return r.run("reader", len(training), len(r.train.windows), r)
}

// tokenise converts questions to windows and, if layers are frozen, features.
func (r *reader) tokenise(ctx context.Context, of *Questions, list []Question) (windowSet, error) {
	s := windowSet{questions: list}
	lost := 0
	for i, q := range list {
		windows, err := r.in.Tokenizer.Windows(q.Text, q.Context, r.in.Settings.MaxTokens, r.in.Settings.Stride)
		if err != nil {
			return s, fmt.Errorf("%s: question %q: %w", of.Source, short(q.Text), err)
		}
		whole := false
		for _, w := range windows {
			s.add(i, q, w, r.net.types != nil)
			whole = whole || s.windows[len(s.windows)-1].end > 0
		}
		if len(q.Answers) > 0 && !whole {
			lost++
		}
	}
	if lost > 0 {
		r.in.Hooks.warn("%s: the answers of %d of %d questions are in no window of %d tokens as a whole", of.Source,
			lost, len(list), r.in.Settings.MaxTokens)
	}
	if err := r.net.checkTypes(s.types); err != nil {
		return s, err
	}
	var err error
	s.features, err = freeze(ctx, r.net, &s.set, r.in.Hooks.Prepare)
	return s, err
}

// add appends a window of a question.
func (s *windowSet) add(question int, q Question, w embed.Window, typed bool) {
	ids, types := make([]int32, len(w.IDs)), make([]uint8, len(w.IDs))
	for i, id := range w.IDs {
		ids[i], types[i] = int32(id), uint8(min(w.Types[i], 255))
	}
	s.ids = append(s.ids, ids)
	if typed {
		s.types = append(s.types, types)
	}
	x := window{Window: embed.Window{First: w.First, At: w.At}, question: question}
	if len(q.Answers) > 0 {
		x.aim(q.Answers[0])
	}
	s.windows = append(s.windows, x)
}

// aim sets the tokens of an answer, if the window has all of it.
func (w *window) aim(a Answer) {
	from, to := a.Start, a.Start+len(a.Text)
	if len(w.At) == 0 || w.At[0][0] > from || w.At[len(w.At)-1][1] < to {
		return
	}
	start := slices.IndexFunc(w.At, func(t [2]int) bool { return t[1] > from })
	end := len(w.At) - 1
	for end > start && w.At[end][0] >= to {
		end--
	}
	w.start, w.end = w.First+start, w.First+end
}

// step computes the gradients of some windows.
func (r *reader) step(items []int) (float64, error) {
	p, err := passOf(r.net, &r.train.set, items)
	if err != nil {
		return 0, err
	}
	windows, starts := make([]window, len(items)), make([]int, len(items)+1)
	for i, at := range items {
		windows[i], starts[i+1] = r.train.windows[at], starts[i]+len(r.train.ids[at])
	}
	l, d := spanLoss(p.logits, starts, windows)
	return l, r.net.gradients(p, d)
}

// validate reads the validation questions.
func (r *reader) validate() (Scores, error) { return r.score(&r.val) }

// complete tests the best epoch.
func (r *reader) complete(ctx context.Context, out *Result) error {
	if r.in.Test == nil {
		return nil
	}
	s, err := r.tokenise(ctx, r.in.Test, r.in.Test.List)
	if err != nil {
		return err
	}
	scores, err := r.score(&s)
	out.Test = &scores
	return err
}

// score reads all questions of a set.
func (r *reader) score(s *windowSet) (Scores, error) {
	logits, err := logitsOf(r.net, &s.set)
	if err != nil {
		return Scores{}, err
	}
	starts := make([]int, len(s.ids)+1)
	readings := make([]embed.Reading, len(s.questions))
	for i, w := range s.windows {
		starts[i+1] = starts[i] + len(s.ids[i])
		one := w.Read(logits[2*starts[i] : 2*starts[i+1]])
		if i > 0 && s.windows[i-1].question == w.question {
			readings[w.question].Merge(one)
		} else {
			readings[w.question] = one
		}
	}
	out := scoreReadings(s.questions, readings)
	out.Loss, _ = spanLoss(logits, starts, s.windows)
	return out, nil
}

// scoreReadings compares what was read with the true answers.
func scoreReadings(questions []Question, readings []embed.Reading) Scores {
	list := make([]squad.Extracted, len(questions))
	var answerable, other []float64
	for i, q := range questions {
		r := readings[i]
		list[i] = squad.Extracted{Answer: q.Context[r.Start:r.End], NoAnswer: r.Null - r.Score}
		for _, a := range q.Answers {
			list[i].Truths = append(list[i].Truths, a.Text)
		}
		if len(q.Answers) > 0 {
			answerable = append(answerable, r.Score-r.Null)
		} else {
			other = append(other, r.Score-r.Null)
		}
	}
	scores := &ReaderScores{Scores: squad.Score(list, math.Inf(1))}
	scores.AUROC = squad.AUROC(answerable, other)
	return Scores{Examples: len(questions), Accuracy: scores.BestExact, F1: scores.BestF1, Reader: scores}
}

// better compares the sums of two measures: how well answers are found (F1), and how well questions with and without an
// answer are told apart (AUROC). F1 over all questions alone is highest for a weak reader that never answers.
func (*reader) better(a, b Scores) bool {
	x, y := a.Reader.HasAns.F1+a.Reader.AUROC, b.Reader.HasAns.F1+b.Reader.AUROC
	return x > y || x == y && a.Loss < b.Loss
}

// write writes the reader to its folder.
func (r *reader) write(out *Result) error {
	y := r.describe("reader", out)
	y.NullThreshold = -out.Validation.Reader.F1Threshold
	return r.writeLike("ForQuestionAnswering", y)
}
