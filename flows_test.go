package sluice_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/web"
)

// TestFlowSearchesTheWeb checks that a question outside the store is searched for on the web, that the page is kept
// beside the store and cited, and that the store itself does not change.
func TestFlowSearchesTheWeb(t *testing.T) {
	const page = "The match on Sunday evening was won by the team from Oslo."
	var asked []string
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/page" {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, "<html><title>Sport</title><body><p>%s</p></body></html>", page)
			return
		}
		asked = append(asked, r.FormValue("q"))
		_ = json.NewEncoder(w).Encode(map[string]any{"results": []map[string]any{
			{"url": server.URL + "/page", "title": "Sport", "content": page}}})
	}))
	defer server.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "library.jsonl")
	if err := os.WriteFile(file, []byte(doubles.Contexts), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := sluice.Open(t.Context(), sluice.Config{Store: filepath.Join(dir, "store"), Embedder: doubles.NewEncoder(),
		Generator: doubles.NewModel("Oslo [1].", `{"grounded":"yes"}`, `{"resolves":"yes"}`),
		Web:       web.Options{Provider: web.SearXNG, URL: server.URL, AllowPrivate: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Ingest(t.Context(), []string{file}, ingest.Options{NoChunk: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Calibrate(t.Context(), calibrate.Options{Queries: strings.NewReader(doubles.Questions),
		Source: "questions"}); err != nil {
		t.Fatal(err)
	}
	const question = "Who won the match on Sunday evening?"
	a, err := s.Ask(t.Context(), question, overlay.On(answer.DefaultOptions(), answer.Options{Flow: "graph"}))
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for _, step := range a.Trace.Steps {
		nodes = append(nodes, step.Node)
	}
	if got := strings.Join(nodes, " "); got != "router web documents generate hallucination answer" ||
		len(asked) != 1 || asked[0] != question {
		t.Errorf("%s, asked %q", got, asked)
	}
	if !a.Retrieved || len(a.Citations) != 1 || a.Citations[0].Source != server.URL+"/page" ||
		a.Citations[0].Web == nil ||
		!a.Citations[0].Cited {
		t.Errorf("%+v", a.Citations)
	}
	documents, err := s.Documents().List(t.Context())
	pages, err2 := s.Web().List(t.Context())
	if err != nil || err2 != nil || len(documents) != 4 || len(pages) != 1 {
		t.Errorf("%d documents, %d pages, %v, %v", len(documents), len(pages), err, err2)
	}
}

// TestNodesHaveModelsOfTheirOwn checks that a node's model is opened once, at its first request, and closed by Close.
func TestNodesHaveModelsOfTheirOwn(t *testing.T) {
	s, _, done := exampleStore()
	defer done()
	o := overlay.On(answer.DefaultOptions(), answer.Options{Flow: "graph-llm"})
	o.Models = map[string]string{"documents": "no such model"}
	_, err := s.Ask(context.Background(), "Why do lighthouses warn ships?", o)
	if err == nil || !strings.Contains(err.Error(), "no such model") {
		t.Errorf("%v", err)
	}
	o.Models = map[string]string{"nobody": "x"}
	if _, err := s.Ask(t.Context(), "x", o); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("%v", err)
	}
}
