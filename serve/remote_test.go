package serve

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/embed"
	encoderremote "github.com/sluice-rag/sluice/embed/remote"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/remote"
)

// TestAnotherSluice checks that this project's clients of OpenAI's API work with the server.
func TestAnotherSluice(t *testing.T) {
	w := newWorld(t, nil)
	server := httptest.NewServer(w)
	defer server.Close()
	g, err := remote.Open(t.Context(), remote.Options{BaseURL: server.URL + "/v1", Model: "script", ContextSize: 512})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close() //nolint:errcheck // it only forgets connections
	var pieces []string
	got, err := g.Generate(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.User, Content: "Hi"}},
		MaxTokens: 9, Temperature: .5, TopP: .5, Seed: 3, Stop: []string{"x"}, FrequencyPenalty: 1},
		func(piece string) error { pieces = append(pieces, piece); return nil })
	if err != nil || got.Text != "An answer [1]." || got.CompletionTokens != 3 || got.Finish != llm.FinishStop ||
		strings.Join(pieces, "") != got.Text {
		t.Errorf("%+v, %v, %q", got, err, pieces)
	}
	if r := w.model.Requests()[0]; r.MaxTokens != 9 || r.Temperature != .5 || r.TopP != .5 || r.Seed != 3 ||
		!slices.Equal(r.Stop, []string{"x"}) || r.FrequencyPenalty != 1 {
		t.Errorf("%+v", r)
	}
	e, err := encoderremote.Open(t.Context(), encoderremote.Options{Server: remote.Options{BaseURL: server.URL + "/v1",
		Model: "words"}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close() //nolint:errcheck // as above
	texts := []string{inScope, unrelated}
	far, err := e.Embed(t.Context(), texts, embed.Query)
	if err != nil {
		t.Fatal(err)
	}
	near, err := w.encoder.Embed(t.Context(), texts, embed.Query)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(near.Data, far.Data); d != "" {
		t.Error(d)
	}
}
