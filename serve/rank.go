package serve

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"path/filepath"

	"go.opentelemetry.io/otel/attribute"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/spans"
	"github.com/sluice-rag/sluice/rag/route"
	"github.com/sluice-rag/sluice/serve/openai"
)

// rerank answers POST /v1/rerank by the cross-encoder.
func (s *Server) rerank(w http.ResponseWriter, r *http.Request, q *openai.RerankRequest) error {
	documents, wrong := q.Texts(s.shapeLimits())
	if wrong != nil {
		return wrong
	}
	name, scores, err := s.pairScores(r.Context(), q.Model, *q.Query, documents)
	if err != nil {
		return err
	}
	out := openai.RerankResponse{ID: newHead("rerank", name).id, Model: name,
		Results: ranked(scores, q.TopN), Sluice: openai.RerankCounts{Truncated: scores.Truncated,
			QueryTruncated: scores.QueryTruncated, Repaired: scores.Repaired}}
	if q.ReturnDocuments != nil && *q.ReturnDocuments {
		for i, one := range out.Results {
			out.Results[i].Document = &openai.RankedDocument{Text: documents[one.Index]}
		}
	}
	out.Meta.APIVersion.Version = "2"
	out.Meta.BilledUnits.SearchUnits = 1
	out.Usage = tokensRead(scores.Tokens)
	return writeJSON(w, http.StatusOK, out)
}

// rerankV2 answers POST /v2/rerank (Cohere's API, version 2).
func (s *Server) rerankV2(w http.ResponseWriter, r *http.Request, q *openai.RerankV2Request) error {
	documents, wrong := q.Texts(s.shapeLimits())
	if wrong != nil {
		return wrong
	}
	name, scores, err := s.pairScores(r.Context(), q.Model, *q.Query, documents)
	if err != nil {
		return err
	}
	out := openai.RerankV2Response{ID: newHead("rerank", name).id, Results: ranked(scores, q.TopN)}
	out.Meta.APIVersion.Version = "2"
	out.Meta.BilledUnits.SearchUnits = 1
	for _, n := range scores.Tokens {
		out.Meta.Tokens.Input += n
	}
	for _, x := range []struct {
		what string
		n    int
	}{{"documents that were cut, since the reranker reads no more", scores.Truncated},
		{"pairs whose query was cut", scores.QueryTruncated},
		{"texts with NULs, which were replaced", scores.Repaired}} {
		if x.n > 0 {
			out.Meta.Warnings = append(out.Meta.Warnings, fmt.Sprintf("%s: %d", x.what, x.n))
		}
	}
	return writeJSON(w, http.StatusOK, out)
}

// pairScores scores documents for a query, by the named reranker.
func (s *Server) pairScores(ctx context.Context, model, query string, documents []string) (name string,
	_ *embed.Scores, err error) {
	if name, err = s.head(model, "reranker", s.models().Models().Names().Reranker); err != nil {
		return "", nil, err
	}
	ctx, end := spans.Start(ctx, "rerank", attribute.Int("sluice.texts", len(documents)))
	defer end(&err)
	scores, err := s.models().Models().Rerank(ctx, query, documents)
	return name, scores, err
}

// ranked returns the best documents, or all of them if top is nil.
func ranked(scores *embed.Scores, top *int) []openai.Ranked {
	most := 0
	if top != nil {
		most = *top
	}
	list := []openai.Ranked{}
	for _, i := range scores.Ranked(most) {
		list = append(list, openai.Ranked{Index: i, Score: float64(scores.Probability(i))})
	}
	return list
}

// head returns the name of a model that is loaded only if configured.
func (s *Server) head(asked, what, set string) (string, error) {
	asked, shown := s.called(asked)
	if set == "" {
		return "", &requestError{Status: http.StatusNotFound, Code: "model_not_found", Param: "model",
			Message: "this server has no " + what, Hint: "start it with --" + what + " NAME (sluice models list)"}
	}
	name := servedName(set, filepath.Base(set))
	if !named(asked, set, name) {
		return "", unknownModel(asked, what, name)
	}
	return cmp.Or(shown, name), s.loaded()
}

