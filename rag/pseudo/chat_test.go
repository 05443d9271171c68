package pseudo

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/prompt"
)

// TestChat: one call per context, three questions out of its lines.
func TestChat(t *testing.T) {
	library, err := prompt.Open("")
	if err != nil {
		t.Fatal(err)
	}
	model := &scripted{window: plenty, answer: func(_ context.Context, _ int, r llm.Request) (llm.Result, error) {
		var text strings.Builder
		for _, m := range r.Messages {
			text.WriteString(m.Content)
		}
		s := subject(llm.Request{Prompt: text.String()})
		return llm.Result{Text: fmt.Sprintf("1. How old is a %s today?\n2. When may one see that %s?\n3. Why paint "+
			"any %s green?", s, s, s), Finish: llm.FinishStop}, nil
	}}
	got, report, err := Generate(t.Context(), model, &bag{}, newEngine(t), base(t),
		Options{RankLimit: 1, Prompter: Chat{Library: library}})
	if err != nil || len(got) != 36 || report.Calls != 12 {
		t.Errorf("%d questions, %+v, %v", len(got), report, err)
	}
}
