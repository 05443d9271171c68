//go:build native

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/numbers"
)

// ask sends a request and returns status and body.
func (s *server) ask(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatalf("%s %s %s: the server is gone: %v\n%s", method, path, body, err, s.stderr)
	}
	defer w.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.StatusCode, string(text)
}

// memory returns a number of kB of /proc/PID/status.
func (s *server) memory(t *testing.T, name string) (kB int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), name+":")
	if kB, err = strconv.Atoi(strings.Fields(rest)[0]); err != nil {
		t.Fatal(err)
	}
	return kB
}

// cancelled has a job begin, and cancels it.
func (s *server) cancelled(t *testing.T, answer string) {
	t.Helper()
	var said struct {
		Job struct{ ID string }
	}
	if err := json.Unmarshal([]byte(answer), &said); err != nil {
		t.Fatal(err)
	}
	job := "/v1/jobs/" + said.Job.ID
	var state struct{ State, Ended string }
	for asked := false; state.Ended == ""; time.Sleep(20 * time.Millisecond) {
		_, body := s.ask(t, http.MethodGet, job, "")
		if err := json.Unmarshal([]byte(body), &state); err != nil {
			t.Fatal(err)
		}
		if state.State == "running" && !asked {
			asked = true
			s.ask(t, http.MethodDelete, job, "")
		}
	}
}

// TestServeEveryNumber sends each number of openapi.json at, below and above its bounds to a server with the default
// models: it answers, lives, and its memory stays below 1.5 times that of the idle server. A number of 15 digits in the
// request for a calibration ended the process before.
func TestServeEveryNumber(t *testing.T) {
	bin := binary(t)
	store := filepath.Join(t.TempDir(), "store")
	run(t, bin, "ingest", "-q", "--no-chunk", "--store", store, writeFile(t, "a.jsonl", doubles.Contexts))
	run(t, bin, "calibrate", "-q", "--store", store, "--queries", writeFile(t, "q.jsonl", doubles.Questions))
	s := startServer(t, bin, "--store", store)
	defer http.DefaultClient.CloseIdleConnections()
	const stop = `"stop":["e"," "]`
	chat := `{"model":"default","messages":[{"role":"user","content":"x"}],"max_tokens":2,` + stop + `}`
	sane := map[string]string{"/tokenize": `{"content":"x"}`, "/v1/calibration": `{"per_context":1}`,
		"/v1/calibration/policy": `{}`, "/v1/chat/completions": chat, "/v1/classify": `{"input":"x"}`,
		"/v1/completions": `{"prompt":"x","max_tokens":2,` + stop + `}`, "/v1/embeddings": `{"input":"x"}`,
		"/v1/feedback": `{"id":"x","thumb":"up"}`, "/v1/gate": `{"query":"x"}`, "/v1/retrieve": `{"query":"x"}`,
		"/v1/rerank": `{"query":"x","documents":["y"]}`, "/v2/rerank": `{"query":"x","documents":["y"]}`,
		"/v1/documents": `{"text":"x"}`, "/retrieval": `{"query":"x"}`,
		"/api/embed":    `{"model":"all-MiniLM-L6-v2","input":"x"}`,
		"/api/generate": `{"model":"default","stream":false,"prompt":"x","options":{"num_predict":2,` + stop + `}}`,
		"/api/chat": `{"model":"default","stream":false,"messages":[{"role":"user","content":"x"}],` +
			`"options":{"num_predict":2,` + stop + `}}`,
		"/v1/messages": `{"model":"default","max_tokens":2,"messages":[{"role":"user","content":"x"}],` +
			`"stop_sequences":["e"," "]}`,
		"/v1/keys": `{"name":"x"}`, "/v1/keys/{name}/rotate": `{}`,
		"/v1/responses": `{"model":"default","input":"x","max_output_tokens":2}`}
	_, text := s.ask(t, http.MethodGet, "/openapi.json", "")
	doc, err := numbers.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	cases, err := doc.Cases(sane)
	if err != nil {
		t.Fatal(err)
	}
	for path, body := range sane { // what each needs is there then
		if status, answer := s.ask(t, http.MethodPost, path, body); status == http.StatusAccepted {
			s.cancelled(t, answer)
		}
	}
	idle := s.memory(t, "VmRSS")
	clear := fmt.Sprintf("/proc/%d/clear_refs", s.cmd.Process.Pid)
	if err := os.WriteFile(clear, []byte("5"), 0); err != nil { // the highest value begins anew
		t.Fatal(err)
	}
	for _, c := range cases {
		if strings.Contains(c.Param, " sluice.") {
			c.Body = strings.NewReplacer(`"default"`, `"sluice"`, stop, `"stop":[]`).Replace(c.Body)
		}
		status, answer := s.ask(t, c.Method, c.URL, c.Body)
		if status >= 500 || !c.Legal && status != http.StatusBadRequest {
			t.Errorf("%s = %s: %d %s", c.Param, c.Value, status, answer)
		}
		if status == http.StatusAccepted {
			s.cancelled(t, answer)
		}
	}
	peak := s.memory(t, "VmHWM")
	t.Logf("%d requests; idle %d MB, at most %d MB", len(cases), idle>>10, peak>>10)
	if 2*peak > 3*idle {
		t.Errorf("%d MB idle, at most %d MB", idle>>10, peak>>10)
	}
	if status, body := s.ask(t, http.MethodPost, "/v1/gate", `{"query":"x"}`); status != 200 {
		t.Errorf("the gate then: %d %s", status, body)
	}
}
