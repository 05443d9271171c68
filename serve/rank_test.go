package serve

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/embed/identity"
)

// byLength scores documents by length; a document of more than 9 bytes is truncated.
type byLength struct{}

func (byLength) Score(_ context.Context, _ string, documents []string) (*embed.Scores, error) {
	s := &embed.Scores{Logits: make([]float32, len(documents)), Tokens: make([]int, len(documents))}
	for i, d := range documents {
		s.Logits[i], s.Tokens[i] = float32(len(d)-4), len(d)+3
		if len(d) > 9 {
			s.Truncated++
		}
	}
	return s, nil
}

func (byLength) Info() embed.Info { return embed.Info{Encoder: identity.Encoder{Name: "ruler"}} }

// TestRerankV2 sends what version 7.3 of Cohere's Python client sends for ClientV2.rerank, and reads every field that
// the documentation of POST /v2/rerank has for the response (https://docs.cohere.com/reference/rerank).
func TestRerankV2(t *testing.T) {
	w := newWorldWith(t, func(c *sluice.Config) { c.Scorer = byLength{} })
	for _, c := range []struct{ body, want string }{
		{`{"model":"ruler","query":"q","documents":["four","a longer one"],"top_n":1,"max_tokens_per_doc":4096,"priority":0,` +
			`"relevant_spans":null}`,
			`{"results":[{"index":1,"relevance_score":0.9996647}],"meta":{"api_version":{"version":"2"},` +
				`"billed_units":{"search_units":1},"tokens":{"input_tokens":22},"warnings":["documents that were cut, ` +
				`since the reranker reads no more: 1"]}}`},
		{`{"model":"default","query":"","documents":["four","three"]}`,
			`{"results":[{"index":1,"relevance_score":0.7310586},{"index":0,"relevance_score":0.5}],"meta":` +
				`{"api_version":{"version":"2"},"billed_units":{"search_units":1},"tokens":{"input_tokens":15}}}`},
	} {
		status, body := do(t, w, post("/v2/rerank", c.body))
		got, want := as[map[string]any](t, body), as[map[string]any](t, c.want)
		if id, _ := got["id"].(string); status != 200 || id == "" {
			t.Errorf("%d %s", status, body)
		}
		delete(got, "id")
		for _, r := range got["results"].([]any) { // to seven digits
			one := r.(map[string]any)
			one["relevance_score"] = float64(int(one["relevance_score"].(float64)*1e7+.5)) / 1e7
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
	for _, c := range []struct {
		body, code, param string
		status            int
	}{
		{`{"model":"rerank-v3.5","query":"q","documents":["a"]}`, "model_not_found", "model", 404},
		{`{"query":"q","documents":[]}`, "invalid_value", "documents", 400},
		{`{"query":"q","documents":"a"}`, "invalid_type", "documents", 400},
		{`{"query":"q","documents":[{"text":"a"}]}`, "invalid_type", "documents[0]", 400},
		{`{"query":"q"}`, "missing_required_parameter", "documents", 400},
		{`{"documents":["a"]}`, "missing_required_parameter", "query", 400},
		{`{"query":"q","documents":["a"],"top_n":0}`, "invalid_value", "top_n", 400},
		{`{"query":"q","documents":["a"],"relevant_spans":{}}`, "unsupported_parameter", "relevant_spans", 400},
		{`{"query":"q","documents":["a"],"return_documents":true}`, "", "return_documents", 400},
	} {
		status, body := do(t, w, post("/v2/rerank", c.body))
		if e := failure(t, body); status != c.status || e.Code != c.code || e.Param != c.param {
			t.Errorf("%s: %d %s", c.body, status, body)
		}
	}
	// version 1 also returns texts and counts
	status, body := do(t, w, post("/v1/rerank", `{"query":"q","documents":[{"text":"a longer one"},"b"],`+
		`"return_documents":true}`))
	var one struct {
		Model   string
		Results []struct {
			Index    int
			Document struct{ Text string }
		}
		Sluice struct{ Truncated int }
	}
	if err := json.Unmarshal([]byte(body), &one); err != nil || status != 200 || one.Model != "ruler" ||
		len(one.Results) != 2 || one.Results[0].Document.Text != "a longer one" || one.Sluice.Truncated != 1 {
		t.Errorf("%d %s, %v", status, body, err)
	}
}
