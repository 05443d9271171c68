//go:build native

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
	"github.com/sluice-rag/sluice/internal/testmodels/hub"
)

// encoderFiles returns the files of a small encoder as sentence-transformers publishes one.
func encoderFiles(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	if err := checkpoint.Write(dir, checkpoint.Spec{Family: "bert"}); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"modules.json": `[{"path":"","type":"sentence_transformers.models.Transformer"},` +
			`{"path":"1_Pooling","type":"sentence_transformers.models.Pooling"},` +
			`{"path":"2_Normalize","type":"sentence_transformers.models.Normalize"}]`,
		"1_Pooling/config.json": `{"pooling_mode_mean_tokens":true}`, "README.md": "read me"}
	for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json"} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(raw)
	}
	return files
}

// state returns the name, mode, size and time of everything below folders.
func state(t *testing.T, dirs ...string) string {
	t.Helper()
	var b strings.Builder
	for _, dir := range dirs {
		if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			st, err := os.Lstat(path)
			if err == nil {
				fmt.Fprintln(&b, path, st.Mode(), st.Size(), st.ModTime())
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// TestNativeModelsFromWhereTheyAre ingests, gates and asks with an encoder and a language model that are found in the
// caches of other programs, where nothing is written, and with the same two pulled from a hub.
func TestNativeModelsFromWhereTheyAre(t *testing.T) {
	root, err := fetch.Root()
	if err != nil {
		t.Fatal(err)
	}
	b, s := hubBench(t)
	b.embedder, b.model = nil, nil
	b.file("cache/note", "")
	// ONNX Runtime is found in the cache.
	if err := os.Symlink(filepath.Join(root, "out"), filepath.Join(b.dir, "cache", "out")); err != nil {
		t.Fatal(err)
	}
	encoder, model := encoderFiles(t), languageModel(t)
	b.cached("o", "theirs", encoder)
	b.ollama("small", model)
	folders := []string{filepath.Join(b.dir, "hf"), filepath.Join(b.dir, "ollama")}
	before := state(t, folders...)
	s.Add("o/enc", &hub.Repo{Commit: hubCommit, Files: encoder})
	s.Add("o/gen", &hub.Repo{Commit: hubCommit, Files: map[string]string{"m-Q4_K_M.gguf": model}})

	b.fails(exitFailure, "sluice models pull hf:o/enc", "embed", "--encoder", "hf:o/enc", "tide")
	b.fails(exitFailure, "sluice models pull hf:o/gen", "ask", "--gate", "closed", "--encoder", "hf:o/theirs",
		"--model", "hf:o/gen", "tide")
	if r := s.Requests(); len(r) > 0 {
		t.Errorf("asked without a pull: %q", r)
	}
	b.ok("models", "pull", "-q", "hf:o/enc", "hf:o/gen")
	asked := len(s.Requests())

	vectors := map[string]string{}
	for _, c := range []struct{ encoder, model string }{{"hf:o/theirs", "ollama:small"}, {"hf:o/enc", "hf:o/gen"}} {
		store := filepath.Join(b.dir, "store-"+strings.ReplaceAll(c.encoder, "/", "-"))
		with := func(args ...string) []string { return append(args, "--store", store) }
		b.ok(with("ingest", "--no-chunk", "--encoder", c.encoder, b.file("contexts.jsonl", contexts))...)
		b.ok(with("calibrate", "--queries", b.file("questions.jsonl", questions))...) // the encoder is the store's
		gated := objects(t,
			b.ok(with("gate", "--json", "--encoder", c.encoder, "Why do lighthouses warn ships?")...))
		if len(gated) != 1 || gated[0]["score"] == nil {
			t.Errorf("%v", gated)
		}
		answer := objects(t, b.ok(with("ask", "--json", "--gate", "open", "--style", "write", "--max-tokens", "8",
			"--model", c.model, "Why do lighthouses warn ships?")...))
		trace, _ := answer[0]["trace"].(map[string]any)
		if answer[0]["answer"] == "" || trace["llm_calls"] != 1.0 {
			t.Errorf("%v", answer)
		}
		embedded := objects(t, b.ok("embed", "--json", "--encoder", c.encoder, "tide"))
		vectors[c.encoder] = fmt.Sprint(embedded[0]["vector"])
	}
	if vectors["hf:o/theirs"] != vectors["hf:o/enc"] {
		t.Error("the same encoder has two vectors")
	}
	b.ok("models", "list")
	b.ok("models", "verify", "hf:o/theirs", "ollama:small", "hf:o/enc", "hf:o/gen")
	if n := len(s.Requests()); n > 0 || asked == 0 {
		t.Errorf("%d requests for the pull, %d after it", asked, n)
	}
	if after := state(t, folders...); after != before {
		t.Errorf("the caches were changed:\n%s\n%s", before, after)
	}
}
