//go:build native

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
)

// servedMCP returns a store that `sluice mcp` opens, a server over it, its key, and what ends the server.
func servedMCP(t *testing.T) (bin, store, url, key string, end func()) {
	t.Helper()
	bin, store, key = binary(t), filepath.Join(t.TempDir(), "store"), "0123456789abcdef0123"
	run(t, bin, "ingest", "-q", "--no-chunk", "--store", store, writeFile(t, "a.jsonl", doubles.Contexts))
	run(t, bin, "calibrate", "-q", "--store", store, "--queries", writeFile(t, "q.jsonl", doubles.Questions))
	s := startServer(t, bin, "--store", store, "--api-key-file", writeFile(t, "keys", key+"\n"))
	return bin, store, s.url, key, func() {
		if err := s.end(t); err != nil {
			t.Error(err)
		}
	}
}

// TestMCPClients runs the official Python and TypeScript clients of the Model Context Protocol, unchanged, over both
// transports against a store with the default models. The scripts print what they have passed.
func TestMCPClients(t *testing.T) {
	bin, store, url, key, end := servedMCP(t)
	defer end()
	for script, least := range map[string]int{"mcp_client.py": 28, "mcp_client.mjs": 14} {
		t.Run(script, func(t *testing.T) {
			program, path := client(t, script)
			passes(t, least, program, path, bin, store, url, key)
		})
	}
}

// TestMCPInspector runs the command line of the protocol's Inspector over both transports.
func TestMCPInspector(t *testing.T) {
	node, path := client(t, "mcp_client.mjs")
	// It reads its version from where the Inspector's own package has it, two folders above.
	dir := filepath.Dir(path)
	build := filepath.Join(dir, "inspector", "cli", "build")
	from := filepath.Join(dir, "node_modules", "@modelcontextprotocol", "inspector-cli")
	if err := os.CopyFS(build, os.DirFS(filepath.Join(from, "build"))); err != nil {
		t.Fatal(err)
	}
	copyFile(t, filepath.Join(from, "package.json"), filepath.Join(dir, "inspector", "package.json"))
	inspector := filepath.Join(build, "index.js")
	bin, store, url, key, end := servedMCP(t)
	defer end()
	question := "query=When does a deferred function run, in which order?"
	for name, target := range map[string][]string{
		"stdio": {bin, "mcp", "-q", "--store", store},
		"HTTP":  {url + "/mcp", "--transport", "http", "--header", "Authorization: Bearer " + key},
	} {
		inspect := func(args ...string) (string, error) {
			all := append(append([]string{inspector}, target...), args...)
			out, err := exec.CommandContext(t.Context(), node, all...).CombinedOutput()
			return string(out), err
		}
		for _, x := range []struct {
			args []string
			want string
			ok   bool
		}{
			{[]string{"--method", "tools/list"}, `"list_documents"`, true},
			{[]string{"--method", "tools/call", "--tool-name", "gate", "--tool-arg", question}, `"retrieve": true`,
				true},
			{[]string{"--method", "tools/call", "--tool-name", "search", "--tool-arg", "query=x", "k=0"},
				`"isError": true`, true},
			{[]string{"--method", "resources/list"}, `sluice://documents/`, true},
			{[]string{"--method", "resources/read", "--uri", "sluice://documents/none"}, "none", false},
		} {
			out, err := inspect(x.args...)
			if (err == nil) != x.ok || !strings.Contains(out, x.want) {
				t.Errorf("%s: %q: %v\n%s", name, x.args, err, out)
			}
		}
	}
	for _, header := range []string{"X-Other: 1", "Authorization: Bearer a-key-that-nobody-has"} {
		out, err := exec.CommandContext(t.Context(), node, inspector, url+"/mcp", "--transport", "http",
			"--header", header, "--method", "tools/list").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "401") && !strings.Contains(string(out), "API key") {
			t.Errorf("%s: %v\n%s", header, err, out)
		}
	}
}
