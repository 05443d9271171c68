package retrieve

import (
	"context"

	"github.com/sluice-rag/sluice/engine"
)

// Questions are pseudo-queries: question i, with row i of Vectors, is about the context in Rows[i].
type Questions struct {
	Vectors engine.Vectors
	Rows    []int
}

// noQuestions is the reason for a list without results.
const noQuestions = "no context that is searched has a pseudo-query"

// asked ranks the contexts by the nearest of the questions about each. Several questions may be about one context, so
// more of them are looked for until there are enough contexts, or no more questions.
func (s *search) asked(ctx context.Context) error {
	v := s.Questions.Vectors
	if v.Rows == 0 {
		for i := range s.lists {
			s.byVectors(i, PseudoQuery, string(PseudoQuery), noQuestions, nil)
		}
		return nil
	}
	pending := all(s.q.len())
	allowed, deleted := s.Contexts.allowed(), s.Contexts.Deleted
	wanted := func(row int) bool {
		return (allowed == nil || allowed(row)) && (deleted == nil || !deleted(row))
	}
	for k := min(v.Rows, 4*s.k); len(pending) > 0; k = min(v.Rows, 4*k) {
		hits, err := s.Engine.TopK(ctx, s.some(pending), v, s.Metric, k, nil)
		if err != nil {
			return err
		}
		var more []int
		for j, i := range pending {
			found := s.owners(hits[j], wanted)
			if len(found) < s.k && k < v.Rows {
				more = append(more, i)
				continue
			}
			reason := ""
			if len(found) == 0 {
				reason = noQuestions
			}
			s.byVectors(i, PseudoQuery, string(PseudoQuery), reason, found)
		}
		pending = more
	}
	return nil
}

// owners returns the contexts of questions, each with the score of the first one, at most as many as are ranked.
func (s *search) owners(questions []engine.Hit, wanted func(row int) bool) (found []engine.Hit) {
	seen := map[int]bool{}
	for _, h := range questions {
		row := s.Questions.Rows[h.Row]
		if len(found) == s.k {
			break
		}
		if !seen[row] && wanted(row) {
			seen[row] = true
			found = append(found, engine.Hit{Row: row, Score: h.Score})
		}
	}
	return found
}
