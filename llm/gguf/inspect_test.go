package gguf

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInspect(t *testing.T) {
	data := tinyModel().build()
	path := writeModel(t, "x.gguf", data)
	got, err := Inspect(path, "")
	if err != nil {
		t.Fatal(err)
	}
	want := Model{Name: "x", Path: path, Architecture: "llama", Description: "llama, 0.0 M parameters, Q4_1",
		Parameters: 96, ContextTrained: 64, Embedding: 32, ChatTemplate: "{{ messages }}", Bytes: int64(len(data)),
		Types: []string{"Q4_1"}, Footprint: Footprint{Weights: 168, Scratch: 4 * 8 * 32, Layers: 1, Vocab: 2}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestInspectRefuses(t *testing.T) {
	other := func(key string, kind uint32, value any) []byte {
		g := tinyModel()
		g.pairs = slices.Delete(g.pairs, 4, 5) // llama.block_count
		return g.set(key, kind, value).build()
	}
	for _, c := range []struct {
		name, reason string
		data         []byte
	}{
		{"empty", "truncated", nil},
		{"text", "not a GGUF file", []byte("hello, this is not a model at all")},
		{"version 1", "version 1", (&builder{version: 1, align: 32}).build()},
		{"big-endian", "version 50331648", (&builder{version: 3 << 24, align: 32}).build()},
		{"many tensors", "tensors cannot be", append([]byte("GGUF\x03\x00\x00\x00"),
			bytes.Repeat([]byte{0xff}, 64)...)},
		{"many pairs", "key-value pairs cannot be",
			append([]byte("GGUF\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), bytes.Repeat([]byte{0x7f}, 64)...)},
		{"no architecture", "names no architecture",
			(&builder{version: 3, align: 32, data: -1}).tensor("x", 0, 4, 1).build()},
		{"adapter", `type "adapter"`, tinyModel().set("general.type", 8, "adapter").build()},
		{"encoder", "bert model does not generate",
			(&builder{version: 3, align: 32, data: -1}).set("general.architecture", 8, "bert").tensor("x", 0, 4, 1).
				build()},
		{"duplicate key", "comes twice", tinyModel().set("general.name", 8, "again").build()},
		{"value type", "unknown value type 13", tinyModel().set("x", 13, uint32(1)).build()},
		{"array of arrays", "unknown value type 9", tinyModel().set("x", 9, []uint32{9, 1, 0}).build()},
		{"long array", "elements of x cannot be", tinyModel().set("x", 9, []uint32{4, 1 << 30, 0}).build()},
		{"alignment", "not a power of two", tinyModel().set("general.alignment", 4, uint32(3)).build()},
		{"no scores for a token", "2 tokens", (&builder{version: 3, align: 32, data: -1}).
			set("general.architecture", 8, "llama").
			set("llama.context_length", 4, uint32(64)).set("llama.embedding_length", 4, uint32(32)).
			strings("tokenizer.ggml.tokens", "a", "b").floats("tokenizer.ggml.scores", 1).tensor("x", 0, 4, 1).build()},
		{"no context length", "llama.context_length",
			(&builder{version: 3, align: 32, data: -1}).set("general.architecture", 8, "llama").
				strings("tokenizer.ggml.tokens", "a").tensor("x", 0, 4, 1).build()},
		{"vocabulary only", "no tensors", (&builder{version: 3, align: 32}).set("general.architecture", 8, "llama").
			strings("tokenizer.ggml.tokens", "a").build()},
		{"token twice", `tokens 1 and 3 have the same text "b"`, withTokens("a", "b", "c", "b")},
		{"token twice up to its NUL", "tokens 0 and 1 have the same text", withTokens("a\x00b", "a\x00c")},
		{"token like an empty one", `tokens 0 and 1 have the same text "[EMPTY_1]"`, withTokens("[EMPTY_1]", "")},
		{"long token", "at most 65536", withTokens(strings.Repeat("x", 1<<16+1))},
		{"norm in F16", `"blk.0.attn_norm.weight" is a vector of type F16`,
			tinyModel().tensor("blk.0.attn_norm.weight", 1, 64, 32).build()},
		{"weights in I32", "type I32, in which llama.cpp does not multiply",
			tinyModel().tensor("x", 26, 256, 32, 2).build()},
		{"dimensions", "5 dimensions", tinyModel().tensor("x", 0, 4, 1, 1, 1, 1, 1).build()},
		{"zero dimension", "impossible dimension of 0", tinyModel().tensor("x", 0, 4, 0).build()},
		{"overflow", "impossible dimension", tinyModel().tensor("x", 0, 4, 1<<40, 1<<40).build()},
		{"removed type", "unknown type 4", tinyModel().tensor("x", 4, 4, 32).build()},
		{"type", "unknown type 4294967295", tinyModel().tensor("x", math.MaxUint32, 4, 32).build()},
		{"block", "not a multiple of 256", tinyModel().tensor("x", 12, 4, 32, 1).build()},
		{"duplicate tensor", "comes twice", tinyModel().tensor("output_norm.weight", 0, 128, 32).build()},
		{"tensor name", "at most 63", tinyModel().tensor(strings.Repeat("x", 64), 0, 128, 32).build()},
		{"no layers", "block_count is 0", other("llama.block_count", 4, uint32(0))},
		{"many layers", "block_count is 513", other("llama.block_count", 4, uint32(513))},
		{"drafts", "nextn_predict_layers is 2, more than the 1 layers",
			tinyModel().set("llama.nextn_predict_layers", 4, uint32(2)).build()},
		{"rope scaling", "rope.scaling.type is su", tinyModel().set("llama.rope.scaling.type", 8, "su").build()},
		{"rope dimensions", "rope.dimension_count is 18, not an even number between 2 and the 16",
			tinyModel().set("llama.attention.head_count", 4, uint32(2)).
				set("llama.rope.dimension_count", 4, uint32(18)).build()},
		{"odd rope", "rope.dimension_count is 15",
			tinyModel().set("llama.attention.head_count", 4, uint32(2)).
				set("llama.rope.dimension_count", 4, uint32(15)).build()},
		{"no rope", "rope.dimension_count is 0", // ggml's loop over a head would not end
			tinyModel().set("llama.attention.head_count", 4, uint32(2)).
				set("llama.rope.dimension_count", 4, uint32(0)).build()},
		{"no rope in windows", "rope.dimension_count_swa is 0",
			tinyModel().set("llama.attention.head_count", 4, uint32(2)).
				set("llama.rope.dimension_count_swa", 4, uint32(0)).build()},
		{"epsilon", "epsilon is -0.5", tinyModel().set("llama.attention.layer_norm_rms_epsilon", 6, float32(-.5)).
			build()},
		{"no expert used", "0 of 4 experts are used", tinyModel().set("llama.expert_count", 4, uint32(4)).build()},
		{"expert groups", "1 of 3 groups of 4 experts",
			tinyModel().set("llama.expert_count", 4, uint32(4)).set("llama.expert_used_count", 4, uint32(2)).
				set("llama.expert_group_count", 4, uint32(3)).
				set("llama.expert_group_used_count", 4, uint32(1)).build()},
		{"old experts", "newer conversion", tinyModel().tensor("blk.0.ffn_down.7.weight", 0, 4, 1).build()},
		{"split", "00001-of-00003", tinyModel().set("split.count", 2, uint16(3)).build()},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := writeModel(t, "m.gguf", c.data)
			_, err := Inspect(path, "")
			if !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), c.reason) ||
				!strings.Contains(err.Error(), path) {
				t.Errorf("want ErrModel with the path and %q, got %v", c.reason, err)
			}
		})
	}
}

// withTokens returns a model with other tokens.
func withTokens(tokens ...string) []byte {
	g := tinyModel()
	g.pairs = slices.Delete(g.pairs, 7, 9) // tokens and scores
	return g.strings(tokensKey, tokens...).build()
}

// TestInspectEmptyTokens: llama.cpp numbers empty texts, so that several may be there.
func TestInspectEmptyTokens(t *testing.T) {
	if _, err := Inspect(writeModel(t, "m.gguf", withTokens("", "a", "")), ""); err != nil {
		t.Error(err)
	}
}

func TestInspectTensorOffset(t *testing.T) {
	g := tinyModel()
	g.tensors[1].offset = 32 // overlaps the first
	_, err := Inspect(writeModel(t, "m.gguf", g.build()), "")
	if !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), "offset 32 of the data, not at 64") {
		t.Error(err)
	}
}

