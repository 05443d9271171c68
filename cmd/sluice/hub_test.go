package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/generator"
	"github.com/sluice-rag/sluice/internal/testmodels/hub"
)

const hubCommit = "0123456789abcdef0123456789abcdef01234567"

// hubBench returns a bench with a cache of its own, empty caches of other programs, and a hub.
func hubBench(t *testing.T) (*bench, *hub.Server) {
	b, s := newBench(t), hub.Start(t)
	for name, value := range map[string]string{"SLUICE_CACHE": filepath.Join(b.dir, "cache"), "HF_ENDPOINT": s.URL,
		"HF_HOME": filepath.Join(b.dir, "hf"), "OLLAMA_MODELS": filepath.Join(b.dir, "ollama"), "HF_HUB_CACHE": "",
		"HF_TOKEN": "", "HUGGING_FACE_HUB_TOKEN": "", "HF_TOKEN_PATH": ""} {
		t.Setenv(name, value)
	}
	return b, s
}

// languageModel returns the bytes of a small GGUF file.
func languageModel(t *testing.T) string {
	t.Helper()
	m, ok := generator.Preset("qwen2")
	if !ok {
		t.Fatal("no preset")
	}
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := generator.Write(path, m); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// ollama puts a model into the store of Ollama.
func (b *bench) ollama(name, model string) {
	b.file("ollama/blobs/sha256-"+hub.Sum(model), model)
	b.file("ollama/manifests/registry.ollama.ai/library/"+name+"/latest", `{"layers":[{"mediaType":`+
		`"application/vnd.ollama.image.model","digest":"sha256:`+hub.Sum(model)+`"}]}`)
}

// cached puts a repository into the cache of Hugging Face's programs.
func (b *bench) cached(owner, name string, files map[string]string) {
	base := "hf/hub/models--" + owner + "--" + name
	b.file(base+"/refs/main", hubCommit)
	for file, text := range files {
		blob := b.file(base+"/blobs/"+hub.Sum(text), text)
		link := filepath.Join(b.dir, base, "snapshots", hubCommit, file)
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			b.t.Fatal(err)
		}
		to, err := filepath.Rel(filepath.Dir(link), blob)
		if err == nil {
			err = os.Symlink(to, link)
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

// TestModelsOfTheHub pulls, lists and verifies models by the names of their repositories, and says what is wrong.
func TestModelsOfTheHub(t *testing.T) {
	b, s := hubBench(t)
	model := languageModel(t)
	s.Add("o/gen", &hub.Repo{Commit: hubCommit, Files: map[string]string{"m-Q4_K_M.gguf": model,
		"m-Q8_0.gguf": model[:5000]}})
	s.Add("o/gated", &hub.Repo{Commit: hubCommit, Gated: true, Files: map[string]string{"m.gguf": model[:4000]}})
	s.Add("o/liar", &hub.Repo{Commit: hubCommit, Files: map[string]string{"m.gguf": model},
		SHA256: map[string]string{"m.gguf": hub.Sum("x")}})
	b.fails(exitFailure, "get it with: sluice models pull hf:o/gen", "models", "verify", "hf:o/gen")
	if r := s.Requests(); len(r) > 0 {
		t.Errorf("asked without a pull: %q", r)
	}
	s.Busy(1, "0")
	s.Break(false, 100_000)
	o := b.run("models", "pull", "--json", "hf:o/gen")
	path := filepath.Join(b.dir, "cache/hub/models--o--gen/snapshots", hubCommit, "m-Q4_K_M.gguf")
	got := objects(t, o.stdout)
	if len(got) != 1 || got[0]["name"] != "hf:o/gen" || got[0]["dir"] != path ||
		!strings.Contains(o.stderr, "hf:o/gen: commit "+hubCommit+", 1 files") ||
		!strings.Contains(o.stderr, "429 Too Many Requests") || !strings.Contains(o.stderr, "trying again") {
		t.Errorf("%v %s", got, o.stderr)
	}
	b.ollama("llama3.2", model)
	b.cached("o", "other", map[string]string{"a-Q8_0.gguf": model, "mmproj.gguf": "x"})
	byName := map[string]map[string]any{}
	for _, o := range objects(t, b.ok("models", "list", "--json")) {
		byName[o["name"].(string)] = o
	}
	for name, readOnly := range map[string]any{"hf:o/gen:m-Q4_K_M.gguf": nil, "hf:o/other:a-Q8_0.gguf": true,
		"ollama:llama3.2": true} {
		m := byName[name]
		if m == nil || m["read_only"] != readOnly || m["architecture"] != "qwen2" || m["bytes"] != float64(len(model)) {
			t.Errorf("%s: %v", name, m)
		}
	}
	table := b.ok("models", "list")
	for _, want := range []string{"hf:o/gen:m-Q4_K_M.gguf generator - yes ", "ollama:llama3.2 generator - read-only ",
		"hf:o/other:a-Q8_0.gguf generator - read-only "} {
		if !strings.Contains(strings.Join(strings.Fields(table), " "), want) {
			t.Errorf("%q is not in\n%s", want, table)
		}
	}
	verified := b.ok("models", "verify", "hf:o/gen", "hf:o/other", "ollama:llama3.2")
	if verified != "✓ hf:o/gen (the hub's)\n✓ hf:o/other (its program's)\n✓ ollama:llama3.2 (its program's)\n" {
		t.Error(verified)
	}

	token := "hf_notTheRightOne"
	b.fails(exitFailure, "accept its licence at "+s.URL+"/o/gated", "models", "pull", "hf:o/gated")
	t.Setenv("HF_TOKEN", token)
	if o := b.fails(exitFailure, "refuses the token in HF_TOKEN", "models", "pull", "--json", "-v",
		"hf:o/gated"); strings.Contains(o.stderr+o.stdout, token) {
		t.Error(o)
	}
	t.Setenv("HF_TOKEN", s.Token)
	s.Accepted = true
	if o := b.run("models", "pull", "--json", "-v", "hf:o/gated"); o.code != exitOK ||
		strings.Contains(o.stderr+o.stdout, s.Token) || len(s.Keys()) > 0 {
		t.Errorf("%v %q", o, s.Keys())
	}
	b.fails(exitFailure, "expected "+hub.Sum("x"), "models", "pull", "hf:o/liar")
	b.fails(exitUsage, "hf:OWNER/REPO", "models", "pull", "hf:o")
	b.fails(exitUsage, "m-Q8_0.gguf", "models", "pull", "hf:o/gen:Q2_K")
	b.fails(exitFailure, "ollama pull qwen3", "models", "pull", "ollama:qwen3")
}
