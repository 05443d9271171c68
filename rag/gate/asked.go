package gate

import (
	"context"
	"fmt"
	"iter"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels/ref"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// Questions returns the vectors of the pseudo-queries and the ids of their contexts, if they were kept. They must not
// be changed.
func (c *Calibration) Questions() (engine.Vectors, []string) { return c.questions, c.QuestionContexts }

// ask takes the pseudo-queries of live contexts from the calibration.
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

// decideAsked implements Decide for PseudoQuery scores: the best context is the context of the nearest pseudo-query.
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
		best := retrieve.Result{Score: -1} // if no live context has a pseudo-query
		if hits != nil {
			best = retrieve.Result{ID: g.asked[hits[i][0].Row], Score: hits[i][0].Score}
		}
		if decisions[i], err = g.Found(best); err != nil {
			return nil, err
		}
	}
	return decisions, nil
}

// eachAsked implements Each for PseudoQuery scores. A context without pseudo-queries has the similarity −1.
func (g *Gate) eachAsked(c retrieve.Contexts, rows []int, query engine.Vectors) (decisions []Decision, err error) {
	q := row(query, 0)
	norm := ref.Norm(q)
	for _, at := range rows {
		d, err := g.Found(retrieve.Result{ID: c.IDs[at],
			Score: g.questions.nearest(q, norm, g.questionOf[c.IDs[at]], -1)})
		if err != nil {
			return nil, err
		}
		decisions = append(decisions, d)
	}
	return decisions, nil
}

// normed holds vectors with their norms, so that a cosine takes one dot product instead of three. The result is the
// same bit for bit.
type normed struct {
	engine.Vectors
	norms []float64
}

func withNorms(v engine.Vectors) normed {
	n := normed{v, make([]float64, v.Rows)}
	for i := range n.norms {
		n.norms[i] = ref.Norm(row(v, i))
	}
	return n
}

// cosine returns the canonical cosine of row i and a query with the given norm.
func (v normed) cosine(i int, query []float32, norm float64) float64 {
	return ref.Cosine(ref.Dot(query, row(v.Vectors, i)), norm, v.norms[i])
}

// nearest returns the largest cosine of a query with the given norm over the rows in some, except row but (−1: no
// exception). It returns −1 if no row is left.
func (v normed) nearest(query []float32, norm float64, some []int32, but int32) float64 {
	best := -1.
	for _, i := range some {
		if i != but {
			best = max(best, v.cosine(int(i), query, norm))
		}
	}
	return best
}
