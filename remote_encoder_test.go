package sluice_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/llm/remote"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/store"
)

// newEmbeddings starts a server whose vectors count the letters of a text.
func newEmbeddings(t *testing.T) (url string, texts func() int) {
	var mu sync.Mutex
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Input []string }
		if r.URL.Path != "/v1/embeddings" || r.Header.Get("Authorization") != "Bearer k3y" ||
			json.NewDecoder(r.Body).Decode(&in) != nil {
			http.Error(w, "no such page", http.StatusNotFound)
			return
		}
		mu.Lock()
		n += len(in.Input)
		mu.Unlock()
		var data []map[string]any
		for i, text := range in.Input {
			v := make([]float64, 27)
			v[26] = .1
			for _, c := range strings.ToLower(text) {
				if 'a' <= c && c <= 'z' {
					v[c-'a']++
				}
			}
			data = append(data, map[string]any{"index": i, "embedding": v})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
	}))
	t.Cleanup(s.Close)
	return s.URL, func() int { mu.Lock(); defer mu.Unlock(); return n }
}

func TestARemoteEncoder(t *testing.T) {
	url, texts := newEmbeddings(t)
	named := func(model string) func(c *sluice.Config) {
		return func(c *sluice.Config) {
			c.Embedder, c.RemoteEncoder = nil, remote.Options{APIKey: "k3y"}
			if model != "" {
				c.Encoder = url + "#" + model
			}
		}
	}
	w := newWorld(t, named("small"))
	if texts() != 0 {
		t.Error("text was sent before it was needed")
	}
	w.ingest(t, "a.jsonl", doubles.Contexts)
	info, err := w.Models().Encoder(t.Context())
	if err != nil || info.Name != url+"/v1#small" || info.Dim != 27 {
		t.Errorf("%+v, %v", info, err)
	}
	if n := strings.Count(w.log.String(), "go to another process to be embedded: "+url+"/v1, model small"); n != 1 ||
		strings.Contains(w.log.String(), "k3y") {
		t.Errorf("said %d times: %s", n, w.log)
	}
	hits, err := w.Retrieve(t.Context(), []string{"What does the herring feed on?"},
		overlay.On(retrieve.DefaultOptions(), retrieve.Options{K: 1}))
	if err != nil || len(hits) != 1 || len(hits[0].Results) != 1 || hits[0].Results[0].Score <= 0 {
		t.Errorf("%+v, %v", hits, err)
	}

	sent := texts()
	for name, c := range map[string]struct {
		model string
		want  error
	}{"a store alone": {"", sluice.ErrRemoteEncoder}, "another model": {"large", store.ErrEncoder}} {
		other := newWorld(t, func(cfg *sluice.Config) { named(c.model)(cfg); cfg.Store = w.dir + "/store" })
		if _, err := other.Retrieve(t.Context(), []string{"Anything?"},
			retrieve.DefaultOptions()); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := texts() - sent; n != 1 {
		t.Errorf("%d texts were sent, one of them to learn the other model's dimensions", n)
	}
}
