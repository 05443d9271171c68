package encoder

import "unsafe"

// Arena is memory for the packed weights of a model, in a few large pieces for which the operating system is asked for
// large pages: a processor prefetches within one page at a time, so weights in 4 KiB pages are read at half the rate
// (docs/adr/0008-encoder-products.md). It is freed when neither it nor weights in it are referenced. Not safe for
// concurrent use; nil and the zero value are ready to use, and nil gives each weights its own memory.
type Arena struct {
	rest []float32
	all  int // float32 values of all pieces
}

const (
	line         = 16      // float32 values per cache line, the alignment of weights
	largestPiece = 8 << 20 // float32 values: 32 MiB
)

// take returns zeroed memory for n values.
func (a *Arena) take(n int) []float32 {
	if a == nil {
		return make([]float32, n)
	}
	whole := (n + line - 1) / line * line
	if len(a.rest) < whole {
		// Pieces grow with the model: a large model is mostly in a few pieces, and a small one leaves little unused,
		// whose pages are never touched.
		a.rest = make([]float32, max(whole, min(4*a.all, largestPiece))+line)
		a.all += len(a.rest)
		largePages(a.rest)
		at := int(uintptr(unsafe.Pointer(unsafe.SliceData(a.rest)))/4) % line
		a.rest = a.rest[(line-at)%line:]
	}
	taken := a.rest[:n:n]
	a.rest = a.rest[whole:]
	return taken
}
