package onnx

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
)

func written(t testing.TB, s checkpoint.Spec) string {
	t.Helper()
	dir := t.TempDir()
	if err := checkpoint.Write(dir, s); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestWriteEveryFamily(t *testing.T) {
	for family := range families {
		for _, labels := range [][]string{nil, {"a", "b"}} {
			dir := written(t, checkpoint.Spec{Family: family, Prefixed: labels != nil, Labels: labels})
			o := Options{Pooling: Mean, Normalise: true}
			if labels != nil {
				o = Options{Task: Classify}
			}
			g, err := Write(dir, o)
			if err != nil {
				t.Errorf("%s, labels %v: %v", family, labels, err)
				continue
			}
			if want := map[bool]int{true: 2, false: 32}[labels != nil]; g.Dim != want {
				t.Errorf("%s: dim %d, expected %d", family, g.Dim, want)
			}
			again, err := Write(dir, o)
			if err != nil || !bytes.Equal(g.ONNX, again.ONNX) {
				t.Errorf("%s: the graph is not reproducible (%v)", family, err)
			}
			files, err := externalLocations(bytes.NewReader(g.ONNX))
			if err != nil || !slices.Equal(files, []string{"model.safetensors"}) {
				t.Errorf("%s: external data in %v, %v", family, files, err)
			}
		}
	}
}

func TestWriteFollowsLinks(t *testing.T) {
	real, dir := written(t, checkpoint.Spec{Family: "bert"}), t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors"} {
		if err := os.Symlink(filepath.Join(real, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	g, err := Write(dir, Options{Pooling: CLS})
	if err != nil {
		t.Fatal(err)
	}
	if want, _ := filepath.EvalSymlinks(real); g.Folder != want {
		t.Errorf("folder %s, expected the linked one %s", g.Folder, want)
	}
}

func TestWriteRefuses(t *testing.T) {
	config := func(key string, v any) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, "config.json")
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var m map[string]any
			if err := json.Unmarshal(raw, &m); err != nil {
				t.Fatal(err)
			}
			m[key] = v
			if raw, err = json.Marshal(m); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, raw, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	file := func(name string, raw []byte) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, name), raw, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		do   func(t *testing.T, dir string)
		want []string
	}{
		"heads":      {config("num_attention_heads", 5), []string{"config.json", "32", "5"}},
		"vocabulary": {config("vocab_size", 99), []string{"model.safetensors", "word_embeddings", "99"}},
		"layers":     {config("num_hidden_layers", 3), []string{"model.safetensors", "encoder.layer.2."}},
		"positions": {config("max_position_embeddings", 79),
			[]string{"position_embeddings", "[80 32]", "[79 32]"}},
		"activation":     {config("hidden_act", "swish"), []string{"config.json", "swish"}},
		"family":         {config("model_type", "gpt2"), []string{"config.json", "gpt2", "mpnet"}},
		"other family":   {config("model_type", "mpnet"), []string{"model.safetensors", "relative_attention_bias"}},
		"relative":       {config("position_embedding_type", "relative_key"), []string{"relative_key"}},
		"decoder":        {config("is_decoder", true), []string{"is_decoder"}},
		"negative":       {config("hidden_size", -32), []string{"hidden_size", "-32"}},
		"huge":           {config("num_hidden_layers", 1<<40), []string{"num_hidden_layers"}},
		"text":           {config("hidden_size", "32"), []string{"config.json", "string"}},
		"epsilon":        {config("layer_norm_eps", 0), []string{"layer_norm_eps"}},
		"pad":            {config("pad_token_id", 1000), []string{"pad_token_id", "1000"}},
		"labels":         {config("id2label", map[string]string{"0": "a", "2": "b"}), []string{"id2label", `"2"`}},
		"config garbage": {file("config.json", []byte("{")), []string{"config.json"}},
		"weights garbage": {file("model.safetensors", []byte("not a safetensors file at all")),
			[]string{"model.safetensors"}},
		"weights empty":     {file("model.safetensors", nil), []string{"model.safetensors", "0 bytes"}},
		"weights truncated": {cut, []string{"model.safetensors", "cut"}},
		"no config": {func(t *testing.T, dir string) { remove(t, dir, "config.json") },
			[]string{"config.json"}},
		"no weights": {func(t *testing.T, dir string) { remove(t, dir, "model.safetensors") },
			[]string{"model.safetensors"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := written(t, checkpoint.Spec{Family: "bert"})
			c.do(t, dir)
			_, err := Write(dir, Options{Pooling: Mean})
			if !errors.Is(err, ErrModel) {
				t.Fatalf("%v, ErrModel expected", err)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not name %q", err, w)
				}
			}
		})
	}
	dir := written(t, checkpoint.Spec{Family: "bert"})
	if _, err := Write(dir, Options{Pooling: "max"}); !errors.Is(err, ErrModel) {
		t.Errorf("pooling max: %v", err)
	}
	if _, err := Write(dir, Options{Task: Classify}); !errors.Is(err, ErrModel) {
		t.Errorf("no labels: %v", err)
	}
}

