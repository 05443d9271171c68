package knowledge

import (
	"context"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// Repeat is a new chunk (ID) that nearly duplicates an earlier one (Of).
type Repeat struct {
	ID      string  `json:"id"`
	Of      string  `json:"of"`
	Cosine  float64 `json:"cosine"`
	Overlap float64 `json:"overlap"` // share of words
}

// maxRepeats limits the number of nearest chunks that are examined if nearer ones do not count.
const maxRepeats = 512

// Repeats finds the new chunks that are near-duplicates of a chunk of the snapshot for which counts returns true, or of
// an earlier new chunk that is not a duplicate itself. Row i of vectors belongs to chunks[i]. s is nil if there is no
// store yet.
func (b *Base) Repeats(ctx context.Context, s *Snapshot, chunks []corpus.Chunk, vectors engine.Vectors,
	counts func(chunk *corpus.Chunk) bool, o DuplicateOptions) ([]Repeat, error) {
	o = o.WithDefaults()
	if err := o.Check(); err != nil || len(chunks) == 0 {
		return nil, err
	}
	words := make([][]uint64, len(chunks))
	for i, c := range chunks {
		words[i] = shingles(c.Text)
	}
	held := make([]*Repeat, len(chunks)) // duplicates of stored chunks
	if s != nil && s.View.Vectors.Rows > 0 {
		if err := s.repeats(ctx, chunks, vectors, words, counts, o, held); err != nil {
			return nil, b.unlessClosed(err)
		}
	}
	among, err := b.cfg.Engine.TopK(ctx, vectors, vectors, kernels.Cosine, min(len(chunks), 4*duplicateNearest), nil)
	if err != nil {
		return nil, b.unlessClosed(err)
	}
	var list []Repeat
	for i, c := range chunks {
		for _, h := range among[i] {
			if held[i] != nil || h.Score < o.Cosine {
				break
			}
			if h.Row >= i || held[h.Row] != nil {
				continue
			}
			if share := jaccard(words[i], words[h.Row]); share >= o.Overlap {
				held[i] = &Repeat{c.ID, chunks[h.Row].ID, h.Score, share}
			}
		}
		if held[i] != nil {
			list = append(list, *held[i])
		}
	}
	return list, nil
}

// repeats fills held with the chunks of the snapshot that new chunks duplicate. If the nearest rows are deleted or do
// not count, it examines more of them.
func (s *Snapshot) repeats(ctx context.Context, chunks []corpus.Chunk, vectors engine.Vectors, words [][]uint64,
	counts func(*corpus.Chunk) bool, o DuplicateOptions, held []*Repeat) error {
	ask := make([]int, len(chunks))
	for i := range ask {
		ask[i] = i
	}
	for k := duplicateNearest; len(ask) > 0 && k <= maxRepeats; k *= 4 {
		hits, err := s.base.cfg.Engine.TopK(ctx, compact(vectors, ask), s.View.Vectors, kernels.Cosine, k, nil)
		if err != nil {
			return err
		}
		var again []int
		for at, i := range ask {
			near, seen, err := s.near(ctx, hits[at], o.Cosine, counts)
			if err != nil {
				return err
			}
			for n := range near {
				c := &near[n].Chunk
				if share := jaccard(words[i], shingles(c.Text)); share >= o.Overlap {
					held[i] = &Repeat{chunks[i].ID, c.ID, near[n].score, share}
					break
				}
			}
			if held[i] == nil && seen == k && len(near) < duplicateNearest {
				again = append(again, i)
			}
		}
		ask = again
	}
	return nil
}

type nearChunk struct {
	corpus.Chunk
	score float64
}

// near reads the chunks of hits that are near enough and count; seen is the number of hits that are near enough.
func (s *Snapshot) near(ctx context.Context, hits []engine.Hit, cosine float64, counts func(*corpus.Chunk) bool) (
	near []nearChunk, seen int, err error) {
	var ids []string
	var scores []float64
	for _, h := range hits {
		if h.Score < cosine {
			break
		}
		if seen++; !s.View.Deleted(h.Row) {
			ids, scores = append(ids, s.View.IDs[h.Row]), append(scores, h.Score)
		}
	}
	if len(ids) == 0 {
		return nil, seen, nil
	}
	list, err := s.View.Chunks(ctx, ids)
	if err != nil {
		return nil, seen, err
	}
	for i := range list {
		if counts(&list[i]) {
			near = append(near, nearChunk{list[i], scores[i]})
		}
	}
	return near, seen, nil
}
