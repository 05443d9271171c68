package main

import (
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/answer"
)

func TestCutOff(t *testing.T) {
	for _, c := range []struct {
		trace answer.Trace
		empty bool
		want  string
	}{
		{answer.Trace{Finish: llm.FinishLength, ThoughtTokens: 70}, true, "still thinking after 70 tokens"},
		{answer.Trace{Finish: llm.FinishContext, ThoughtTokens: 70}, true, "--reasoning-effort"},
		{answer.Trace{Finish: llm.FinishLength, ThoughtTokens: 70}, false, "cut off at 9 tokens"},
		{answer.Trace{Finish: llm.FinishContext}, true, "window is full"},
	} {
		if got := cutOff(c.trace, c.empty, 9); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q", c.trace, got)
		}
	}
}
