package main

import (
	"fmt"
	"io"
	"sync"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice/internal/terminal"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/answer"
)

func thinkingFlag(cmd *cobra.Command, show *bool) {
	cmd.Flags().BoolVar(show, "show-thinking", false,
		"print what the model thinks before its answer, on standard error (with --json it is always in the output)")
}

// faintWriter writes text as what matters less.
type faintWriter struct {
	w io.Writer
	s terminal.Screen
}

func (f faintWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(f.w, f.s.FaintLines(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// showThinking has an answer's thinking printed; before is called first. end ends its last line, and is to be called
// before the answer and at the end.
func (a *app) showThinking(o *answer.Options, before func()) (end func() error) {
	screen := terminal.Of(a.stderr, a.env)
	var out *terminal.Writer
	o.Think = func(piece string) error {
		if out == nil {
			before()
			out = terminal.NewWriter(faintWriter{a.stderr, screen}, screen)
		}
		_, err := io.WriteString(out, piece)
		return err
	}
	var once sync.Once
	return func() (err error) {
		if out == nil {
			return nil
		}
		once.Do(func() {
			err = out.Flush()
			fmt.Fprint(a.stderr, "\n\n")
		})
		return err
	}
}

// cutOff returns why an answer is truncated, and what helps.
func cutOff(t answer.Trace, empty bool, maxTokens int) string {
	switch {
	case empty && t.ThoughtTokens > 0:
		return fmt.Sprintf("no answer: the model was still thinking after %d tokens; a lower --reasoning-effort or "+
			"--thinking-budget has it answer sooner", t.ThoughtTokens)
	case t.Finish == llm.FinishContext:
		return "cut off: the model's window is full; fewer passages (--k) leave more room"
	}
	return fmt.Sprintf("cut off at %d tokens; --max-tokens allows more", maxTokens)
}
