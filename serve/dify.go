package serve

import (
	"cmp"
	"net/http"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/rag/answer"
)

// difyRequest is the body of POST /retrieval, Dify's API for external knowledge bases.
type difyRequest struct {
	Knowledge string `json:"knowledge_id"` // the name of a knowledge base
	Query     string `json:"query"`
	Setting   struct {
		TopK      int     `json:"top_k" bounds:"1,1000"`
		Threshold float64 `json:"score_threshold" bounds:"-1,1000000"`
	} `json:"retrieval_setting"`
	Condition *struct {
		Operator   string `json:"logical_operator"`
		Conditions []any  `json:"conditions"`
	} `json:"metadata_condition"`
}

// difyAnswer is the response of POST /retrieval.
type difyAnswer struct {
	Records []difyRecord `json:"records"`
}

type difyRecord struct {
	Content  string       `json:"content"`
	Score    float64      `json:"score"`
	Title    string       `json:"title"`
	Metadata difyMetadata `json:"metadata"`
}

type difyMetadata struct {
	Path        string `json:"path"`
	Description string `json:"description,omitempty"`
	Document    string `json:"document"`
	Passage     string `json:"passage"`
}

// difyRetrieve answers POST /retrieval. Where the gate is closed there are no records, because Dify has no gate.
func (s *Server) difyRetrieve(w http.ResponseWriter, r *http.Request) error {
	var in difyRequest
	in.Setting.TopK = s.cfg.Retrieve.K
	if err := decode(r, &in); err != nil {
		return err
	}
	if in.Condition != nil && len(in.Condition.Conditions) > 0 {
		return refused("metadata_condition", "")
	}
	if in.Query == "" {
		return bad("query", "query is empty")
	}
	b, err := s.base(r, in.Knowledge)
	if err != nil {
		return err
	}
	o := s.cfg.Retrieve
	o.K = in.Setting.TopK
	all, _, err := b.Lookup(r.Context(), []string{in.Query}, sluice.LookupOptions{Gate: answer.GateAuto, Retrieve: &o})
	if err != nil {
		return err
	}
	titles, err := b.Documents().TitlesOf(r.Context(), all[0].Found)
	if err != nil {
		return err
	}
	out := difyAnswer{Records: []difyRecord{}}
	for _, p := range all[0].Lines(titles) {
		if ascending := all[0].Taken.Ascending; !ascending && p.Score < in.Setting.Threshold {
			continue
		}
		out.Records = append(out.Records, difyRecord{Content: p.Text, Score: p.Score,
			Title: cmp.Or(p.Title, p.Document), Metadata: difyMetadata{Path: p.Document, Description: p.Heading,
				Document: p.Document, Passage: p.ID}})
	}
	return writeJSON(w, http.StatusOK, out)
}

// difyError is the body of an error in Dify's API.
type difyError struct {
	Code    int    `json:"error_code"`
	Message string `json:"error_msg"`
}

// difyCode returns the number of an error in Dify's API, which names three.
func difyCode(e *requestError) int {
	switch e.Status {
	case http.StatusUnauthorized:
		return 1002
	case http.StatusNotFound:
		return 2001
	}
	return e.Status
}
