//go:build native

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
)

// served returns a `sluice serve` over the small library, calibrated, with the default models; it gets SIGTERM at the
// test's end, and has to end with exit code 0.
func served(t *testing.T, more ...string) (url string) {
	t.Helper()
	bin, dir := binary(t), t.TempDir()
	corpus, store := filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "store")
	questions := filepath.Join(dir, "q.jsonl")
	for path, text := range map[string]string{corpus: doubles.Contexts, questions: doubles.Questions} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(t, bin, "ingest", corpus, "--store", store, "--no-chunk")
	run(t, bin, "calibrate", "--store", store, "--queries", questions)
	args := append([]string{"serve", "--listen", "127.0.0.1:0", "--store", store}, more...)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), bin, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("serve: %v\n%s", err, stderr.String())
		}
	})
	lines := bufio.NewScanner(stdout)
	var said struct{ Listening string }
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &said) != nil || said.Listening == "" {
		t.Fatalf("serve said %q\n%s", lines.Text(), stderr.String())
	}
	return said.Listening
}

// TestOpenAIClients runs OpenAI's official clients, unchanged, against a server with the default models. The scripts
// print what they have passed.
func TestOpenAIClients(t *testing.T) {
	root, err := fetch.Root()
	if err != nil {
		t.Fatal(err)
	}
	clients := filepath.Join(root, "clients")
	url := served(t, "--aliases", "gpt-4o=default,text-embedding-3-small=all-MiniLM-L6-v2")
	for _, c := range []struct {
		name, program, script, needs string
		least                        int // cases
	}{
		{"Python", filepath.Join(clients, "python3"), "client.py", "python3", 14},
		{"JavaScript", "node", "client.mjs", "node_modules", 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			needs := filepath.Join(clients, c.needs)
			if _, err := os.Stat(needs); err != nil {
				t.Skipf("the client is not there (make test sets it up): %v", err)
			}
			program, err := exec.LookPath(c.program)
			if err != nil {
				t.Skip(err)
			}
			dir := t.TempDir() // node looks for its packages beside the script
			copyFile(t, filepath.Join("testdata", "clients", c.script), filepath.Join(dir, c.script))
			const modules = "node_modules"
			if err := os.Symlink(filepath.Join(clients, modules), filepath.Join(dir, modules)); err != nil {
				t.Fatal(err)
			}
			passes(t, c.least, program, filepath.Join(dir, c.script), url, "SmolLM2-135M-Instruct")
		})
	}
}

// passes runs a script of a client, which prints the client and the cases that it has passed; there must be at least so
// many.
func passes(t *testing.T, least int, program string, args ...string) {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stderr, cmd.Env = &stderr, append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, stderr.String())
	}
	var said struct {
		Client string
		Passed []string
	}
	if err := json.Unmarshal(out, &said); err != nil || len(said.Passed) < least {
		t.Errorf("%v: %s", err, out)
	}
	t.Logf("%s: %q", said.Client, said.Passed)
}

// TestPythonClient runs clients/python/sluice-client, which needs Python alone, against a server with the default
// models.
func TestPythonClient(t *testing.T) {
	root, err := fetch.Root()
	if err != nil {
		t.Fatal(err)
	}
	python := filepath.Join(root, "clients", "python3")
	if _, err := os.Stat(python); err != nil {
		t.Skipf("the client is not there (make test sets it up): %v", err)
	}
	passes(t, 7, python, filepath.Join("testdata", "clients", "sluice_client_script.py"),
		filepath.Join("..", "..", "clients", "python", "sluice-client", "src"), served(t))
}
