package calibrate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/rag/gate"
)

// secondQuestions are asked at most, one of each context: the sentences of what a search finds for them are embedded.
const secondQuestions = 150

// second makes the second question, and the reader's threshold, of the calibration's questions with the passages that a
// search finds for them, and with those that it finds without the question's own context. Where nobody has asked for a
// second question, too few contexts are no error.
func (c *run) second(ctx context.Context, cal *gate.Calibration) error {
	cal.SecondOff = c.Second == gate.NoSecond
	reader, err := c.reader(ctx)
	if err != nil || reader == nil && cal.SecondOff {
		return err
	}
	n := secondQuestions
	if reader != nil {
		n = readQuestions
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
	var with []gate.Asked
	for _, a := range all[:min(len(all), secondQuestions)] {
		x, ok, err := c.features(ctx, a, reranker != "")
		if err != nil {
			return err
		}
		if ok {
			with = append(with, x)
		}
	}
	second, err := gate.NewSecond(c.Second, c.Seed, with)
	switch {
	case errors.Is(err, gate.ErrPromise) && c.Second == "":
		c.base.Logger().Debug(fmt.Sprintf("no second question: %v", err))
		return nil
	case err != nil:
		return err
	}
	if reader != nil {
		second.Reader = reader.Info().Digest
	}
	second.Reranker, cal.Second = reranker, second
	return nil
}

// features weighs the passages of a question, and those without its own context. ok is false if they have no sentence.
func (c *run) features(ctx context.Context, a asked, ranks bool) (x gate.Asked, ok bool, err error) {
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
	}
	return x, true, nil
}
