package scan

import (
	"fmt"

	"github.com/sluice-rag/sluice/kernels"
)

// Parts are what a chunk holds, for a file: codes, what bounds their errors, and a term per row or nil. They are
// not to be written to. The layout is that of scan.h on every instruction set.
func (c *Chunk) Parts() (codes []byte, meta, terms []float32) { return c.codes, c.meta, c.terms }

// ChunkMeta is the length of a chunk's meta.
func ChunkMeta(panels, sections int) int { return sections*scanMeta*panels + panels + sections }

// ChunkOf is the inverse of Parts; codes must be where Aligned puts them, or a whole number of chunks behind.
func ChunkOf(panels, sections int, codes []byte, meta, terms []float32) (*Chunk, error) {
	c, err := NewChunk(codes, panels, sections, false)
	if err != nil {
		return nil, err
	}
	if len(meta) != len(c.meta) || terms != nil && len(terms) != panels*Lanes {
		return nil,
			fmt.Errorf("%w: %d and %d numbers for a chunk of %d panels and %d sections", kernels.ErrShape, len(meta),
				len(terms), panels, sections)
	}
	c.meta, c.terms = meta, terms
	return c, nil
}
