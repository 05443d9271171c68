//go:build native

package e2e

import (
	"context"
	"os"
	"path/filepath"

	"github.com/sluice-rag/sluice/internal/scorecards"
	"github.com/sluice-rag/sluice/rag/exam"
	"github.com/sluice-rag/sluice/rag/prompt"
)

// trust puts a scorecard into a cache by which a model is trusted with everything, so that scripts say what it answers.
func trust(cache, model string) error {
	digest, err := scorecards.Digest(context.Background(), model)
	if err != nil {
		return err
	}
	version, err := exam.Version()
	if err != nil {
		return err
	}
	all := exam.Share{N: 50, Of: 50}
	r := exam.Result{Write: all, Quote: all, Verdicts: map[prompt.Grader]exam.Verdict{},
		Questions: exam.Questions{Extracted: 1, Kept: all}}
	for _, g := range prompt.Graders() {
		v := exam.Verdict{Yes: all, No: all}
		v.Judge()
		r.Verdicts[g] = v
	}
	card := exam.Card{Model: "script", Digest: digest, Exam: version, Sets: map[string]exam.Result{"en": r}}
	text, err := card.Text()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(cache, "scorecards"), 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(cache, "scorecards", digest+".json"), text, 0o600)
}