// Weights that llama.cpp copies are told from those that stay mapped.
func TestInspectCopies(t *testing.T) {
	// Q4_0, Q8_0, Q6_K
	g := tinyModel().tensor("blk.0.attn_q.weight", 2, 18, 32, 1).tensor("blk.0.attn_k.weight", 8, 34, 32, 1).
		tensor("blk.0.attn_v.weight", 14, 210, 256, 1)
	read := func() *header {
		h, _, err := readHeader(writeModel(t, "m.gguf", g.build()))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	for _, c := range []struct {
		isa             string
		repacked, extra int64
	}{
		{"neon", 18, 0}, {"avx2", 18 + 34 + 210, 40}, {"avxvnni", 18 + 34 + 210, 40},
		{"avx512vnni", 18 + 34 + 210, 40},
		{"amx", 18 + 34 + 210, 40 + 4}, // the token embedding, in Q4_1, is the output
	} {
		if r, d := read().copies(c.isa); r != c.repacked || d != c.extra {
			t.Errorf("%s: %d and %d bytes", c.isa, r, d)
		}
	}
	g = g.tensor("output.weight", 8, 68, 32, 2)
	if r, d := read().copies("amx"); r != 18+34+210+68 || d != 12 {
		t.Errorf("the output is another matrix: %d and %d bytes", r, d)
	}
	m, err := Inspect(writeModel(t, "m.gguf", g.build()), "amx")
	if f := m.Footprint; err != nil || f.Repacked != 18+34+210+68 || f.Extra != 12 || f.Weights != 168+18+34+210+68 {
		t.Errorf("%+v %v", f, err)
	}
}

func TestInspectFiles(t *testing.T) {
	dir := t.TempDir()
	_, err := Inspect(filepath.Join(dir, "missing.gguf"), "")
	if !errors.Is(err, ErrModel) || !errors.Is(err, fs.ErrNotExist) {
		t.Error("missing:", err)
	}
	if _, err := Inspect(dir, ""); !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), "not a regular file") {
		t.Error("folder:", err)
	}
}

func TestInspectSplit(t *testing.T) {
	dir := t.TempDir()
	first := tinyModel().set("split.count", 2, uint16(2)).build()
	path := filepath.Join(dir, "m-00001-of-00002.gguf")
	if err := os.WriteFile(path, first, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Inspect(path, ""); !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), "m-00002-of-00002.gguf") {
		t.Errorf("the missing part is not named: %v", err)
	}
	second := (&builder{version: 3, align: 32, data: -1}).set("split.count", 2, uint16(2)).tensor("x", 0, 8, 2).build()
	if err := os.WriteFile(filepath.Join(dir, "m-00002-of-00002.gguf"), second, 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := Inspect(path, "")
	if err != nil || info.Parameters != 98 || info.Footprint.Weights != 168+8 ||
		info.Bytes != int64(len(first)+len(second)) {
		t.Errorf("%+v, %v", info, err)
	}
}
