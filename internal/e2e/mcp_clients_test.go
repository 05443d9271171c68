//go:build native

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
)

// TestMCPClients runs the official Python and TypeScript clients of the Model Context Protocol, unchanged, over both
// transports against a store with the default models. The scripts print what they have passed.
func TestMCPClients(t *testing.T) {
	for _, c := range []struct {
		name, variable, program, script, what string
		least                                 int // cases
	}{
		{"Python", "SLUICE_TEST_PYTHON", "", "mcp_client.py", "a Python with the package mcp (2.3)", 28},
		{"TypeScript", "SLUICE_TEST_NODE_MODULES", "node", "mcp_client.mjs",
			"a folder node_modules with @modelcontextprotocol/sdk (1.32)", 14},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := os.Getenv(c.variable)
			if at == "" {
				t.Skipf("SKIP: set %s to %s", c.variable, c.what)
			}
			dir := t.TempDir() // node looks for its packages beside the script
			copyFile(t, filepath.Join("testdata", "clients", c.script), filepath.Join(dir, c.script))
			program := at
			if c.program != "" {
				var err error
				if program, err = exec.LookPath(c.program); err != nil {
					t.Skip(err)
				}
				if err := os.Symlink(at, filepath.Join(dir, "node_modules")); err != nil {
					t.Fatal(err)
				}
			}
			bin, store := binary(t), filepath.Join(dir, "store")
			run(t, bin, "ingest", "-q", "--no-chunk", "--store", store, writeFile(t, "a.jsonl", doubles.Contexts))
			run(t, bin, "calibrate", "-q", "--store", store, "--queries", writeFile(t, "q.jsonl", doubles.Questions))
			const key = "0123456789abcdef0123"
			s := startServer(t, bin, "--store", store, "--api-key-file", writeFile(t, "keys", key+"\n"))
			passes(t, c.least, program, filepath.Join(dir, c.script), bin, store, s.url, key)
			if err := s.end(t); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestShapeClients runs the official Python clients of OpenAI's Responses API, Anthropic and Ollama, unchanged, against
// a server with the default models.
func TestShapeClients(t *testing.T) {
	python := os.Getenv("SLUICE_TEST_PYTHON")
	if python == "" {
		t.Skip("SKIP: set SLUICE_TEST_PYTHON to a Python with the packages openai, anthropic and ollama")
	}
	passes(t, 19, python, filepath.Join("testdata", "clients", "shapes_client.py"), served(t), "SmolLM2-135M-Instruct")
}
