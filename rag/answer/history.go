package answer

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

// pointers are words that a question leans on the one before with, in the languages that the default encoders read.
// Those that stand for themselves more often than not ("that", "there", "one", "en") are left out (docs/flow.md).
var pointers = regexp.MustCompile(`(?i)(?:^|[^\p{L}])(?:` +
	`it|its|he|him|his|she|her|hers|they|them|their|theirs|this|these|those` +
	`|ihn|ihm|sie|ihr|ihre|ihrer|ihnen|sein|seine|seiner|dies|diese|dieser|dieses|davon|damit|dazu|daraus` +
	`|elle|ils|elles|lui|leur|leurs|cela|ça|celui|celle|ceux|celles` +
	`|él|ella|ellos|ellas|esto|eso|esa|ese` +
	`)(?:$|[^\p{L}])`)

// fewWords: a question of fewer leans on the one before, whatever its words are ("And for maps?", "Why?").
const fewWords = 4

// Standing returns what is searched for instead of a question with turns before it, without a call of the language
// model: the question, and where it leans on the one before (a pointer, or few words) that one joined with it as well.
// The gate is open when either opens it.
func Standing(question string, history []llm.Message) []string {
	before := lastQuestion(history)
	if before == "" || !leans(question) {
		return []string{question}
	}
	return []string{question, before + " " + question}
}

func leans(question string) bool {
	return len(strings.Fields(question)) < fewWords || pointers.MatchString(question)
}

// lastQuestion returns the user's last turn, "" without one.
func lastQuestion(history []llm.Message) string {
	for _, m := range slices.Backward(history) {
		if m.Role == llm.User {
			return strings.TrimSpace(m.Content)
		}
	}
	return ""
}

// checkHistory allows turns of users and assistants.
func checkHistory(history []llm.Message) error {
	for i, m := range history {
		if m.Role != llm.User && m.Role != llm.Assistant {
			return fmt.Errorf("%w: turn %d of the history has the role %q; %s and %s have turns", knowledge.ErrOption,
				i, m.Role, llm.User, llm.Assistant)
		}
	}
	return nil
}
