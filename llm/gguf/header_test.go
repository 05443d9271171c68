package gguf

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// Every file that ends too early is refused, wherever it ends.
func TestInspectTruncated(t *testing.T) {
	data := tinyModel().build()
	for n := range data {
		if _, err := parse(bytes.NewReader(data[:n]), int64(n)); err == nil {
			t.Fatalf("accepted %d of %d bytes", n, len(data))
		}
	}
}

// Flipped bits must never panic or read beyond the file.
func TestInspectFlipped(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	data := tinyModel().build()
	for range 5000 {
		bad := bytes.Clone(data)
		for range 1 + rng.IntN(3) {
			bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
		}
		_, _ = parse(bytes.NewReader(bad), int64(len(bad)))
	}
}

func FuzzParse(f *testing.F) {
	f.Add(tinyModel().build())
	f.Add(tinyModel().set("general.alignment", 4, uint32(64)).set("x", 9, []uint32{4, 1, 0, 7}).build())
	f.Add([]byte("GGUF\x03\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := parse(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		var elements uint64
		for _, n := range h.elements {
			elements += n
		}
		if elements > 8*uint64(len(data)) { // the densest type has less than two bits per element
			t.Errorf("%d elements in %d bytes", elements, len(data))
		}
		model, err := h.model("f.gguf", false)
		if err == nil && h.tensors == 0 {
			t.Error("a model without tensors")
		}
		m := model.Footprint.Memory(Sizes{Cells: math.MaxInt32 / 2, Slots: 4, Sequences: 12, Batch: 64})
		if m.Cache < 0 || m.State < 0 || m.Compute < 0 || m.Total() < m.Weights {
			t.Errorf("memory %+v", m)
		}
	})
}

// A name as long as the file, which a wrong length makes, does not become the error's text.
func TestErrorsAreSentences(t *testing.T) {
	data := tinyModel().set(strings.Repeat("k", 20_000), 77, uint32(1)).build()
	if _, err := parse(bytes.NewReader(data), int64(len(data))); err == nil || len(err.Error()) > 300 {
		t.Errorf("%.400v", err)
	}
}