func tokensRead(each []int) *openai.Usage {
	u := &openai.Usage{}
	for _, n := range each {
		u.PromptTokens += n
	}
	u.TotalTokens = u.PromptTokens
	return u
}

// classify answers POST /v1/classify by the classifier of texts, of parts of texts, or a router.
func (s *Server) classify(w http.ResponseWriter, r *http.Request, q *openai.ClassifyRequest) error {
	texts, wrong := q.Texts(s.shapeLimits())
	if wrong != nil {
		return wrong
	}
	name, err := s.head(q.Model, "classifier", s.models().Models().Names().Classifier)
	if err != nil {
		return err
	}
	h := newHead("classify", name)
	out := openai.ClassifyResponse{ID: h.id, Object: "list", Created: h.created, Model: name}
	top := 0
	if q.TopK != nil {
		top = *q.TopK
	}
	ctx, end := spans.Start(r.Context(), "classify", attribute.Int("sluice.texts", len(texts)))
	router, parts := s.models().Router().Configured(), false
	if !router {
		parts, err = s.models().Models().LabelsParts(ctx)
	}
	switch {
	case err != nil:
	case router:
		err = s.domains(ctx, &out, texts, top)
	case parts:
		err = s.spans(ctx, &out, texts)
	default:
		err = s.classes(ctx, &out, texts, top)
	}
	if end(&err); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, out)
}

func (s *Server) classes(ctx context.Context, out *openai.ClassifyResponse, texts []string, top int) error {
	c, err := s.models().Models().Classify(ctx, texts)
	if err != nil {
		return err
	}
	out.Kind, out.Usage = "texts", tokensRead(c.Tokens)
	out.Sluice = openai.ClassifyCounts{Truncated: c.Truncated, Repaired: c.Repaired}
	for i := range texts {
		row := c.Row(i)
		one := openai.Classified{Index: i, Score: float64(row[c.Best[i]])}
		if !c.Abstains(i) {
			one.Label = c.Label(i)
		}
		for _, j := range c.Ranked(i, top, 0) {
			one.Labels = append(one.Labels, openai.Label{Label: c.Labels[j], Score: float64(row[j])})
		}
		out.Data = append(out.Data, one)
	}
	return nil
}

func (s *Server) spans(ctx context.Context, out *openai.ClassifyResponse, texts []string) error {
	found, err := s.models().Models().Spans(ctx, texts)
	if err != nil {
		return err
	}
	out.Kind, out.Usage = "spans", tokensRead(found.Tokens)
	out.Sluice = openai.ClassifyCounts{Truncated: found.Truncated, Repaired: found.Repaired}
	for i, list := range found.Texts {
		one := openai.Classified{Index: i}
		for _, p := range list {
			one.Spans = append(one.Spans, openai.Span{Label: p.Label, Start: p.Start, End: p.End,
				Text: texts[i][p.Start:p.End], Score: float64(p.Probability)})
		}
		out.Data = append(out.Data, one)
	}
	return nil
}

func (s *Server) domains(ctx context.Context, out *openai.ClassifyResponse, texts []string, top int) error {
	all, err := s.models().Router().Route(ctx, nil, texts)
	if err != nil {
		return err
	}
	out.Kind = "domains"
	for i, d := range all {
		out.Data = append(out.Data, domainOf(i, d, top))
	}
	return nil
}

// domainOf converts a router's decision. If the router abstains or may assign several labels, Label is the first
// assigned one.
func domainOf(i int, d route.Decision, top int) openai.Classified {
	one := openai.Classified{Index: i}
	if len(d.Labels) > 0 {
		one.Score = d.Labels[0].Probability
	}
	if len(d.Given) > 0 {
		one.Label = d.Given[0]
	}
	for j, l := range d.Labels {
		if top > 0 && j == top {
			break
		}
		one.Labels = append(one.Labels, openai.Label{Label: l.Label, Score: l.Probability})
	}
	return one
}
