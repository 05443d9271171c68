//go:build native

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/generator"
)

// thinkerFile writes a model that thinks " water river" and answers " light house".
func thinkerFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "thinker.gguf")
	if err := generator.Write(path, generator.Thinkers()["qwen3"]); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestThinkingClient: OpenAI's Python client, unchanged, reads reasoning_content.
func TestThinkingClient(t *testing.T) {
	root, err := fetch.Root()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(root, "clients", "python3")
	if _, err := os.Stat(program); err != nil {
		t.Skipf("the client is not there (make test sets it up): %v", err)
	}
	url := served(t, "--model", thinkerFile(t))
	out, err := exec.CommandContext(t.Context(), program, filepath.Join("testdata", "clients", "thinking.py"), url).
		CombinedOutput()
	if err != nil || !strings.Contains(string(out), "openai-python") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestAskThinks: thinking is not in the answer of the terminal, goes to standard error with --show-thinking, and is a
// field with --json. One that uses up the tokens is told.
func TestAskThinks(t *testing.T) {
	bin, model, dir := binary(t), thinkerFile(t), t.TempDir()
	corpus, store := filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "store")
	if err := os.WriteFile(corpus, []byte(doubles.Contexts), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, bin, "ingest", corpus, "--store", store, "--no-chunk")
	ask := func(more ...string) (stdout, stderr string) {
		t.Helper()
		args := append([]string{"ask", "What do lighthouses warn of?", "--store", store, "--model", model, "--style",
			"write", "--gate", "open"}, more...)
		cmd := exec.CommandContext(t.Context(), bin, args...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s", err, errs.String())
		}
		return out.String(), errs.String()
	}
	if out, errs := ask(); !strings.Contains(out, "light house") || strings.Contains(out+errs, "river") {
		t.Errorf("%s\n%s", out, errs)
	}
	if out, errs := ask("--show-thinking", "--trace"); !strings.Contains(out, "light house") ||
		strings.Contains(out, "river") || !strings.Contains(errs, "water river\n") ||
		!strings.Contains(out, "of thinking)") {
		t.Errorf("%s\n%s", out, errs)
	}
	if out, _ := ask("--reasoning-effort", "none", "--trace"); strings.Contains(out, "of thinking)") {
		t.Errorf("%s", out)
	}
	var said struct {
		Answer, Thought string
		Trace           struct {
			Thought int `json:"thought_tokens"`
		}
	}
	out, _ := ask("--json")
	if err := json.Unmarshal([]byte(out), &said); err != nil || said.Thought != "water river" ||
		strings.TrimSpace(said.Answer) != "light house" || said.Trace.Thought == 0 {
		t.Errorf("%v %s", err, out)
	}
}
