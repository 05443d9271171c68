package embed

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/embed/onnx"
)

// folder writes files into a new folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestParseSettings(t *testing.T) {
	s, err := parseSettings([]byte("name: x\npooling: cls\nnormalise: true\nmax_tokens: 12\nquery_prefix: 'q: '\n"))
	if err != nil || s.Pooling != onnx.CLS || !s.Normalise || s.MaxTokens != 12 || s.prefix(Query) != "q: " ||
		s.prefix(Document) != "" {
		t.Errorf("%+v, %v", s, err)
	}
	for text, want := range map[string]string{
		"":                                 "EOF",
		"normalize: true":                  "normalize",
		"pooling: max":                     `"max"`,
		"max_tokens: -1":                   "-1",
		"max_tokens: many":                 "many",
		"kind: generator":                  `"generator"`,
		"pooling: mean\n---\npooling: cls": "more than one",
		"query_prefix: \"a\\0\"":           "NUL",
		"training: 5":                      "not a mapping",
		"[":                                "yaml",
	} {
		if _, err := parseSettings([]byte(text)); !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, ErrModel with %s expected", text, err, want)
		}
	}
}

// TestShorterVectors: model.yaml says to which dimensions vectors may be cut, else config.json.
func TestShorterVectors(t *testing.T) {
	for _, c := range []struct {
		settings, config string
		want             string // of 384 dimensions; "!" an error
	}{
		{"pooling: mean\n", "", ""},
		{"pooling: mean\n", `{"hidden_size":384}`, ""},
		{"pooling: mean\ndimensions: [256, 64, 384, 64]\n", `{"matryoshka_dimensions":[128]}`, "64 256"},
		{"pooling: mean\n", `{"matryoshka_dimensions":[256,128]}`, "128 256"},
		{"pooling: mean\ndimensions: []\n", `{"matryoshka_dimensions":[256,128]}`, ""},
		{"pooling: mean\ndimensions: [0]\n", "", "!"},
		{"pooling: mean\ndimensions: [385]\n", "", "!"},
		{"pooling: mean\n", `{"matryoshka_dimensions":"x"}`, "!"},
	} {
		files := map[string]string{"model.yaml": c.settings}
		if c.config != "" {
			files["config.json"] = c.config
		}
		dir := folder(t, files)
		s, err := readSettings(dir, KindEncoder)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.shorter(dir, 384)
		if err != nil && errors.Is(err, ErrModel) {
			got = "!"
		}
		if got != c.want {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

// TestCut: the first numbers of each vector stay, at length 1 if the whole had it.
func TestCut(t *testing.T) {
	for _, normalised := range []bool{false, true} {
		e := &Embeddings{Dim: 3, Data: []float32{3, 4, 5, 0, 2, 7, 0, 0, 1}}
		e.Cut(2, normalised)
		want := []float32{3, 4, 0, 2, 0, 0}
		if normalised {
			want = []float32{.6, .8, 0, 1, 0, 0}
		}
		if e.Dim != 2 || !slices.Equal(e.Data, want) {
			t.Errorf("normalised %v: %v", normalised, e.Data)
		}
	}
}

func TestSentenceTransformersFolder(t *testing.T) {
	good := map[string]string{
		"modules.json": `[{"type":"sentence_transformers.models.Transformer","path":""},
			{"type":"sentence_transformers.models.Pooling","path":"1_Pooling"},{"type":"sentence_transformers.models.Normalize","path":"2_Normalize"}]`,
		"1_Pooling/config.json":             `{"word_embedding_dimension":384,"pooling_mode_cls_token":false,"pooling_mode_mean_tokens":true}`,
		"sentence_bert_config.json":         `{"max_seq_length":256}`,
		"config_sentence_transformers.json": `{"prompts":{"query":"ask: ","passage":"say: "}}`,
	}
	s, err := readSettings(folder(t, good), KindEncoder)
	if err != nil || s.Pooling != onnx.Mean || !s.Normalise || s.MaxTokens != 256 || s.QueryPrefix != "ask: " ||
		s.DocumentPrefix != "say: " {
		t.Errorf("%+v, %v", s, err)
	}
	for name, bad := range map[string]string{
		"modules.json":              `[{"type":"sentence_transformers.models.Dense","path":"2"}]`,
		"1_Pooling/config.json":     `{"pooling_mode_max_tokens":true}`,
		"sentence_bert_config.json": `{"max_seq_length":0}`,
	} {
		files := maps.Clone(good)
		files[name] = bad
		if _, err := readSettings(folder(t, files), KindEncoder); !errors.Is(err, ErrModel) ||
			!strings.Contains(err.Error(), filepath.Base(name)) {
			t.Errorf("%s = %s: %v", name, bad, err)
		}
		files[name] = "{"
		if _, err := readSettings(folder(t, files), KindEncoder); !errors.Is(err, ErrModel) ||
			!strings.Contains(err.Error(), filepath.Base(name)) {
			t.Errorf("broken %s: %v", name, err)
		}
	}
	out := maps.Clone(good)
	out["modules.json"] = strings.Replace(good["modules.json"], "1_Pooling", "../elsewhere", 1)
	if _, err := readSettings(folder(t, out), KindEncoder); !errors.Is(err, ErrModel) {
		t.Errorf("a path out of the folder: %v", err)
	}
	if _, err := readSettings(t.TempDir(), KindEncoder); !errors.Is(err, ErrModel) ||
		!strings.Contains(err.Error(), "model.yaml") {
		t.Errorf("no settings: %v", err)
	}
	if s, err := readSettings(t.TempDir(), KindClassifier); err != nil || s.Name == "" {
		t.Errorf("a classifier needs no settings: %+v, %v", s, err)
	}
}

// TestConversion: a conversion without settings of its own has those of the model that it was made of.
func TestConversion(t *testing.T) {
	s, err := readSettings(folder(t, map[string]string{"config.json": `{"_name_or_path":"BAAI/bge-small-en-v1.5"}`}),
		KindEncoder)
	if err != nil || s.Name != "bge-small-en-v1.5" || s.Pooling != onnx.CLS || !s.Normalise || s.MaxTokens != 512 ||
		!strings.HasPrefix(s.QueryPrefix, "Represent this sentence") || s.DocumentPrefix != "" ||
		s.languages() != "en" {
		t.Errorf("%+v, %v", s, err)
	}
	for _, config := range []string{`{"_name_or_path":"o/bge-small-en-v1.5"}`, `{"_name_or_path":""}`,
		`{"_name_or_path":"Qwen/Qwen3-0.6B-GGUF"}`, `{"_name_or_path":7}`, `{}`} {
		if _, err := readSettings(folder(t, map[string]string{"config.json": config}), KindEncoder); !errors.Is(err,
			ErrModel) {
			t.Errorf("%s: %v", config, err)
		}
	}
}

// A model that is known by its name is known by that of its repository, too.
func TestLanguagesByName(t *testing.T) {
	for name, want := range map[string]string{"all-MiniLM-L6-v2": "en", "hf:o/all-MiniLM-L6-v2": "en",
		"hf:o/all-MiniLM-L6-v2@refs/pr/1": "en", "hf:o/all-MiniLM-L6-v2@v1": "en", "hf:o/other": "", "": ""} {
		if got := (&ModelSettings{Name: name}).languages(); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestLimit(t *testing.T) {
	for _, c := range []struct {
		given, own, want int
		strict, ok       bool
	}{
		{256, 512, 256, true, true}, {0, 512, 512, true, true}, {514, 512, 512, false, true},
		{514, 512, 0, true, false},
		{0, 0, 0, true, false}, {128, 0, 128, true, true}, {2, 512, 0, true, false}, {3, 512, 3, true, true},
	} {
		s := &ModelSettings{MaxTokens: c.given, strict: c.strict}
		err := s.limit("dir", c.own, 2)
		if (err == nil) != c.ok || c.ok && s.MaxTokens != c.want || err != nil && !errors.Is(err, ErrModel) {
			t.Errorf("%+v: %d, %v", c, s.MaxTokens, err)
		}
	}
}

func FuzzSettings(f *testing.F) {
	f.Add([]byte("name: x\npooling: mean\nmax_tokens: 3\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("max_tokens: 99999999999999999999"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := parseSettings(raw)
		if (s == nil) == (err == nil) || err != nil && !errors.Is(err, ErrModel) {
			t.Fatalf("%+v, %v", s, err)
		}
		if err == nil && s.MaxTokens < 0 {
			t.Fatalf("%+v", s)
		}
	})
}
