package embed

import "context"

// Extract is a stretch of a passage as the answer to a question.
type Extract struct {
	Start, End int     // bytes of the passage
	Score      float64 // start logit + end logit, the best over the passage's windows
}

// Reading is what a reader has found in a passage.
type Reading struct {
	Extract           // the best one that is not empty; zero where nothing was found
	Others  []Extract // the next best ones of which no two overlap, better first, at most 7
	Null    float64   // Score of the null answer, the least over the windows; 0 where the model has no null answer

	Tokens    int
	Truncated bool
}

// Found returns the best stretch and the others.
func (r *Reading) Found() []Extract {
	if r.End == 0 {
		return nil
	}
	return append([]Extract{r.Extract}, r.Others...)
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
