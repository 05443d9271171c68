package gguf

import (
	"math"
	"math/bits"
)

// Sizes says how a model is run, as far as its memory depends on it. Values below 1 count as 1.
type Sizes struct {
	Cells     int // tokens that the KV cache holds
	Batch     int // tokens of one decode
	Slots     int // requests decoded together
	Sequences int // whose recurrent state is kept: slots and pins
	GPULayers int // offloaded
}

// Memory is an estimate of the bytes that an open model holds.
type Memory struct {
	// Mapped bytes of the weights are mapped from the file, the others copied. Mapped ones are page cache, which a
	// second model on the same file shares and the system may drop. But every token reads all of it (except for the
	// experts that are not chosen): a model that does not fit would read its file again and again.
	Weights, Mapped int64
	Cache           int64 // KV cache; exact
	// recurrent state of all sequences; exact where llama.cpp's own is Mamba's, RWKV's, LFM2's or Kimi's
	State   int64
	Compute int64 // scratch of a decode, logits and other memory of llama.cpp; an upper estimate
	// GPU is what offloaded layers take there: their share of weights, cache and state, which the other fields do not
	// count then, and as much scratch as on the CPU.
	GPU int64
}

// Total returns the sum of all parts.
func (m Memory) Total() int64 { return sum(m.Weights, m.Cache, m.State, m.Compute) }

// CellMultiple is the multiple to which llama.cpp rounds up the cells of a cache.
const CellMultiple = 256

// BaseMemory and vocabMemory (for each token: its text, score, place in two hash tables) are the part of Memory.Compute
// that does not depend on the context: 29 MB for SmolLM2, whose process grew by 20 MB beside cache and scratch.
const (
	BaseMemory  = 16 << 20
	vocabMemory = 256
)

// Mapped reports whether to map the file instead of reading it: not if most of it is copied, because both would be
// kept.
func (f Footprint) Mapped() bool { return f.Repacked <= f.Weights/2 }

// Memory estimates what a model holds: weights, KV cache (all layers in full, also those with a sliding window, whose
// old tokens are kept so that a prompt can be taken up again), recurrent state, scratch.
func (f Footprint) Memory(s Sizes) Memory {
	slots, batch := int64(max(s.Slots, 1)), int64(max(s.Batch, 1))
	cells := (int64(max(s.Cells, 1)) + CellMultiple - 1) / CellMultiple * CellMultiple
	m := Memory{Weights: sum(f.Weights, f.Extra), Cache: mul(f.Token, cells),
		State: mul(f.State, int64(max(s.Sequences, 1)))}
	if f.Mapped() {
		m.Mapped = max(0, f.Weights-f.Repacked)
	}
	mask := mul(batch, cells, 4+2)      // of the attention, in float32 and float16
	logits := mul(slots, f.Vocab, 4, 2) // in the graph, and copied out of it
	m.Compute = sum(BaseMemory, mul(f.Vocab, vocabMemory), mul(batch, f.Scratch), mask, logits)
	if m.State > 0 {
		m.Compute = sum(m.Compute, mul(f.State, slots)) // a decode copies the states that it changes, layer by layer
	}
	return m.offloaded(int64(s.GPULayers), f)
}

// offloaded moves the share of n layers to the GPU; the output counts as one more layer. The copies of weights that
// the CPU's code makes are not made there.
func (m Memory) offloaded(n int64, f Footprint) Memory {
	all := f.Layers + 1
	if n = min(n, all); n <= 0 {
		return m
	}
	m.GPU = m.Compute
	for _, part := range []*int64{&m.Cache, &m.State} {
		there := int64(float64(*part) * float64(n) / float64(all))
		*part, m.GPU = *part-there, sum(m.GPU, there)
	}
	weights := int64(float64(f.Weights) * float64(n) / float64(all))
	m.GPU = sum(m.GPU, weights)
	left := float64(all-n) / float64(all)
	m.Weights, m.Mapped = int64(float64(m.Weights)*left), int64(float64(m.Mapped)*left)
	return m
}

// mul and sum stop at the largest number: headers may say anything.
func mul(factors ...int64) int64 {
	product := int64(1)
	for _, f := range factors {
		hi, lo := bits.Mul64(uint64(product), uint64(max(f, 0)))
		if hi != 0 || lo > math.MaxInt64 {
			lo = math.MaxInt64
		}
		product = int64(lo)
	}
	return product
}

func sum(terms ...int64) int64 {
	total := int64(0)
	for _, t := range terms {
		if t = max(t, 0); total > math.MaxInt64-t {
			return math.MaxInt64
		}
		total += t
	}
	return total
}
