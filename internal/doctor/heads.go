package doctor

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/rag/route"
)

// classifier loads the configured model, if any, and labels a text alone and in a batch.
func classifier(ctx context.Context, o Options) []Check {
	const name = "classifier"
	if o.Classifier == "" {
		return nil
	}
	if route.IsRouter(o.Classifier) {
		if _, err := route.Load(o.Classifier); err != nil {
			return failed(name, err, "sluice train router")
		}
		return one(Check{Name: name, Status: OK, Detail: o.Classifier + ": a router"})
	}
	dir, bad := head(name, o.Classifier)
	if bad != nil {
		return bad
	}
	kind, err := embed.KindOf(dir)
	if err != nil {
		return failed(name, err, headHint)
	}
	var info embed.Info
	var apart float64
	if kind == embed.KindTokenClassifier {
		info, apart, err = tokens(ctx, dir, o)
	} else {
		info, apart, err = classes(ctx, dir, o)
	}
	return headCheck(name, info, "labels", apart, err)
}

func classes(ctx context.Context, dir string, o Options) (info embed.Info, apart float64, err error) {
	c, err := embed.OpenClassifier(ctx, dir, o.embedding())
	if err != nil {
		return info, 0, err
	}
	defer c.Close()
	together, err := c.Classify(ctx, probes[:])
	if err != nil {
		return info, 0, err
	}
	for i := range probes {
		alone, err := c.Classify(ctx, probes[i:i+1])
		if err != nil {
			return info, 0, err
		}
		for j, p := range alone.Row(0) {
			apart = max(apart, math.Abs(float64(p)-float64(together.Row(i)[j])))
		}
	}
	return c.Info(), apart, nil
}

func tokens(ctx context.Context, dir string, o Options) (info embed.Info, apart float64, err error) {
	c, err := embed.OpenTokenClassifier(ctx, dir, o.embedding())
	if err != nil {
		return info, 0, err
	}
	defer c.Close()
	together, err := c.Spans(ctx, probes[:])
	if err != nil {
		return info, 0, err
	}
	for i := range probes {
		alone, err := c.Spans(ctx, probes[i:i+1])
		if err != nil {
			return info, 0, err
		}
		if len(alone.Texts[0]) != len(together.Texts[i]) {
			return info, 1, nil
		}
		for j, s := range alone.Texts[0] {
			apart = max(apart, math.Abs(float64(s.Probability)-float64(together.Texts[i][j].Probability)))
		}
	}
	return c.Info(), apart, nil
}

// reranker loads the configured cross-encoder, if any, and scores a text alone and in a batch.
func reranker(ctx context.Context, o Options) []Check {
	const name = "reranker"
	if o.Reranker == "" {
		return nil
	}
	dir, bad := head(name, o.Reranker)
	if bad != nil {
		return bad
	}
	r, err := embed.OpenReranker(ctx, dir, o.embedding())
	if err != nil {
		return failed(name, err, headHint)
	}
	defer r.Close()
	const query = "What lets water pass?"
	together, err := r.Score(ctx, query, probes[:])
	var apart float64
	for i := 0; err == nil && i < len(probes); i++ {
		var alone *embed.Scores
		if alone, err = r.Score(ctx, query, probes[i:i+1]); err == nil {
			apart = max(apart, math.Abs(float64(alone.Probability(0))-float64(together.Probability(i))))
		}
	}
	return headCheck(name, r.Info(), "score", apart, err)
}

// entailment loads the configured model, if any, and reads a pair alone and in a batch.
func entailment(ctx context.Context, o Options) []Check {
	const name = "entailment"
	if o.Entailment == "" {
		return nil
	}
	dir, bad := head(name, o.Entailment)
	if bad != nil {
		return bad
	}
	e, err := embed.OpenEntailment(ctx, dir, o.embedding())
	if err != nil {
		return failed(name, err, headHint)
	}
	defer e.Close()
	hypotheses := slices.Repeat([]string{"Water passes."}, len(probes))
	together, err := e.Entails(ctx, probes[:], hypotheses)
	var apart float64
	for i := 0; err == nil && i < len(probes); i++ {
		var alone []float64
		if alone, err = e.Entails(ctx, probes[i:i+1], hypotheses[:1]); err == nil {
			apart = max(apart, math.Abs(alone[0]-together[i]))
		}
	}
	return headCheck(name, e.Info(), "labels", apart, err)
}

// reader loads the configured reader, if any, and reads a passage alone and in a batch.
func reader(ctx context.Context, o Options) []Check {
	const name = "reader"
	if o.Reader == "" {
		return nil
	}
	dir, bad := head(name, o.Reader)
	if bad != nil {
		return bad
	}
	r, err := embed.OpenReader(ctx, dir, o.embedding())
	if err != nil {
		return failed(name, err, headHint)
	}
	defer r.Close()
	const question = "What lets water pass?"
	together, err := r.Read(ctx, question, probes[:])
	var apart float64
	for i := 0; err == nil && i < len(probes); i++ {
		var alone []embed.Reading
		if alone, err = r.Read(ctx, question, probes[i:i+1]); err == nil {
			apart = max(apart, math.Abs(alone[0].Score-together[i].Score))
		}
	}
	return headCheck(name, r.Info(), "logits", apart, err)
}

const headHint = "sluice models list; a name or a folder is taken; sluice models verify"

// head finds a model's folder; bad has its failures.
func head(name, model string) (dir string, bad []Check) {
	dir, err := models.Locate(model)
	if err == nil && !embed.Available {
		err = embed.ErrUnavailable
	}
	switch {
	case err != nil && absent(err):
		return "", notThere(name, err)
	case err != nil:
		return "", failed(name, err, headHint)
	}
	return dir, nil
}

func headCheck(name string, info embed.Info, what string, apart float64, err error) []Check {
	if err == nil && !(apart <= batchTolerance) {
		err = fmt.Errorf("a text in a batch and alone differ by %.2g, more than %.0g", apart, batchTolerance)
	}
	if err != nil {
		return failed(name, err, headHint)
	}
	return one(Check{Name: name, Status: OK, Detail: fmt.Sprintf("%s (%s, %d %s, %d tokens): batch = single to %.1g",
		info.Name, info.Architecture, info.Dim, what, info.MaxTokens, apart)})
}
