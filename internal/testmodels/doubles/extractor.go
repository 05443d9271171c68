package doubles

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/sluice-rag/sluice/embed"
)

// Extractor is an embed.Extractor that knows the answers to questions: a passage that has one is read with a score of 4
// above the null answer, another one with its first word and a score of 4 below it.
type Extractor struct {
	Answers   map[string]string // of questions
	Threshold float64
	NoNull    bool
	Asked     atomic.Int64 // passages that were read
}

// Read implements embed.Extractor.
func (e *Extractor) Read(ctx context.Context, question string, passages []string) ([]embed.Reading, error) {
	out := make([]embed.Reading, len(passages))
	for i, p := range passages {
		e.Asked.Add(1)
		first, _, _ := strings.Cut(p, " ")
		out[i] = embed.Reading{Extract: embed.Extract{End: len(first), Score: -1}, Null: 3}
		if answer := e.Answers[question]; answer != "" && strings.Contains(p, answer) {
			at := strings.Index(p, answer)
			out[i] = embed.Reading{Extract: embed.Extract{Start: at, End: at + len(answer), Score: 3}, Null: -1}
		}
		if e.NoNull {
			out[i].Null = 0
		}
	}
	return out, ctx.Err()
}

// NullThreshold implements embed.Extractor.
func (e *Extractor) NullThreshold() (float64, bool) { return e.Threshold, !e.NoNull }

// Info identifies the reader.
func (e *Extractor) Info() embed.Info {
	info := embed.Info{}
	info.Name, info.Digest = "known", strings.Repeat("0", 64)
	return info
}
