package calibrate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

// TestCalibrateSetsTheReadersThreshold: between the scores of questions with their context and of the same without it.
// Another reader, extracted questions or fewer than 19 give none.
func TestCalibrateSetsTheReadersThreshold(t *testing.T) {
	reader := &doubles.Extractor{Answers: map[string]string{}, Threshold: 9}
	w := &world{Base: doubles.NewBase(t, func(c *knowledge.Config) {
		c.Extractor = func(context.Context) (embed.Extractor, error) { return reader, nil }
	})}
	var lines, questions strings.Builder
	for i := range 40 {
		word := strings.Repeat(string(rune('a'+i%26)), 4+i/26)
		fmt.Fprintf(&lines, `{"id":"x%d","text":"the ship %s sails to the harbour of %s%s"}`+"\n", i, word, word, word)
		question := fmt.Sprintf("where does the ship %s sail", word)
		reader.Answers[question] = word + word
		if i == 7 || i == 8 { // the reader does not know these
			delete(reader.Answers, question)
		}
		fmt.Fprintf(&questions, `{"context_id":"x%d","text":%q}`+"\n", i, question)
	}
	in := ingest.Input{Paths: []string{w.File(t, "a.jsonl", lines.String())}, Options: ingest.Options{NoChunk: true}}
	if _, err := ingest.Run(t.Context(), w.Base.Base, in); err != nil {
		t.Fatal(err)
	}
	all := strings.SplitAfter(questions.String(), "\n")
	for name, c := range map[string]struct {
		o    calibrate.Options
		none bool
	}{
		"all":       {calibrate.Options{Queries: strings.NewReader(questions.String())}, false},
		"18":        {calibrate.Options{Queries: strings.NewReader(strings.Join(all[:18], ""))}, true},
		"extracted": {calibrate.Options{Questions: calibrate.Extracted}, true},
	} {
		c.o.Source = "questions"
		r, err := w.calibrate(t, c.o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if (r.Reader == nil) != c.none {
			t.Errorf("%s: %+v", name, r.Reader)
		}
		if x := r.Reader; x != nil && (x.Questions != 40 || x.Threshold != 4 || x.Answered != .95 ||
			x.Unanswered != 1 || x.Model != "known" || x.Digest != reader.Info().Digest) {
			t.Errorf("%s: %+v", name, x)
		}
	}
}
