package ingest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// texts are rows of the store whose texts may come again under another id: the same text has the same vector. They are
// of documents that have moved, or are about to be replaced or removed; their vectors stay in the store until it is
// compacted.
type texts map[[sha256.Size]byte]int64

// lend adds the texts of documents.
func (r *run) lend(ctx context.Context, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	rows, err := r.store.TextRows(ctx, ids)
	if err != nil {
		return err
	}
	if r.texts == nil {
		r.texts = rows
	} else {
		maps.Copy(r.texts, rows)
	}
	return nil
}

// lendCopy adds the texts of another document of the same content, of which this one is a copy.
func (r *run) lendCopy(ctx context.Context, d *corpus.Document) error {
	digest := digestOf(d.Digest)
	id, ok := r.names.sameAs[digest]
	if !ok || id == d.ID {
		return nil
	}
	delete(r.names.sameAs, digest) // once is enough
	return r.lend(ctx, id)
}

// vectors returns the vectors of chunks, of which to is the last one's position in the sources: those that the store
// has of the same texts, and new ones, each text embedded once. reused counts the chunks that needed none of their own.
func (r *run) vectors(ctx context.Context, fresh []corpus.Chunk, to int64) (all []float32, reused int, err error) {
	dim := r.enc.Info().Encoder.Dim
	all = make([]float32, len(fresh)*dim)
	digests := make([][sha256.Size]byte, len(fresh))
	from := make([]int, len(fresh)) // the chunk whose vector it shares, or itself
	first := make(map[[sha256.Size]byte]int, len(fresh))
	for i, c := range fresh {
		digests[i] = sha256.Sum256([]byte(c.EmbedText()))
		if _, again := first[digests[i]]; !again {
			first[digests[i]] = i
		}
		from[i] = first[digests[i]]
	}
	has, err := r.borrow(ctx, digests, all)
	if err != nil {
		return nil, 0, err
	}
	var ask []corpus.Chunk
	var places []int
	for i, c := range fresh {
		if from[i] == i && !has[i] {
			ask, places = append(ask, c), append(places, i)
		}
	}
	if err := r.embed(ctx, ask, places, all, to); err != nil {
		return nil, 0, err
	}
	for i := range fresh {
		if from[i] != i {
			copy(all[i*dim:(i+1)*dim], all[from[i]*dim:(from[i]+1)*dim])
		}
	}
	return all, len(fresh) - len(ask), nil
}

// borrow fills in the vectors of texts that the store has.
func (r *run) borrow(ctx context.Context, digests [][sha256.Size]byte, all []float32) (has []bool, err error) {
	has = make([]bool, len(digests))
	var rows []int64
	var places []int
	for i, d := range digests {
		if row, ok := r.texts[d]; ok {
			rows, places = append(rows, row), append(places, i)
		}
	}
	if len(rows) == 0 {
		return has, nil
	}
	v, err := r.store.RowVectors(ctx, rows)
	if err != nil { // the store was compacted meanwhile, or a block is damaged
		r.base.Logger().Debug(fmt.Sprintf("%d texts are embedded again", len(rows)), "error", err)
		return has, ctx.Err()
	}
	for k, i := range places {
		has[i] = true
		copy(all[i*v.Dim:(i+1)*v.Dim], v.Data[k*v.Dim:(k+1)*v.Dim])
	}
	return has, nil
}

// embed fills in the vectors of chunks, whose places are given.
func (r *run) embed(ctx context.Context, ask []corpus.Chunk, places []int, all []float32, to int64) error {
	r.track.begin(ask)
	if len(ask) == 0 {
		return nil
	}
	from := r.at
	r.base.WatchEncoder(func(done, total int) {
		r.track.embedding(len(ask) * done / max(total, 1)) // it may count windows
		r.progress(from + (to-from)*int64(done)/int64(total))
	})
	e, err := r.enc.Embed(ctx, embedTexts(ask), embed.Document)
	if err != nil {
		return err
	}
	for k, i := range places {
		copy(all[i*e.Dim:(i+1)*e.Dim], e.Row(k))
	}
	r.result.Truncated += e.Truncated
	r.result.Repaired += e.Repaired
	return nil
}
