package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAServerEmbeds checks that a server embeds if the encoder is its URL, with its own key, and that a store naming
// the server is not enough.
func TestAServerEmbeds(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Input []string }
		switch {
		case r.Header.Get("Authorization") != "Bearer emb3d":
			http.Error(w, `{"error":{"message":"who are you?"}}`, http.StatusUnauthorized)
			return
		case r.URL.Path != "/v1/embeddings" || json.NewDecoder(r.Body).Decode(&in) != nil:
			http.NotFound(w, r)
			return
		}
		var data []string
		for i, text := range in.Input {
			v := make([]float64, 27)
			v[26] = .1
			for _, c := range strings.ToLower(text) {
				if 'a' <= c && c <= 'z' {
					v[c-'a']++
				}
			}
			row, _ := json.Marshal(map[string]any{"index": i, "embedding": v})
			data = append(data, string(row))
		}
		_, _ = io.WriteString(w, `{"data":[`+strings.Join(data, ",")+`]}`)
	}))
	t.Cleanup(s.Close)
	b := newBench(t)
	b.embedder = nil
	// the language model's key is not the encoder's
	b.env = []string{"SLUICE_EMBED_API_KEY=emb3d", "SLUICE_REMOTE_API_KEY=k3y", "SLUICE_REMOTE_RETRIES=0"}
	name := s.URL + "/v1#small"
	o := b.run("ingest", "--encoder", name, "--no-chunk", b.file("contexts.jsonl", contexts))
	if want := "documents and questions go to another process to be embedded: " + s.URL +
		"/v1, model small"; o.code != exitOK ||
		strings.Count(o.stderr, want) != 1 {
		t.Errorf("%+v", o)
	}
	if out := b.ok("retrieve", "--encoder", name, "--k", "1", "--json",
		"The herring feeds on plankton."); !strings.Contains(out,
		`"c3"`) {
		t.Error(out)
	}
	if out := b.run("doctor", "--encoder", name).stdout; !strings.Contains(out, "small, 27 dimensions") {
		t.Error(out)
	}
	b.fails(exitFailure, "name it as the encoder to send questions and documents there", "retrieve", "herring")
	b.fails(exitUsage, "the encoder's model is not named", "retrieve", "--encoder", s.URL, "herring")
	if o := b.run("config", "show"); strings.Contains(o.stdout+o.stderr, "emb3d") {
		t.Errorf("the key is shown: %+v", o)
	}
	b.env = []string{"SLUICE_REMOTE_API_KEY=emb3d", "SLUICE_REMOTE_RETRIES=0"}
	b.fails(exitFailure, "the key is missing", "retrieve", "--encoder", name, "herring")
}
