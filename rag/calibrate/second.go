package calibrate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/kept"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/prompt"
)

// Questions that are asked at most, one of each context: the sentences of what a search finds for them are embedded,
// and a language model reads all of it.
const (
	secondQuestions      = 150
	secondModelQuestions = 100 // with Options.SecondModel
)

// second makes the second question, and the reader's threshold, of the calibration's questions with the passages that a
// search finds for them, and with those that it finds without the question's own context. Where nobody has asked for a
// second question, too few contexts are no error.
func (c *run) second(ctx context.Context, cal *gate.Calibration, model sufficiency) error {
	cal.SecondOff = c.Second == gate.NoSecond
	reader, err := c.reader(ctx)
	if err != nil || reader == nil && cal.SecondOff {
		return err
	}
	most := secondQuestions
	if c.SecondModel {
		most = secondModelQuestions
	}
	n := most
	if reader != nil {
		n = max(n, readQuestions)
	}
	all, err := c.ask(ctx, n, reader)
	if err != nil {
		return err
	}
	if reader != nil {
		readerThreshold(cal, reader, all)
	}
	if cal.SecondOff {
		return nil
	}
	reranker, err := c.base.Reranker(ctx)
	if err != nil {
		return err
	}
	all = all[:min(len(all), most)]
	var with []gate.Asked
	for i, a := range all {
		if model.ask != nil {
			c.progress("second question", int64(i+1), int64(len(all)))
		}
		x, ok, err := c.features(ctx, a, reranker != "", model.ask)
		if err != nil {
			return err
		}
		if ok {
			with = append(with, x)
		}
	}
	second, err := gate.NewSecond(c.Second, c.Seed, with)
	switch {
	case errors.Is(err, gate.ErrPromise) && c.Second == "" && !c.SecondModel:
		c.base.Logger().Debug(fmt.Sprintf("no second question: %v", err))
		return nil
	case err != nil:
		return err
	}
	if reader != nil {
		second.Reader = reader.Info().Digest
	}
	second.Reranker, second.Model, cal.Second = reranker, model.identity, second
	return nil
}

// sufficiency asks a language model whether passages answer a question.
type sufficiency struct {
	ask      func(ctx context.Context, question string, passages []string) (float64, error) // log odds; nil: not asked
	identity string                                                                         // of the model
	answers  *kept.Answers
}

// sufficient opens the language model, if it is to be asked, and its kept answers. It asks once, so that a model that
// does not tell its probabilities is an error before the work.
func (c *run) sufficient(ctx context.Context) (s sufficiency, err error) {
	s.answers = &kept.Answers{}
	if !c.SecondModel || c.Second == gate.NoSecond {
		return s, nil
	}
	model, err := c.Model(ctx)
	if err != nil {
		return s, err
	}
	library, err := prompt.Open(c.Templates)
	if err != nil {
		return s, err
	}
	s.identity = model.Info().Identity()
	if s.answers, err = kept.Open(c.kept("answers", model.Info(), "")); err != nil {
		return s, err
	}
	s.ask = func(ctx context.Context, question string, passages []string) (float64, error) {
		keeping := kept.Generator{Generator: model, Answers: s.answers}
		return library.Sufficient(ctx, keeping, question, passages, llm.Batch)
	}
	if _, err = s.ask(ctx, "Where is the lighthouse?", []string{"The lighthouse is on the island."}); err != nil {
		err = errors.Join(err, s.answers.Close())
	}
	return s, err
}

// features weighs the passages of a question, and those without its own context. ok is false if they have no sentence.
func (c *run) features(
	ctx context.Context, a asked, ranks bool, ask func(context.Context, string, []string) (float64, error),
) (x gate.Asked, ok bool, err error) {
	x.Found = a.own >= 0
	withRead, withoutRead := 0., 0.
	if a.readings != nil {
		withRead, withoutRead = a.read()
	}
	for _, side := range []struct {
		passages []string
		read     float64
		to       *gate.Features
	}{{a.shown(), withRead, &x.With}, {a.without(), withoutRead, &x.Without}} {
		e, ok, err := c.snap.Evidence(ctx, a.Text, a.vector, side.passages)
		if err != nil || !ok {
			return x, false, err
		}
		side.to.Evidence = e.Score
		if a.readings != nil {
			side.to.Reader = new(max(side.read, gate.NoSpan))
		}
		if ranks {
			scores, err := c.base.Rerank(ctx, a.Text, side.passages)
			if err != nil {
				return x, false, err
			}
			side.to.Reranker = new(slices.Max(scores))
		}
		if ask != nil {
			odds, err := ask(ctx, a.Text, side.passages)
			if err != nil {
				return x, false, err
			}
			side.to.Model = &odds
		}
	}
	return x, true, nil
}
