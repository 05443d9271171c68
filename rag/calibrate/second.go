package calibrate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/llm"
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
func (c *run) second(ctx context.Context, cal *gate.Calibration) error {
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
	model, digest, err := c.sufficient(ctx)
	if err != nil {
		return err
	}
	all = all[:min(len(all), most)]
	var with []gate.Asked
	for i, a := range all {
		if model != nil {
			c.progress("second question", int64(i+1), int64(len(all)))
		}
		x, ok, err := c.features(ctx, a, reranker != "", model)
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
	second.Reranker, second.Model, cal.Second = reranker, digest, second
	return nil
}

// sufficiency returns the log odds that passages answer a question, by a language model.
type sufficiency func(ctx context.Context, question string, passages []string) (float64, error)

// sufficient returns what asks the language model, and its digest; nil if that is not to be asked.
func (c *run) sufficient(ctx context.Context) (ask sufficiency, digest string, err error) {
	if !c.SecondModel {
		return nil, "", nil
	}
	model, err := c.Model(ctx)
	if err != nil {
		return nil, "", err
	}
	library, err := prompt.Open(c.Templates)
	return func(ctx context.Context, question string, passages []string) (float64, error) {
		return library.Sufficient(ctx, model, question, passages, llm.Batch)
	}, model.Info().Identity(), err
}

// features weighs the passages of a question, and those without its own context. ok is false if they have no sentence.
func (c *run) features(
	ctx context.Context, a asked, ranks bool, ask sufficiency,
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
