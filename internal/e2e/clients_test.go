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
	"regexp"
	"strconv"
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

// client returns the program that runs a script of testdata/clients, and the script in a folder where it finds what it
// imports. The set-up's part clients brings that, by pinned digests; without it the test is skipped.
func client(t *testing.T, script string) (program, path string) {
	t.Helper()
	root, err := fetch.Root()
	if err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(root, "clients", "python3")
	needs, modules := program, filepath.Join(root, "clients", "node_modules")
	if filepath.Ext(script) == ".mjs" {
		needs = modules
		if program, err = exec.LookPath("node"); err != nil {
			t.Skipf("SKIP: %v", err)
		}
	}
	if _, err := os.Stat(needs); err != nil {
		t.Skipf("SKIP: the clients are not there (make test sets them up): %v", err)
	}
	dir := t.TempDir() // node looks for its packages beside the script
	path = filepath.Join(dir, script)
	copyFile(t, filepath.Join("testdata", "clients", script), path)
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return program, path
}

// TestClients runs the official clients of OpenAI, Anthropic and Ollama, unchanged, against a server with the default
// models. The scripts print what they have passed.
func TestClients(t *testing.T) {
	url := served(t, "--aliases", "gpt-4o=default,text-embedding-3-small=all-MiniLM-L6-v2")
	for script, least := range map[string]int{"client.py": 14, "client.mjs": 9, "shapes_client.py": 19,
		"shapes_client.mjs": 19} {
		t.Run(script, func(t *testing.T) {
			program, path := client(t, script)
			passes(t, least, program, path, url, "SmolLM2-135M-Instruct")
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
	python, path := client(t, "sluice_client_script.py")
	passes(t, 7, python, path, filepath.Join("..", "..", "clients", "python", "sluice-client", "src"), served(t))
}

// TestRetrieverPackages runs the tests of the packages in clients/python, LangChain's own conformance tests among them,
// against a server with the default models.
func TestRetrieverPackages(t *testing.T) {
	python, _ := client(t, "sluice_client_script.py") // any: the packages have their tests
	url := served(t)
	packages, err := filepath.Abs(filepath.Join("..", "..", "clients", "python"))
	if err != nil {
		t.Fatal(err)
	}
	for name, least := range map[string]int{"langchain-sluice": 7, "llama-index-retrievers-sluice": 2,
		"sluice-haystack": 2} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
			cmd.Dir = filepath.Join(packages, name)
			cmd.Env = append(os.Environ(), "SLUICE_URL="+url, "PYTHONDONTWRITEBYTECODE=1",
				"HAYSTACK_TELEMETRY_ENABLED=False",
				"PYTHONPATH="+filepath.Join(packages, "sluice-client", "src")+":"+filepath.Join(cmd.Dir, "src"))
			out, err := cmd.CombinedOutput()
			passed := regexp.MustCompile(`(\d+) passed`).FindSubmatch(out)
			if n := 0; err != nil || passed == nil {
				t.Errorf("%v\n%s", err, out)
			} else if n, _ = strconv.Atoi(string(passed[1])); n < least {
				t.Errorf("%d of %d tests were run: %s", n, least, out)
			}
			t.Logf("%s", out)
		})
	}
}
