package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// remoteBench returns a filled bench without a local model, and the URL of a server that has one, under the key k3y.
func remoteBench(t *testing.T) (b *bench, url string, last *map[string]any) {
	last = &map[string]any{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer k3y":
			http.Error(w, `{"error":{"message":"who are you?"}}`, http.StatusUnauthorized)
		case r.URL.Path == "/v1/models":
			_, _ = io.WriteString(w, `{"data":[{"id":"served","max_model_len":3000}]}`)
		case r.URL.Path == "/v1/chat/completions":
			*last = map[string]any{}
			if err := json.NewDecoder(r.Body).Decode(last); err != nil {
				t.Error(err)
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w,
				`data: {"choices":[{"delta":{"content":"So it is [1]."},"finish_reason":"stop"}]}`+"\n\ndata: "+
					"[DONE]\n\n")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	b = filled(t)
	b.model = nil
	b.env = []string{"SLUICE_MODEL=" + s.URL, "SLUICE_REMOTE_API_KEY=k3y", "SLUICE_ASK_STYLE=write"}
	return b, s.URL, last
}

func TestAskOfAServer(t *testing.T) {
	b, url, last := remoteBench(t)
	o := b.run("ask", "What do lighthouses warn of?", "--gate", "open", "--trace")
	if o.code != exitOK || !strings.Contains(o.stdout, "So it is [1].\n") ||
		!strings.Contains(o.stdout, "sent to     "+url+"/v1\n") {
		t.Errorf("%+v", o)
	}
	if want := "questions and passages go to another process: " + url +
		"/v1, model served; tokens are estimated, at 3 bytes each\n"; !strings.HasSuffix(o.stderr, want) ||
		strings.Count(o.stderr, "\n") != 1 {
		t.Errorf("%q does not say %q alone", o.stderr, want)
	}
	if o := b.run("ask", "What do lighthouses warn of?", "--gate", "open", "--quiet"); o.code != exitOK ||
		o.stderr != "" {
		t.Errorf("--quiet is not quiet: %+v", o)
	}
	if (*last)["model"] != "served" || (*last)["max_tokens"] != 256.0 {
		t.Errorf("%v", *last)
	}
	line := objects(t, b.ok("ask", "What do lighthouses warn of?", "--gate", "closed", "--json"))[0]
	if line["trace"].(map[string]any)["remote"] != url+"/v1" {
		t.Errorf("%v", line)
	}
	// set explicitly, so not dropped
	b.fails(exitUsage, "top-k 5", "ask", "x", "--gate", "closed", "--temperature", "1", "--top-k", "5")
	b.ok("ask", "x", "--gate", "closed", "--temperature", "1")
	b.env = append(b.env, "SLUICE_REMOTE_EXTENSIONS=vllm", "SLUICE_ASK_CONTEXT_TOKENS=2048")
	b.fails(exitFailure, "HTTP 404", "ask", "x", "--gate", "closed") // this server does not count tokens
	b.env = []string{"SLUICE_MODEL=" + url, "SLUICE_REMOTE_API_KEY_ENV=NOT_SET_ANYWHERE"}
	b.fails(exitUsage, "NOT_SET_ANYWHERE", "ask", "x", "--gate", "closed")
	b.env = []string{"SLUICE_MODEL=" + url}
	b.fails(exitFailure, "the key is missing", "ask", "x", "--gate", "closed")
}

func TestDoctorOfAServer(t *testing.T) {
	b, url, _ := remoteBench(t)
	o := b.run("doctor", "--json")
	for _, c := range objects(t, o.stdout) {
		if detail := c["detail"].(string); c["name"] == "language model" &&
			(c["status"] != "ok" ||
				!strings.Contains(detail,
					"served of "+url+"/v1 answers \"So it is [1].\", context 3000 tokens; questions and passages go "+
						"to "+
						"another process")) {
			t.Errorf("%v", c)
		}
	}
	if !strings.Contains(o.stderr, "another process: "+url) {
		t.Errorf("%q", o.stderr)
	}
	b.env = append(b.env, "SLUICE_REMOTE_BYTES_PER_TOKEN=0")
	if o := b.run("doctor"); !strings.Contains(o.stdout, "✗ token counter") {
		t.Errorf("%s", o.stdout)
	}
	b.env = []string{"SLUICE_MODEL=" + url}
	if o := b.run("doctor"); !strings.Contains(o.stdout, "✗ language model") ||
		!strings.Contains(o.stdout, "who are you?") {
		t.Errorf("%s", o.stdout)
	}
}

func TestTheKeyIsNotPrinted(t *testing.T) {
	b, _, _ := remoteBench(t)
	o := b.run("config", "show")
	if o.code != exitOK || strings.Contains(o.stdout+o.stderr, "k3y") || !strings.Contains(o.stdout, "(set)") {
		t.Errorf("%+v", o)
	}
	b.env = append(b.env, "SLUICE_REMOTE_API_KEY=k3y\x00")
	if o := b.fails(exitUsage, "NUL", "config", "show"); strings.Contains(o.stderr, "k3y") {
		t.Errorf("%+v", o)
	}
}
