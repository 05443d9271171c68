package retrieve

import (
	"context"
	"crypto/sha256"
	"slices"
)

// rankDistinct is rank with copies of a text at one place, that of the best. Where copies leave a list with fewer
// candidates than were asked for, more are ranked until it is full or has all contexts that there are.
func (s *search) rankDistinct(ctx context.Context) (err error) {
	metric, k := s.Metric, s.k
	for {
		if err = s.rank(ctx); err != nil {
			return err
		}
		short := false
		for i := range s.lists {
			list := &s.lists[i]
			found := len(list.Results)
			if list.Results, err = s.Contexts.distinct(ctx, list.Results); err != nil {
				return err
			}
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

// mostBodies is how many texts of a list are read and compared: a store may have any number of copies.
const mostBodies = 256

// distinct leaves one result of each text, with the ids of the others.
func (c Contexts) distinct(ctx context.Context, results []Result) ([]Result, error) {
	if c.Digests != nil {
		results = merged(results, func(i int) ([sha256.Size]byte, bool) { return c.Digests[results[i].Row], true })
	}
	if c.Bodies == nil || len(results) < 2 {
		return results, nil
	}
	ids := make([]string, min(len(results), mostBodies))
	for i := range ids {
		ids[i] = results[i].ID
	}
	bodies, err := c.Bodies(ctx, ids)
	if err != nil {
		return nil, err
	}
	return merged(results, func(i int) (string, bool) {
		if i >= len(bodies) {
			return "", false
		}
		return bodies[i], bodies[i] != ""
	}), nil
}

// merged leaves the first result of each key, with the ids of the others.
func merged[K comparable](results []Result, key func(i int) (K, bool)) []Result {
	at, kept := make(map[K]int, len(results)), make([]Result, 0, len(results))
	for i, r := range results {
		k, ok := key(i)
		if first, again := at[k]; ok && again {
			kept[first].Copies = append(append(slices.Clip(kept[first].Copies), r.ID), r.Copies...)
			continue
		}
		if ok {
			at[k] = len(kept)
		}
		kept = append(kept, r)
	}
	return kept
}
