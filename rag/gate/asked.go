package gate

import (
	"context"
	"fmt"
	"iter"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// ask takes over the pseudo-queries of live contexts.
func (g *Gate) ask(ids iter.Seq[string]) {
	live := map[string]bool{}
	for _, id := range g.c.QuestionContexts {
		live[id] = ids == nil
	}
	if ids != nil {
		for id := range ids {
			if _, wanted := live[id]; wanted {
				live[id] = true
			}
		}
	}
	questions := engine.Vectors{Dim: g.c.questions.Dim}
	g.questionOf = map[string][]int32{}
	for j, id := range g.c.QuestionContexts {
		if live[id] {
			g.questionOf[id] = append(g.questionOf[id], int32(questions.Rows))
			questions.Data = append(questions.Data, row(g.c.questions, j)...)
			questions.Rows++
			g.asked = append(g.asked, id)
		}
	}
	g.questions = withNorms(questions)
}

// decideAsked is Decide by the pseudo-queries: the best context is that of the nearest one.
func (g *Gate) decideAsked(ctx context.Context, e engine.Interface, queries engine.Vectors) ([]Decision, error) {
	decisions := make([]Decision, queries.Rows)
	var hits [][]engine.Hit
	var err error
	if g.questions.Rows > 0 {
		if hits, err = e.TopK(ctx, queries, g.questions.Vectors, g.c.Metric, 1, nil); err != nil {
			return nil, fmt.Errorf("gate: %w", err)
		}
	}
	for i := range decisions {
		best := retrieve.Result{Score: -1} // no context is left that has a pseudo-query
		if hits != nil {
			best = retrieve.Result{ID: g.asked[hits[i][0].Row], Score: hits[i][0].Score}
		}
		if decisions[i], err = g.Found(best); err != nil {
			return nil, err
		}
	}
	return decisions, nil
}

// decideLogistic is Decide by the features of the candidates.
func (g *Gate) decideLogistic(
	c retrieve.Contexts, hits [][]engine.Hit, queries engine.Vectors, bias []kernels.Biases,
) ([]Decision, error) {
	decisions := make([]Decision, len(hits))
	for i, h := range hits {
		rows := make([]int, len(h))
		for n, hit := range h {
			rows[n] = hit.Row
		}
		var err error
		if decisions[i], err = g.logistic(c, rows, row(queries, i), bias[i]); err != nil {
			return nil, err
		}
	}
	return decisions, nil
}

// logistic decides by some contexts, the best first.
func (g *Gate) logistic(c retrieve.Contexts, rows []int, query []float32, bias kernels.Biases) (Decision, error) {
	w, ok := bias.(*words)
	if !ok {
		return Decision{}, fmt.Errorf("gate: %w: score %s needs the words of the query", kernels.ErrArgument, Logistic)
	}
	f, norm := none(), ref.Norm(query)
	for _, at := range rows {
		cover, bm25 := w.scores(at)
		context := row(c.Vectors, at)
		f.take(ref.Cosine(ref.Dot(query, context), norm, ref.Norm(context)),
			g.questions.nearest(query, norm, g.questionOf[c.IDs[at]], -1), bm25, cover)
	}
	d, err := g.Found(retrieve.Result{ID: c.IDs[rows[0]], Score: g.c.Logistic.Model.Probability(f)})
	d.Features = &f
	return d, err
}

// anyAsked is Any where the score goes by pseudo-queries.
func (g *Gate) anyAsked(
	ctx context.Context, e engine.Interface, c retrieve.Contexts, queries engine.Vectors, bias []kernels.Biases,
) ([]Verdict, error) {
	decisions, err := g.Decide(ctx, e, c, queries, bias)
	if err != nil {
		return nil, err
	}
	verdicts := make([]Verdict, len(decisions))
	for i, d := range decisions {
		verdicts[i] = Verdict{Retrieve: d.Retrieve, Cutoff: d.Cutoff, Stale: g.stale, Gone: g.gone, Warning: d.Warning}
		if d.Retrieve {
			verdicts[i].ContextID = d.ContextID
		}
	}
	return verdicts, nil
}

// eachAsked is Each where the score goes by pseudo-queries. A context without any has −1 as its similarity with them.
func (g *Gate) eachAsked(
	c retrieve.Contexts, rows []int, query engine.Vectors, bias kernels.Biases,
) (decisions []Decision, err error) {
	q := row(query, 0)
	norm := ref.Norm(q)
	for _, at := range rows {
		var d Decision
		if g.ScoredBy().Kind == Logistic {
			d, err = g.logistic(c, []int{at}, q, bias)
		} else {
			d, err = g.Found(retrieve.Result{ID: c.IDs[at],
				Score: g.questions.nearest(q, norm, g.questionOf[c.IDs[at]], -1)})
		}
		if err != nil {
			return nil, err
		}
		decisions = append(decisions, d)
	}
	return decisions, nil
}
