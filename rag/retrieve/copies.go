package retrieve

import (
	"context"
	"crypto/sha256"
	"slices"
)

// rankDistinct is rank with copies of a text at one place, that of the best. Where copies leave a list with fewer
// candidates than were asked for, more are ranked until it is full or has all contexts that there are.
func (s *search) rankDistinct(ctx context.Context) error {
	metric, k := s.Metric, s.k
	for {
		if err := s.rank(ctx); err != nil {
			return err
		}
		short := false
		for i := range s.lists {
			list := &s.lists[i]
			found := len(list.Results)
			list.Results = s.Contexts.distinct(list.Results)
			short = short || found >= s.k && len(list.Results) < k
			list.Results = list.Results[:min(k, len(list.Results))]
		}
		if !short || s.k >= s.Contexts.count() {
			return nil
		}
		s.Metric, s.Nearest, s.k = metric, nil, min(4*s.k, s.Contexts.count())
		s.begin()
	}
}

// distinct leaves one result of each text, with the ids of the others.
func (c Contexts) distinct(results []Result) []Result {
	if c.Digests == nil || len(results) < 2 {
		return results
	}
	at, kept := make(map[[sha256.Size]byte]int, len(results)), make([]Result, 0, len(results))
	for _, r := range results {
		digest := c.Digests[r.Row]
		if i, ok := at[digest]; ok {
			kept[i].Copies = append(slices.Clip(kept[i].Copies), r.ID)
			continue
		}
		at[digest] = len(kept)
		kept = append(kept, r)
	}
	return kept
}
