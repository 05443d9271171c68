package encoder

import "unsafe"

// Arena is memory for the packed weights of a model, in few large pieces, for which the operating system is asked for
// large pages: a processor fetches from one page at a time, so that weights which lie in the usual 4 KiB are read at
// half the rate (docs/adr/0008-encoder-products.md). It is freed when nobody holds it or weights in it. Not safe for
// concurrent use; nil and the zero value are ready, and nil gives each weights memory of their own.
type Arena struct {
	rest []float32
	all  int // values of all pieces
}

const (
	line         = 16      // float32 values of a cache line, at which weights begin
	largestPiece = 8 << 20 // float32 values: 32 MiB
)

// take is memory for n values, all 0.
func (a *Arena) take(n int) []float32 {
	if a == nil {
		return make([]float32, n)
	}
	whole := (n + line - 1) / line * line
	if len(a.rest) < whole {
		// Pieces grow with the model: most of a large one lies in few, and a small one leaves little unused, in which
		// no page is touched.
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
