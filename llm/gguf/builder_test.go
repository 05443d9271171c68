package gguf

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// builder writes GGUF files for the tests, good ones and bad ones.
type builder struct {
	version uint32
	pairs   []func(*bytes.Buffer)
	tensors []builtTensor
	align   int
	data    int // bytes of data; -1: what the tensors need
}

type builtTensor struct {
	name   string
	dims   []uint64
	kind   uint32
	offset int64 // -1: right behind the one before
	bytes  int
}

func le(b *bytes.Buffer, v any) { binary.Write(b, binary.LittleEndian, v) }

func putString(b *bytes.Buffer, s string) {
	le(b, uint64(len(s)))
	b.WriteString(s)
}

func (g *builder) set(key string, kind uint32, value any) *builder {
	g.pairs = append(g.pairs, func(b *bytes.Buffer) {
		putString(b, key)
		le(b, kind)
		if s, ok := value.(string); ok {
			putString(b, s)
			return
		}
		le(b, value)
	})
	return g
}

func (g *builder) strings(key string, values ...string) *builder {
	g.pairs = append(g.pairs, func(b *bytes.Buffer) {
		putString(b, key)
		le(b, []uint32{9, 8})
		le(b, uint64(len(values)))
		for _, v := range values {
			putString(b, v)
		}
	})
	return g
}

func (g *builder) floats(key string, n int) *builder {
	g.pairs = append(g.pairs, func(b *bytes.Buffer) {
		putString(b, key)
		le(b, []uint32{9, 6})
		le(b, uint64(n))
		le(b, make([]float32, n))
	})
	return g
}

func (g *builder) tensor(name string, kind uint32, bytes int, dims ...uint64) *builder {
	g.tensors = append(g.tensors, builtTensor{name, dims, kind, -1, bytes})
	return g
}

func (g *builder) build() []byte {
	var b bytes.Buffer
	b.WriteString("GGUF")
	le(&b, g.version)
	le(&b, []uint64{uint64(len(g.tensors)), uint64(len(g.pairs))})
	for _, p := range g.pairs {
		p(&b)
	}
	end, exact := 0, 0
	pad := func(n int) int { return (n + g.align - 1) / g.align * g.align }
	for _, t := range g.tensors {
		putString(&b, t.name)
		le(&b, uint32(len(t.dims)))
		le(&b, t.dims)
		le(&b, t.kind)
		if t.offset < 0 {
			t.offset = int64(end)
		}
		le(&b, uint64(t.offset))
		exact = end + t.bytes
		end = pad(exact)
	}
	if g.data >= 0 {
		exact = g.data
	}
	b.Write(make([]byte, pad(b.Len())-b.Len()+exact))
	return b.Bytes()
}

// tinyModel returns a file that passes every check: 2 tokens, 32 wide, one Q4_1 and one F32 tensor.
func tinyModel() *builder {
	return (&builder{version: 3, align: 32, data: -1}).
		set("general.architecture", 8, "llama").
		set("general.name", 8, "tiny").
		set("llama.context_length", 4, uint32(64)).
		set("llama.embedding_length", 4, uint32(32)).
		set("llama.block_count", 4, uint32(1)).
		set("llama.rope.freq_base", 6, float32(10000)).
		set("tokenizer.chat_template", 8, "{{ messages }}").
		strings("tokenizer.ggml.tokens", "a", "b").
		floats("tokenizer.ggml.scores", 2).
		tensor("token_embd.weight", 3, 40, 32, 2).
		tensor("output_norm.weight", 0, 128, 32)
}

func writeModel(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
