package route

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
)

// Chunk is one of the chunks that a store's router was trained on.
type Chunk struct {
	Key   uint64 // ChunkKey
	Label int32  // index in Labels; −1: none, or several
}

// chunkBytes is the length of a Chunk in its file.
const chunkBytes = 12

// ChunkKey identifies a chunk by its id and the digest of its text: another text under the same id is another chunk.
func ChunkKey(id string, digest [sha256.Size]byte) uint64 {
	h := sha256.New()
	h.Write(digest[:])
	h.Write([]byte(id))
	return binary.LittleEndian.Uint64(h.Sum(nil))
}

// SetChunks says which chunks of a store the router was trained on, and what the store held.
func (r *Router) SetChunks(chunks []Chunk, corpus, domains string) {
	r.chunks = slices.Clone(chunks)
	slices.SortFunc(r.chunks, func(a, b Chunk) int { return cmp.Compare(a.Key, b.Key) })
	r.Data.Corpus, r.Data.Chunks, r.Data.Domains = corpus, len(chunks), domains
}

// ChunkLabel returns the label of a chunk that the router was trained on, by its key; known is false for another one.
func (r *Router) ChunkLabel(key uint64) (label string, known bool) {
	i, ok := slices.BinarySearchFunc(r.chunks, key, func(c Chunk, key uint64) int { return cmp.Compare(c.Key, key) })
	if !ok || r.chunks[i].Label < 0 {
		return "", ok
	}
	return r.Labels[r.chunks[i].Label], true
}

func packChunks(list []Chunk) []byte {
	data := make([]byte, 0, chunkBytes*len(list))
	for _, c := range list {
		data = binary.LittleEndian.AppendUint64(data, c.Key)
		data = binary.LittleEndian.AppendUint32(data, uint32(c.Label))
	}
	return data
}

func parseChunks(data []byte, labels int) ([]Chunk, error) {
	if len(data)%chunkBytes != 0 {
		return nil, fmt.Errorf("%w: %s has %d bytes", ErrArtifact, chunksFile, len(data))
	}
	list := make([]Chunk, 0, len(data)/chunkBytes)
	for ; len(data) > 0; data = data[chunkBytes:] {
		c := Chunk{binary.LittleEndian.Uint64(data), int32(binary.LittleEndian.Uint32(data[8:]))}
		if c.Label < -1 || int(c.Label) >= labels || len(list) > 0 && list[len(list)-1].Key > c.Key {
			return nil,
				fmt.Errorf("%w: %s: entry %d is out of order or of no label", ErrArtifact, chunksFile, len(list))
		}
		list = append(list, c)
	}
	return list, nil
}
