package knowledge

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
)

// keptBytes bounds the memory of the vectors of sentences that a base keeps: 37,000 of 384 numbers, the sentences of
// about 7,000 passages.
const keptBytes = 64 << 20

// keptOverhead is about what a vector costs beside its numbers: its key, its place in a map.
const keptOverhead = 240

// kept are the vectors of the sentences that were embedded last, so that a passage that is found again costs nothing.
// They are of one encoder. There are two generations: a sentence that is used moves to the recent one, and when that is
// full it becomes the older one, whose vectors are given up. So the least recently used half goes, without a list.
type kept struct {
	mu            sync.Mutex
	encoder       identity.Encoder
	recent, older map[sentenceKey][]float32
}

type sentenceKey [sha256.Size]byte

// embed returns the vectors of documents, each from what is kept or from the encoder, which is asked for each text once
// at most. Calls at the same time do not wait for each other's encoder.
func (k *kept) embed(ctx context.Context, enc embed.Embedder, texts []string) (engine.Vectors, error) {
	id := enc.Info().Encoder
	keys, rows := make([]sentenceKey, len(texts)), make([][]float32, len(texts))
	for i, text := range texts {
		keys[i] = sha256.Sum256([]byte(text))
	}
	k.find(id, keys, rows)
	var missing []string
	place := map[sentenceKey]int{} // among the missing
	for i, row := range rows {
		if _, known := place[keys[i]]; row == nil && !known {
			place[keys[i]] = len(missing)
			missing = append(missing, texts[i])
		}
	}
	dim := id.Dim
	if len(missing) > 0 {
		e, err := enc.Embed(ctx, missing, embed.Document) // what is cut of a long sentence is nothing to warn of
		if err != nil {
			return engine.Vectors{}, err
		}
		if dim = e.Dim; len(e.Data) != len(missing)*dim {
			return engine.Vectors{}, fmt.Errorf("%w: %d numbers for %d sentences of %d", kernels.ErrShape, len(e.Data),
				len(missing), dim)
		}
		for i := range rows {
			if rows[i] == nil {
				rows[i] = e.Row(place[keys[i]])
			}
		}
		k.add(id, keys, rows)
	}
	return engine.Vectors{Data: slices.Concat(rows...), Rows: len(rows), Dim: dim}, nil
}

// find fills in the rows that are kept.
func (k *kept) find(id identity.Encoder, keys []sentenceKey, rows [][]float32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.encoder.Same(id) {
		k.encoder, k.recent, k.older = id, nil, nil
	}
	for i, key := range keys {
		if rows[i] = k.recent[key]; rows[i] == nil {
			if rows[i] = k.older[key]; rows[i] != nil {
				delete(k.older, key)
				k.put(key, rows[i])
			}
		}
	}
}

// add keeps rows, unless another encoder has come meanwhile.
func (k *kept) add(id identity.Encoder, keys []sentenceKey, rows [][]float32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.encoder.Same(id) {
		return
	}
	for i, key := range keys {
		if k.recent[key] == nil && k.older[key] == nil {
			k.put(key, slices.Clone(rows[i])) // a row of a batch would keep all of the batch in memory
		}
	}
}

// put adds a vector to the recent generation, which holds half of what may be kept.
func (k *kept) put(key sentenceKey, row []float32) {
	if (len(k.recent)+1)*(4*len(row)+keptOverhead) > keptBytes/2 {
		k.recent, k.older = nil, k.recent
	}
	if k.recent == nil {
		k.recent = map[sentenceKey][]float32{}
	}
	k.recent[key] = row
}

// drop gives all vectors up.
func (k *kept) drop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.encoder, k.recent, k.older = identity.Encoder{}, nil, nil
}
