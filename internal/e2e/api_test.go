//go:build native

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
)

// commandsOf returns the commands of a document's sh blocks.
func commandsOf(md string) (list []string) {
	for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindAllStringSubmatch(md, -1) {
		for _, c := range regexp.MustCompile(`(?m)^curl `).Split(block[1], -1) {
			if c = strings.TrimSpace(c); c != "" {
				list = append(list, "curl "+c)
			}
		}
	}
	return list
}

// TestAPIDocument runs the commands of docs/api.md against a server, and checks that they use every endpoint of
// openapi.json except those that other documents describe.
func TestAPIDocument(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	for kind, labels := range map[string][]string{"reranker": {"relevance"}, "classifier": {"sea", "land"}} {
		at := filepath.Join(dir, kind)
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
		spec := checkpoint.Spec{Family: "bert", Prefixed: true, Kind: kind, Labels: labels}
		if err := checkpoint.Write(at, spec); err != nil {
			t.Fatal(err)
		}
	}
	url := served(t, "--reranker", filepath.Join(dir, "reranker"), "--classifier", filepath.Join(dir, "classifier"))
	asked := map[string]bool{}
	for _, command := range commandsOf(read(t, "docs/api.md")) {
		out, err := exec.CommandContext(t.Context(), "sh", "-c",
			strings.ReplaceAll(command, "http://127.0.0.1:7420", url)).CombinedOutput()
		if err != nil || len(out) == 0 {
			t.Errorf("%s\n%v\n%s", command, err, out)
		}
		path := regexp.MustCompile(`7420(/[^ ?]*)`).FindStringSubmatch(command)[1]
		asked[path] = true
	}
	var spec struct{ Paths map[string]any }
	if err := json.Unmarshal([]byte(read(t, "serve/openapi.json")), &spec); err != nil {
		t.Fatal(err)
	}
	elsewhere := []string{"/", "/page/{file}", "/v1/feedback", "/mcp"} // the page, serving.md, mcp.md
	for path := range spec.Paths {
		known := slices.Contains(elsewhere, path) || strings.HasPrefix(path, "/v1/documents") ||
			strings.HasPrefix(path, "/v1/chunks") || strings.HasPrefix(path, "/v1/calibration") ||
			strings.HasPrefix(path, "/v1/jobs") || strings.HasPrefix(path, "/v1/keys")
		pattern := "^" + regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(path), ".+") + "$"
		for one := range asked {
			known = known || regexp.MustCompile(pattern).MatchString(one)
		}
		if !known {
			t.Errorf("docs/api.md does not ask %s", path)
		}
	}
}
