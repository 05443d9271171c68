// Package pseudo writes the pseudo-queries of the Context Awareness Gate: questions that a context
// answers, asked of the local language model or read from a file. Echoes, non-questions, duplicates
// and questions whose own context does not rank near the top for them are rejected and counted.
package pseudo

import "errors"

// Query is one pseudo-query; the JSON names are those of `calibrate --queries FILE.jsonl`.
type Query struct {
	ID        string `json:"id,omitempty"`
	ContextID string `json:"context_id"`
	Text      string `json:"text"`
}

// Reason says why a generated question was dropped.
type Reason string

// The reasons, as they appear in reports and in the calibration artifact.
const (
	NotAQuestion Reason = "not_a_question"
	Echo         Reason = "echo"      // repeats the context, the prompt or an example
	Duplicate    Reason = "duplicate" // the same question, normalised, was kept before
	LowRank      Reason = "low_rank"  // its own context is not in the top RankLimit for it
	TooShort     Reason = "too_short"
	TooLong      Reason = "too_long"
)

// Report counts what happened; every generated question is either kept or in Rejected.
type Report struct {
	Contexts  int            `json:"contexts"`
	Generated int            `json:"generated"`
	Kept      int            `json:"kept"`
	Rejected  map[Reason]int `json:"rejected"`
	Calls     int            `json:"llm_calls"`
	Resumed   int            `json:"resumed_contexts"` // taken from an earlier, interrupted run
}

// ErrQueries is a malformed or unusable pseudo-query file.
var ErrQueries = errors.New("pseudo: unusable pseudo-queries")
