package device

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math"

	"github.com/sluice-rag/sluice/engine/internal/workers"
)

// digestRows is how many rows are hashed together; part of the digest's definition.
const digestRows = 1024

// Digest is sha256 over the shape and the sha256 of each 1,024 rows in order, as little-endian float32; row returns one
// of them. It does not depend on how rows lie in memory.
func (r *Resources) Digest(ctx context.Context, n, dim int, row func(i int) []float32) (sum [sha256.Size]byte,
	err error) {
	blocks := make([][sha256.Size]byte, workers.Ceil(n, digestRows))
	err = r.Pool.Each(ctx, len(blocks), 0, func(_, task int) error {
		h, bytes := sha256.New(), make([]byte, 4*dim)
		for i := task * digestRows; i < min(n, (task+1)*digestRows); i++ {
			for k, x := range row(i)[:dim] {
				binary.LittleEndian.PutUint32(bytes[4*k:], math.Float32bits(x))
			}
			h.Write(bytes)
		}
		h.Sum(blocks[task][:0])
		return nil
	})
	if err != nil {
		return sum, err
	}
	h := sha256.New()
	h.Write(binary.LittleEndian.AppendUint64([]byte("sluice rows 1 "), uint64(n)))
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(dim)))
	for i := range blocks {
		h.Write(blocks[i][:])
	}
	h.Sum(sum[:0])
	return sum, nil
}
