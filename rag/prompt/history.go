package prompt

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/llm"
)

const (
	historyShare   = 4   // 1/historyShare of the window beside the answer is for earlier turns
	condensedTurns = 4   // that a follow-up question is read with
	condensedRunes = 600 // of each of them
)

// remember puts the newest of the earlier turns before the last message, as many as have room.
func (f *fitter) remember(p *Prompt) error {
	if len(f.o.History) == 0 || len(p.Messages) == 0 || p.Messages[0].Role == asOneText {
		return nil
	}
	from, used := len(f.o.History), 0
	for from > 0 {
		m := f.o.History[from-1]
		if f.o.Count != nil && f.o.ContextTokens > 0 {
			n, err := f.o.Count(m.Content)
			if err != nil {
				return fmt.Errorf("prompt: count tokens: %w", err)
			}
			if used += n + turnTokens; used > f.limit()/historyShare {
				break
			}
		}
		from--
	}
	for from < len(f.o.History) && f.o.History[from].Role != llm.User { // an answer without its question says little
		from++
	}
	turns := slices.Clone(f.o.History[from:])
	for i := range turns {
		turns[i] = llm.Message{Role: turns[i].Role, Content: f.o.clean(turns[i].Content)}
	}
	p.Messages = slices.Insert(p.Messages, len(p.Messages)-1, turns...)
	return nil
}

// conversation returns the end of a history as a text.
func conversation(history []llm.Message) string {
	var b strings.Builder
	for _, m := range history[max(0, len(history)-condensedTurns):] {
		name := "User"
		if m.Role == llm.Assistant {
			name = "Assistant"
		}
		text := []rune(oneLine(readable(m.Content)))
		fmt.Fprintf(&b, "%s: %s\n", name, string(text[:min(len(text), condensedRunes)]))
	}
	return strings.TrimSpace(b.String())
}
