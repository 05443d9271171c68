package generator

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/llm/gguf"
)

func write(t *testing.T, m Model) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), m.Name+".gguf")
	if err := Write(path, m); err != nil {
		t.Fatal(err)
	}
	return path
}

// Package llm reads GGUF headers with a reader of its own, which checks every offset.
func TestPresetsAreModels(t *testing.T) {
	for _, m := range Presets() {
		t.Run(m.Name, func(t *testing.T) {
			path := write(t, m)
			info, err := gguf.Inspect(path, "")
			if err != nil {
				t.Fatal(err)
			}
			if info.Architecture != m.Arch || info.ContextTrained != m.Context || info.Embedding != m.Embedding ||
				info.ChatTemplate != m.Template || info.Name != m.Name {
				t.Errorf("%+v", info)
			}
			if info.Parameters < 500_000 || info.Parameters > 4_000_000 {
				t.Errorf("%d parameters", info.Parameters)
			}
			if n := len(m.Vocab.Tokens); n < 400 || n > 1000 {
				t.Errorf("%d tokens", n)
			}
			// The tokens' rows are the first tensor, so a file of half the type is about half as large.
			want := 4 * info.Parameters
			if m.Type == "F16" {
				want /= 2
			}
			if over := info.Bytes - want; over < 0 || over > 100_000 {
				t.Errorf("%d bytes for %d parameters", info.Bytes, info.Parameters)
			}
		})
	}
}

