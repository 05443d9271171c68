//go:build native

package llm

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/generator"
)

// splitGGUF writes a model again as n files, the tensors dealt out in order, as llama.cpp's gguf-split does, and returns the first.
func splitGGUF(t *testing.T, path string, n int) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	g := &ggufReader{r: bufio.NewReader(bytes.NewReader(data)), size: uint64(len(data))}
	g.skip(8)
	tensors, pairs := g.u64(), g.u64()
	h := &ggufHeader{values: map[string]any{}, arrays: map[string]uint64{}, layers: map[string][]int{}}
	for range pairs {
		h.readPair(g)
	}
	values := data[24:g.pos]
	type entry struct{ head, data []byte }
	var entries []entry
	var sizes []uint64
	for range tensors {
		start := g.pos
		_, _, size := g.tensorSize(g.str(ggufMaxName, false))
		entries = append(entries, entry{head: data[start:g.pos]})
		sizes = append(sizes, size)
		g.skip(8)
	}
	if g.err != nil {
		t.Fatal(g.err)
	}
	pad := func(n uint64) uint64 { return (n + ggufAlignment - 1) / ggufAlignment * ggufAlignment }
	at := pad(g.pos)
	for i, size := range sizes {
		entries[i].data = data[at : at+size]
		at += pad(size)
	}
	dir, first := t.TempDir(), ""
	for part := range n {
		mine := entries[part*len(entries)/n : (part+1)*len(entries)/n]
		var b bytes.Buffer
		b.WriteString("GGUF\x03\x00\x00\x00")
		put := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
		count := uint64(3)
		if part == 0 {
			count += pairs
		}
		put([]uint64{uint64(len(mine)), count})
		if part == 0 {
			b.Write(values)
		}
		for _, pair := range []struct {
			key   string
			kind  uint32
			value any
		}{{"split.no", 2, uint16(part)}, {"split.count", 2, uint16(n)}, {"split.tensors.count", 5, int32(tensors)}} {
			ggufStr(&b, pair.key)
			put(pair.kind)
			put(pair.value)
		}
		offset := uint64(0)
		for _, e := range mine {
			b.Write(e.head)
			put(offset)
			offset += pad(uint64(len(e.data)))
		}
		for _, e := range mine {
			b.Write(make([]byte, pad(uint64(b.Len()))-uint64(b.Len())))
			b.Write(e.data)
		}
		name := filepath.Join(dir, fmt.Sprintf("m-%05d-of-%05d.gguf", part+1, n))
		if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if part == 0 {
			first = name
		}
	}
	return first
}

// TestSplitModel: a model in three files is the model in one.
func TestSplitModel(t *testing.T) {
	p := preset(t, "qwen2")
	whole := filepath.Join(t.TempDir(), "whole.gguf")
	if err := generator.Write(whole, p); err != nil {
		t.Fatal(err)
	}
	var texts [2]string
	var infos [2]Info
	for i, path := range []string{whole, splitGGUF(t, whole, 3)} {
		m, err := Open(t.Context(), path, Options{ContextSize: 256, Slots: 1, Threads: testThreads, Logger: (&llamaLog{}).logger()})
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = generate(t, m, Request{Prompt: "Is a part a whole?", MaxTokens: 24}).Text
		infos[i] = m.Info()
		m.Close()
	}
	if texts[0] == "" || texts[0] != texts[1] {
		t.Errorf("whole %q, in parts %q", texts[0], texts[1])
	}
	if infos[0].Parameters != infos[1].Parameters || infos[0].Footprint != infos[1].Footprint || infos[1].Bytes <= infos[0].Bytes {
		t.Errorf("%+v\n%+v", infos[0], infos[1])
	}
}
