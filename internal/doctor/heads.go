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

// head is an open model with a function that returns the model's outputs for texts.
type head struct {
	model interface {
		Info() embed.Info
		Close() error
	}
	read func(texts []string) ([][]float64, error)
}

// classifier loads the configured model, if any, and labels a text alone and in a batch.
func classifier(ctx context.Context, o Options) []Check {
	const name = "classifier"
	if route.IsRouter(o.Classifier) {
		if _, err := route.Load(o.Classifier); err != nil {
			return failed(name, err, "sluice train router")
		}
		return one(Check{Name: name, Status: OK, Detail: o.Classifier + ": a router"})
	}
	return o.checkHead(name, o.Classifier, "labels", func(dir string) (h head, err error) {
		kind, err := embed.KindOf(dir)
		if err != nil {
			return h, err
		}
		if kind == embed.KindTokenClassifier {
			return o.tokens(ctx, dir)
		}
		c, err := embed.OpenClassifier(ctx, dir, o.embedding())
		return head{c, func(texts []string) (all [][]float64, err error) {
			classes, err := c.Classify(ctx, texts)
			for i := 0; err == nil && i < len(texts); i++ {
				all = append(all, numbers(classes.Row(i)))
			}
			return all, err
		}}, err
	})
}

func (o Options) tokens(ctx context.Context, dir string) (head, error) {
	c, err := embed.OpenTokenClassifier(ctx, dir, o.embedding())
	return head{c, func(texts []string) (all [][]float64, err error) {
		spans, err := c.Spans(ctx, texts)
		for i := 0; err == nil && i < len(texts); i++ {
			var row []float64
			for _, s := range spans.Texts[i] {
				row = append(row, float64(s.Probability))
			}
			all = append(all, row)
		}
		return all, err
	}}, err
}

// reranker loads the configured cross-encoder, if any, and scores a text alone and in a batch.
func reranker(ctx context.Context, o Options) []Check {
	return o.checkHead("reranker", o.Reranker, "score", func(dir string) (head, error) {
		r, err := embed.OpenReranker(ctx, dir, o.embedding())
		return head{r, func(texts []string) (all [][]float64, err error) {
			scores, err := r.Score(ctx, "What lets water pass?", texts)
			for i := 0; err == nil && i < len(texts); i++ {
				all = append(all, []float64{float64(scores.Probability(i))})
			}
			return all, err
		}}, err
	})
}

// entailment loads the configured model, if any, and reads a pair alone and in a batch.
func entailment(ctx context.Context, o Options) []Check {
	return o.checkHead("entailment", o.Entailment, "labels", func(dir string) (head, error) {
		e, err := embed.OpenEntailment(ctx, dir, o.embedding())
		return head{e, func(texts []string) (all [][]float64, err error) {
			scores, err := e.Entails(ctx, texts, slices.Repeat([]string{"Water passes."}, len(texts)))
			for _, s := range scores {
				all = append(all, []float64{s})
			}
			return all, err
		}}, err
	})
}

// reader loads the configured reader, if any, and reads a passage alone and in a batch.
func reader(ctx context.Context, o Options) []Check {
	return o.checkHead("reader", o.Reader, "logits", func(dir string) (head, error) {
		r, err := embed.OpenReader(ctx, dir, o.embedding())
		return head{r, func(texts []string) (all [][]float64, err error) {
			readings, err := r.Read(ctx, "What lets water pass?", texts)
			for _, x := range readings {
				all = append(all, []float64{x.Score})
			}
			return all, err
		}}, err
	})
}

// checkHead opens a model and compares its outputs for texts in a batch with those for each text alone. dims names what
// the model's dimension counts, such as "labels". It checks nothing if model is empty.
func (o Options) checkHead(name, model, dims string, open func(dir string) (head, error)) []Check {
	const hint = "sluice models list; a name or a folder is taken; sluice models verify"
	if model == "" {
		return nil
	}
	dir, err := models.Locate(model)
	if err == nil && !embed.Available {
		err = embed.ErrUnavailable
	}
	if err != nil {
		return unusable(name, err, hint)
	}
	h, err := open(dir)
	if err != nil {
		return failed(name, err, hint)
	}
	defer h.model.Close()
	apart, err := compareBatch(batchTolerance, h.read)
	if err != nil {
		return failed(name, err, hint)
	}
	info := h.model.Info()
	return one(Check{Name: name, Status: OK, Detail: fmt.Sprintf("%s (%s, %d %s, %d tokens): batch = single to %.1g",
		info.Name, info.Architecture, info.Dim, dims, info.MaxTokens, apart)})
}

// difference returns the largest absolute difference between the numbers of two lists: NaN if one of them is NaN, and 1
// if the lists have different lengths.
func difference(a, b []float64) (apart float64) {
	if len(a) != len(b) {
		return 1
	}
	for i := range a {
		apart = max(apart, math.Abs(a[i]-b[i])) // max keeps a NaN
	}
	return apart
}

// compareBatch returns the largest difference between the outputs for texts in a batch and for each text alone. A
// difference above the tolerance, or NaN, is an error.
func compareBatch(tolerance float64, read func(texts []string) ([][]float64, error)) (apart float64, err error) {
	together, err := read(probes[:])
	if err != nil {
		return 0, err
	}
	for i := range probes {
		alone, err := read(probes[i : i+1])
		if err != nil {
			return 0, err
		}
		apart = max(apart, difference(alone[0], together[i]))
	}
	if !(apart <= tolerance) {
		return apart, fmt.Errorf("a text in a batch and alone differ by %.2g, more than %.0g", apart, tolerance)
	}
	return apart, nil
}

func numbers(row []float32) []float64 {
	all := make([]float64, len(row))
	for i, x := range row {
		all[i] = float64(x)
	}
	return all
}
