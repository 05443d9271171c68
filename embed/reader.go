package embed

import "context"

// Reading is the answer to a question that a reader has found in a passage.
type Reading struct {
	Start, End int     // bytes of the passage: the best span that is not empty; 0, 0 without one
	Score      float64 // start logit + end logit of the span, the best over the passage's windows
	Null       float64 // the same of the null answer, the least over the windows; 0 where the model has no null answer
	Tokens     int
	Truncated  bool
}

// Extractor is what the rest of Sluice needs of a reader; *Reader implements it.
type Extractor interface {
	// Read returns a reading of each passage. Texts may be empty.
	Read(ctx context.Context, question string, passages []string) ([]Reading, error)
	// NullThreshold is the least Score − Null of a passage that answers, by the model's settings. ok is false for a
	// model without a null answer (SQuAD 1.1).
	NullThreshold() (threshold float64, ok bool)
	Info() Info
}
