//go:build native && linux && amd64

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
)

// TestNothingLeavesTheMachine runs the verbs of a day's work and looks at every Internet socket and every file written,
// by whichever library or child process. ONNX Runtime's Linux build has telemetry that is on by default: it resolved a
// host name eight times during an ingest and left a device id and an upload queue below ~/.cache. SLUICE_OFFLINE_SERVE
// is how long the server runs (2s).
func TestNothingLeavesTheMachine(t *testing.T) {
	bin := binary(t)
	cache, err := fetch.Open("")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	at := func(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }
	for _, dir := range []string{"home", "cache", "tmp", "work"} {
		if err := os.Mkdir(at(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(cache.Path("models"), at("cache", "models")); err != nil {
		t.Fatal(err)
	}
	corpus, questions := writeFile(t, "a.jsonl", doubles.Contexts), writeFile(t, "q.jsonl", doubles.Questions)
	pdf, err := filepath.Abs("../../rag/corpus/testdata/tides.pdf")
	if err != nil {
		t.Fatal(err)
	}
	var out *bytes.Buffer
	command := func(args ...string) *exec.Cmd {
		out = &bytes.Buffer{}
		cmd := exec.Command(bin, args...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = at("work"), out, out
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + at("home"), "SLUICE_CACHE=" + at("cache"),
			"TMPDIR=" + at("tmp")}
		return cmd
	}
	store := at("kb")
	for _, verb := range [][]string{
		{"doctor"},
		{"ingest", "--store", store, "--no-chunk", corpus},
		{"ingest", "--store", store, pdf},
		{"calibrate", "--store", store, "--queries", questions},
		{"calibrate", "--store", store, "--sample", "2", "--per-context", "1", "--name", "written"},
		{"ask", "--store", store, "--max-tokens", "8", "How do the tides move the sea?"},
		{"ask", "--store", store, "--max-tokens", "8", "--flow", "graph", "How do the tides move the sea?"},
		{"chat", "--store", store, "--max-tokens", "8"},
	} {
		cmd := command(verb...)
		cmd.Stdin = strings.NewReader("How do the tides move the sea?\n")
		seen := watch(t, cmd, nil)
		seen.onlyLocal(t, verb[0], "", []string{store, at("cache")})
		if t.Failed() {
			t.Fatalf("%v:\n%s", verb, out)
		}
	}

	lasts := 2 * time.Second
	if s := os.Getenv("SLUICE_OFFLINE_SERVE"); s != "" {
		if lasts, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close() //nolint:errcheck // only read
	cmd := command("serve", "--store", store, "--listen", "127.0.0.1:0")
	cmd.Stdout = writer
	address := ""
	seen := watch(t, cmd, func() {
		_ = writer.Close()
		line, err := bufio.NewReader(reader).ReadBytes('\n')
		var said struct{ Listening string }
		if err != nil || json.Unmarshal(line, &said) != nil {
			t.Errorf("the server says %q: %v\n%s", line, err, out)
			return
		}
		address = strings.TrimPrefix(said.Listening, "http://")
		for _, body := range []string{`{"model":"sluice","max_tokens":8,"messages":[{"role":"user","content":"Tides?"}]}`,
			`{"model":"default","max_tokens":8,"messages":[{"role":"user","content":"Tides?"}]}`} {
			answer, err := http.Post(said.Listening+"/v1/chat/completions", "application/json", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			text, _ := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Errorf("%s", text)
			}
		}
		time.Sleep(lasts)
	})
	seen.onlyLocal(t, "serve", address, []string{store, at("cache")})
}

// TestWatchSeesSocketsAndFiles is the test of watch.
func TestWatchSeesSocketsAndFiles(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skipf("SKIP: %v", err)
	}
	dir := t.TempDir()
	cmd := exec.Command(python, "-c", `
import os, socket, subprocess, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("192.0.2.1", 53))
open(sys.argv[1] + "/own", "w").close()
subprocess.run(["mkdir", sys.argv[1] + "/child"], check=True)
os.rename(sys.argv[1] + "/own", sys.argv[1] + "/moved")
`, dir)
	cmd.Env = os.Environ()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	seen := watch(t, cmd, nil)
	if !seen.asked {
		t.Skip("SKIP: only sockets can be watched here, by a kill")
	}
	for _, want := range []call{{"socket", "family 2 type 2"}, {"connect", "192.0.2.1:53"},
		{"open", filepath.Join(dir, "own")}, {"make", filepath.Join(dir, "child")},
		{"rename or link to", filepath.Join(dir, "moved")}} {
		if !slices.Contains(seen.calls, want) {
			t.Errorf("%v was not seen in %v\n%s", want, seen.calls, &out)
		}
	}
}

// onlyLocal fails the test for each call but files below the folders and, where an address is given, TCP sockets that
// are bound to it or to a free port of loopback, by which Go's net package tries what the machine supports.
func (w *watched) onlyLocal(t *testing.T, verb, address string, folders []string) {
	t.Helper()
	for _, c := range w.calls {
		switch {
		case address != "" && slices.Contains([]string{"socket family 2 type 1", "socket family 10 type 1",
			"bind " + address, "bind 127.0.0.1:0", "bind [::1]:0", "bind [::ffff:127.0.0.1]:0"}, c.String()):
		case strings.HasPrefix(c.what, "/dev/") || strings.HasPrefix(c.what, "/proc/"):
		case slices.ContainsFunc(folders, func(dir string) bool {
			return c.what == dir || strings.HasPrefix(c.what, dir+"/")
		}):
		default:
			t.Errorf("%s: %v", verb, c)
		}
	}
}
