package pseudo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/filelock"
	"github.com/sluice-rag/sluice/llm"
)

// TestJournalOfTwoAtOnce: two runs with different samples would tear each other's lines, so the second is refused.
func TestJournalOfTwoAtOnce(t *testing.T) {
	c, e := base(t), newEngine(t)
	path := filepath.Join(t.TempDir(), "pseudo.jsonl")
	model := good(plenty)
	answer, second := model.answer, errors.New("not tried")
	model.answer = func(ctx context.Context, call int, r llm.Request) (llm.Result, error) {
		if call == 7 { // two contexts are in the journal
			_, _, second = Generate(ctx, good(plenty), &bag{}, e, c, Options{Journal: path, Sample: 5, RankLimit: 1})
		}
		return answer(ctx, call, r)
	}
	if _, _, err := Generate(t.Context(), model, &bag{}, e, c, Options{Journal: path, RankLimit: 1}); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(second, filelock.ErrHeld) || !strings.Contains(second.Error(), path+" is in use") {
		t.Errorf("the second run: %v", second)
	}
	again := good(plenty)
	_, report, err := Generate(t.Context(), again, &bag{}, e, c, Options{Journal: path, RankLimit: 1})
	if err != nil || again.calls != 0 || report.Resumed != report.Contexts {
		text, _ := os.ReadFile(path)
		t.Errorf("afterwards: %+v, %v; journal:\n%s", report, err, text)
	}
}