func remove(t *testing.T, dir, name string) {
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func cut(t *testing.T, dir string) {
	path := filepath.Join(dir, "model.safetensors")
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, st.Size()-1); err != nil {
		t.Fatal(err)
	}
}

// TestRelativeBucket has T5's buckets from NumPy (testdata/reference.py of package embed), float32 logarithm.
func TestRelativeBucket(t *testing.T) {
	for distance, want := range map[int64]int64{
		0: 0, 1: 17, -1: 1, 7: 23, -7: 7, 8: 24, -8: 8, 15: 25, -15: 9, 16: 26, -16: 10, 31: 27, -31: 11,
		32: 28, -32: 12, 63: 29, -63: 13, 64: 30, -64: 14, 127: 31, -127: 15, 128: 31, -128: 15, 511: 31, -511: 15,
	} {
		if got := relativeBucket(distance, 32); got != want {
			t.Errorf("bucket of %d is %d, expected %d", distance, got, want)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(`{"model_type":"bert","hidden_size":32,"num_hidden_layers":1,"num_attention_heads":4,"intermediate_size":64,"vocab_size":9,"max_position_embeddings":8}`))
	f.Add([]byte(`{"model_type":"distilbert","dim":32,"n_layers":1,"n_heads":4,"hidden_dim":64,"vocab_size":9,"max_position_embeddings":8,"id2label":{"0":"a"}}`))
	f.Add([]byte(`{"model_type":"mpnet","pad_token_id":-1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := ParseConfig(raw)
		if err != nil {
			if !errors.Is(err, ErrModel) {
				t.Fatal(err)
			}
			return
		}
		if c.Hidden%c.Heads != 0 || c.MaxTokens() < 1 || c.PadID < 0 || c.PadID >= c.Vocab {
			t.Fatalf("%+v", c)
		}
	})
}

func FuzzExternalLocations(f *testing.F) {
	f.Add(modelProto("m", "", nil, [][]byte{externalTensor("w", 1, []int64{2}, "weights.bin", 0, 8)}, nil, nil))
	f.Add([]byte{0x3a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, raw []byte) {
		names, err := externalLocations(bytes.NewReader(raw))
		if err != nil && names != nil {
			t.Fatal("names beside an error")
		}
	})
}

func TestExternalFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(location string) string {
		path := filepath.Join(dir, "model.onnx")
		inits := [][]byte{int64Tensor("i", []int64{1}, []int64{1}), externalTensor("w", 1, []int64{2}, location, 0, 8)}
		raw := modelProto("m", "",
			[][]byte{nodeProto("", "Add", "n", []string{"w"}, []string{"y"}, []attr{attrInts("perm", 1)})}, inits, nil,
			nil)
		if err := os.WriteFile(path, raw, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if got, err := ExternalFiles(write("a.bin")); err != nil ||
		!slices.Equal(got, []string{filepath.Join(dir, "a.bin")}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, location := range []string{"../a.bin", "/etc/passwd", strings.Repeat("x", maxEntry)} {
		if got, err := ExternalFiles(write(location)); !errors.Is(err, ErrModel) {
			t.Errorf("%.20s: %v, %v", location, got, err)
		}
	}
}
