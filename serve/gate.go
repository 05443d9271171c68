package serve

import (
	"net/http"
	"slices"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/decisions"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// queries is the part of a request with the queries.
type queries struct {
	Store   string   `json:"store"`
	Query   string   `json:"query"`
	Queries []string `json:"queries"`
	// Vectors of the queries by the store's encoder; texts are not required then.
	Vectors []vector `json:"vectors" bounds:"-3.4028234663852886e38,3.4028234663852886e38"`
}

func (q *queries) texts(limit int) ([]string, error) {
	all := q.Queries
	if q.Query != "" {
		if len(all) > 0 {
			return nil, bad("query", "either query or queries, both are given")
		}
		all = []string{q.Query}
	}
	n := max(len(all), len(q.Vectors))
	switch {
	case n == 0:
		return nil, bad("query", "a query is needed: query, queries or vectors")
	case n > limit:
		return nil, bad("queries", "%d queries, the limit is %d", n, limit)
	case len(all) > 0 && len(q.Vectors) > 0 && len(all) != len(q.Vectors):
		return nil, bad("vectors", "%d vectors for %d queries", len(q.Vectors), len(all))
	}
	if i := slices.Index(all, ""); i >= 0 {
		return nil, bad("queries", "query %d is empty", i)
	}
	return all, nil
}

// matrix concatenates the vectors of a request.
func (q *queries) matrix() (engine.Vectors, error) {
	if len(q.Vectors) == 0 {
		return engine.Vectors{}, nil
	}
	v := engine.Vectors{Rows: len(q.Vectors), Dim: len(q.Vectors[0])}
	if v.Dim == 0 {
		return v, bad("vectors", "vector 0 is empty")
	}
	v.Data = make([]float32, 0, v.Rows*v.Dim)
	for i, row := range q.Vectors {
		if len(row) != v.Dim {
			return v, bad("vectors", "vector %d has %d numbers, the first has %d", i, len(row), v.Dim)
		}
		v.Data = append(v.Data, row...)
	}
	return v, nil
}

// gateAnswer is the response of /v1/gate.
type gateAnswer struct {
	Store        string             `json:"store"`
	Decisions    []gate.Decision    `json:"decisions"`
	Milliseconds sluice.LookupTimes `json:"milliseconds"`
}

// gate decides for each query whether the base can help with it.
func (s *Server) gate(w http.ResponseWriter, r *http.Request, q *queries) error {
	b, all, times, err := s.lookup(r, q, sluice.LookupOptions{})
	if err != nil {
		return err
	}
	out := gateAnswer{Store: b.Name, Milliseconds: times}
	for _, one := range all {
		if one.Decision == nil {
			return sluice.ErrNotCalibrated
		}
		out.Decisions = append(out.Decisions, *one.Decision)
	}
	return writeJSON(w, http.StatusOK, out)
}

// lookup runs a request on its base.
func (s *Server) lookup(
	r *http.Request, q *queries, o sluice.LookupOptions,
) (b *base, all []sluice.Looked, times sluice.LookupTimes, err error) {
	if b, err = s.base(r, q.Store); err != nil {
		return nil, nil, times, err
	}
	texts, err := q.texts(s.cfg.Limits.Batch)
	if err != nil {
		return nil, nil, times, err
	}
	if o.Vectors, err = q.matrix(); err != nil {
		return nil, nil, times, err
	}
	all, times, err = b.Lookup(r.Context(), texts, o)
	return b, all, times, err
}

// decodeSearch decodes a request with search options; missing and null options have the server's defaults.
func (s *Server) decodeSearch(o *retrieve.Options, decode func() error) error {
	*o = s.cfg.Retrieve
	o.Route, o.Where = nil, nil // otherwise decoding would write into the server's own lists
	if err := decode(); err != nil {
		return err
	}
	if o.Route == nil {
		o.Route = s.cfg.Retrieve.Route
	}
	if o.Where == nil {
		o.Where = s.cfg.Retrieve.Where
	}
	return o.Check()
}

// retrieveRequest is the body of /v1/retrieve.
type retrieveRequest struct {
	queries
	retrieve.Options
	Gate string `json:"gate"` // "open", the default, searches for every query; "auto" asks the gate first
}

// maxResults bounds the contexts of all queries of a request, which take about 2 kB each with their texts.
const maxResults = 1 << 17

// retrieveAnswer is the response of /v1/retrieve, with a list for each query.
type retrieveAnswer struct {
	Store        string             `json:"store"`
	Lists        []retrievedList    `json:"lists"`
	Milliseconds sluice.LookupTimes `json:"milliseconds"`
}

type retrievedList struct {
	Decision *gate.Decision        `json:"decision,omitempty"` // with gate "auto"
	Taken    *retrieve.Taken       `json:"taken,omitempty"`    // how the list was made; nil if the gate is closed
	Results  []sluice.FoundPassage `json:"results"`
}

// retrieve finds the best contexts of each query.
func (s *Server) retrieve(w http.ResponseWriter, r *http.Request) error {
	var q retrieveRequest
	if err := s.decodeSearch(&q.Options, func() error { return decode(r, &q) }); err != nil {
		return err
	}
	o := sluice.LookupOptions{Gate: answer.GateOpen, Retrieve: &q.Options}
	switch q.Gate {
	case "", "open":
	case "auto":
		o.Gate = answer.GateAuto
	default:
		return bad("gate", `gate has to be "open" or "auto", given %q`, q.Gate)
	}
	n, each := max(len(q.Queries), len(q.queries.Vectors), 1), max(q.K, q.TopN, q.Rerank)
	if n*each > maxResults {
		return bad("k", "%d queries with %d contexts each (the largest of k, top_n and rerank) are %d, at most %d are "+
			"searched for", n, each, n*each, maxResults)
	}
	b, all, times, err := s.lookup(r, &q.queries, o)
	if err != nil {
		return err
	}
	out := retrieveAnswer{Store: b.Name, Lists: make([]retrievedList, len(all)), Milliseconds: times}
	found := make([]sluice.Found, len(all))
	for i := range all {
		found[i] = all[i].Found
	}
	titles, err := b.Documents().TitlesOf(r.Context(), found...)
	if err != nil {
		return err
	}
	for i, one := range all {
		out.Lists[i] = retrievedList{Decision: one.Decision, Results: one.Lines(titles)}
		if one.Decision == nil || one.Decision.Retrieve {
			out.Lists[i].Taken = &all[i].Taken
		}
	}
	return writeJSON(w, http.StatusOK, out)
}

// feedbackRequest is the body of /v1/feedback.
type feedbackRequest struct {
	Store string `json:"store"`
	ID    string `json:"id"`    // log_id of a decision
	Thumb string `json:"thumb"` // "up" or "down"
}

// feedbackAnswer is the response of /v1/feedback, sent when the feedback is on the disk.
type feedbackAnswer struct {
	ID    string `json:"id"`
	Thumb string `json:"thumb"`
}

// feedback writes a user's feedback on an answer into the decision log.
func (s *Server) feedback(w http.ResponseWriter, r *http.Request, q *feedbackRequest) error {
	b, err := s.base(r, q.Store)
	if err != nil {
		return err
	}
	switch {
	case q.ID == "":
		return bad("id", "the log_id of a decision is needed")
	case q.Thumb != decisions.Up && q.Thumb != decisions.Down:
		return bad("thumb", "thumb has to be %q or %q, given %.40q", decisions.Up, decisions.Down, q.Thumb)
	}
	if err := b.Decisions().Feedback(r.Context(), q.ID, q.Thumb == decisions.Up); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, feedbackAnswer{ID: q.ID, Thumb: q.Thumb})
}
