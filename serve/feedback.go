package serve

import (
	"net/http"

	"github.com/sluice-rag/sluice/rag/decisions"
)

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