func TestWriteSplit(t *testing.T) {
	m, _ := Preset("qwen2")
	whole, err := gguf.Inspect(write(t, m), "")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	first, err := WriteSplit(filepath.Join(dir, "m"), m, 3)
	if err != nil || filepath.Base(first) != "m-00001-of-00003.gguf" {
		t.Fatal(first, err)
	}
	got, err := gguf.Inspect(first, "")
	if err != nil || got.Parameters != whole.Parameters || got.Footprint != whole.Footprint ||
		got.Bytes <= whole.Bytes {
		t.Errorf("%+v\n%+v, %v", got, whole, err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 3 {
		t.Errorf("%d files, %v", len(files), err)
	}
}

func TestTypes(t *testing.T) {
	m, _ := Preset("llama-bpe")
	m.Embedding, m.FF, m.Layers = 256, 512, 1
	for typ, bits := range map[string]float64{"": 32, "F32": 32, "F16": 16, "Q4_0": 4.5, "Q4_1": 5, "Q8_0": 8.5,
		"Q4_K": 4.5, "Q5_K": 5.5, "Q6_K": 6.5625, "IQ4_XS": 4.25} {
		m.Type = typ
		info, err := gguf.Inspect(write(t, m), "")
		if err != nil || !strings.HasSuffix(info.Description, ", "+cmp.Or(typ, "F32")) {
			t.Fatalf("%s: %+v, %v", typ, info, err)
		}
		vectors := int64(3*256*4) - int64(3*256*bits/8)
		if got := info.Footprint.Weights - vectors; got != int64(float64(info.Parameters)*bits/8) {
			t.Errorf("%s: matrices of %d parameters have %d bytes", typ, info.Parameters, got)
		}
	}
}

func TestPreset(t *testing.T) {
	if m, ok := Preset("gemma2"); !ok || m.Arch != "gemma2" || m.Window == 0 {
		t.Errorf("%v %+v", ok, m)
	}
	if _, ok := Preset("gpt5"); ok {
		t.Error("there is a gpt5")
	}
}

func digest(t *testing.T, m Model) [32]byte {
	t.Helper()
	data, err := os.ReadFile(write(t, m))
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(data)
}

func TestSameSeedSameBytes(t *testing.T) {
	m, _ := Preset("lfm2")
	first := digest(t, m)
	if digest(t, m) != first {
		t.Error("the same model has other bytes")
	}
	m.Seed++
	if digest(t, m) == first {
		t.Error("another seed has the same bytes")
	}
}

func TestWeights(t *testing.T) {
	m, _ := Preset("mixtral")
	sum := map[string]float64{}
	for _, tensor := range m.plan() {
		var n int
		var squares float64
		tensor.values(func(v float32) { n++; squares += float64(v) * float64(v) })
		if n != tensor.elements() {
			t.Errorf("%s has %d values for %v", tensor.name, n, tensor.dims)
		}
		sum[tensor.name] = math.Sqrt(squares / float64(n))
	}
	for name, want := range map[string]float64{
		"token_embd.weight": 1, "output_norm.weight": 1, "blk.0.attn_q.weight": 1.5 / math.Sqrt(128),
		"blk.3.ffn_down_exps.weight": 1.5 / math.Sqrt(96),
	} {
		if got := sum[name]; math.Abs(got/want-1) > .05 {
			t.Errorf("%s: root mean square %v, not %v", name, got, want)
		}
	}
	// The logits of tokens that are not to come up stay near 0.
	quiet, row := m.Vocab.quiet(), 0
	out := m.plan()[2]
	var loud, still float64
	out.values(func(v float32) {
		if quiet[row/m.Embedding] {
			still = max(still, math.Abs(float64(v)))
		} else {
			loud = max(loud, math.Abs(float64(v)))
		}
		row++
	})
	if out.name != "output.weight" || still > loud/10 || still == 0 {
		t.Errorf("%s: %v of quiet tokens, %v of others", out.name, still, loud)
	}
}

// Values of IEEE 754 binary16: exact ones, ties, the borders of its ranges.
func TestHalf(t *testing.T) {
	for v, want := range map[float32]uint16{
		0: 0, 1: 0x3c00, -2: 0xc000, .1: 0x2e66, 1.0 / 3: 0x3555, 65504: 0x7bff, 65519: 0x7bff, 65520: 0x7c00,
		1 + 0x1p-11: 0x3c00, 1 + 3*0x1p-11: 0x3c02, 2 - 0x1p-11: 0x4000, 0x1p-14: 0x0400, 0x1p-24: 1, 0x1p-25: 0,
		3 * 0x1p-25: 2, 0x1p-14 - 0x1p-25: 0x0400, -0x1p-24: 0x8001,
	} {
		if got := half(v); got != want {
			t.Errorf("%v: %#04x, not %#04x", v, got, want)
		}
	}
	if got := half(float32(math.NaN())); got&0x7c00 != 0x7c00 || got&0x3ff == 0 {
		t.Errorf("NaN: %#04x", got)
	}
}

// The table of GPT-2's encoder: "Ġ" is a space, "Ċ" a newline, "Ń" the soft hyphen, Latin-1's printable bytes
// themselves.
func TestByteRunes(t *testing.T) {
	for b, want := range map[byte]rune{' ': 'Ġ', '\n': 'Ċ', 0: 'Ā', 'A': 'A', 0x7f: 'ġ', 0xa0: 'ł', 0xad: 'Ń',
		0xff: 'ÿ', 0xa1: '¡'} {
		if got := byteRune(b); got != want {
			t.Errorf("%#02x: %c, not %c", b, got, want)
		}
	}
	seen := map[rune]bool{}
	for b := range 256 {
		seen[byteRune(byte(b))] = true
	}
	if len(seen) != 256 {
		t.Errorf("%d runes for 256 bytes", len(seen))
	}
}

// TestVocabulariesAreReachable checks that every merge and every piece can occur: its parts are tokens with lower
// numbers.
func TestVocabulariesAreReachable(t *testing.T) {
	for _, m := range Presets() {
		v := m.Vocab
		for i, merge := range v.Merges {
			left, right, ok := strings.Cut(merge, " ")
			if l, r, both := v.ID(left), v.ID(right), v.ID(left+right); !ok || l < 0 || r < 0 || both <= max(l, r) {
				t.Errorf("%s: merge %d, %q", m.Name, i, merge)
			}
		}
		for _, tok := range v.Tokens {
			r := []rune(tok.Text)
			if v.Model != "llama" || tok.Kind != Normal || len(r) < 3 {
				continue
			}
			if part := v.ID(string(r[:len(r)-1])); part < 0 || v.Tokens[part].Score <= tok.Score {
				t.Errorf("%s: no way to %q", m.Name, tok.Text)
			}
		}
	}
}

func TestDecode(t *testing.T) {
	spm, _ := Preset("llama-spm")
	ids := func(v Vocab, texts ...string) (out []int32) {
		for _, s := range texts {
			out = append(out, v.ID(s))
		}
		return out
	}
	if got := spm.Vocab.Decode(ids(spm.Vocab, "<s>", "▁the", "<0xC3>", "<0xBC>", "▁")); got != "<s> theü " {
		t.Errorf("%q", got)
	}
	bpe, _ := Preset("llama-bpe")
	if got := bpe.Vocab.Decode(ids(bpe.Vocab, "Ġthe", "Ã", "¼", "ĊĊ", "<|eot_id|>")); got != " theü\n\n<|eot_id|>" {
		t.Errorf("%q", got)
	}
}

func TestWriteLoRA(t *testing.T) {
	m, _ := Preset("qwen2")
	path := filepath.Join(t.TempDir(), "a.gguf")
	if err := WriteLoRA(path, m, 4, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := gguf.Inspect(path, ""); !errors.Is(err, gguf.ErrModel) ||
		!strings.Contains(err.Error(), `of type "adapter"`) {
		t.Error(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"adapter.lora.alpha", "blk.0.attn_q.weight.lora_a", "blk.3.ffn_down.weight.lora_b"} {
		if !bytes.Contains(data, []byte(name)) {
			t.Errorf("no %s", name)
		}
	}
	// For each of four layers: queries 128 × 128, values 128 × 64, down 256 × 128, of rank 4 in four bytes.
	if want := 4 * 4 * 4 * (256 + 192 + 384); len(data) < want || len(data) > want+4000 {
		t.Errorf("%d bytes, not a little more than %d", len(data), want)
	}
}
