package prompt

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/sluice-rag/sluice/llm"
)

// Transform is a rewriting of a question before the search.
type Transform string

// The transformations. All but None cost a call of the language model.
const (
	None       Transform = "none"
	Rewrite    Transform = "rewrite"     // the question, clearer
	HyDE       Transform = "hyde"        // a hypothetical passage that answers it
	StepBack   Transform = "step-back"   // the question and a more general one
	Decompose  Transform = "decompose"   // the question and the simple ones that it consists of
	MultiQuery Transform = "multi-query" // the question and others with the same meaning
	// Condense makes a question that follows others one that stands for itself; without a history it is None.
	Condense Transform = "condense"
)

// Transforms returns all transformations, None first.
func Transforms() []Transform {
	return []Transform{None, Rewrite, HyDE, StepBack, Decompose, MultiQuery, Condense}
}

// maxQueries is how many questions Decompose and MultiQuery ask for.
const maxQueries = 3

// Transformed is the result of rewriting a question.
type Transformed struct {
	Queries  []string // to search for; never empty
	Fallback bool     // the model's answer gave nothing to search for: Queries is the question itself
}

// Asked is a question that is transformed, with what may be known beside it.
type Asked struct {
	Question    string
	History     []llm.Message // the turns before it, for Condense
	Temperature float64
	Seed        int64
	Priority    int
}

// Apply has the model rewrite a question. An answer with nothing to search for leaves the question itself.
func (l *Library) Apply(ctx context.Context, gen llm.Generator, t Transform, asked Asked) (Transformed, error) {
	question := asked.Question
	r := Transformed{Queries: []string{question}}
	if t == None || t == "" || t == Condense && len(asked.History) == 0 {
		return r, nil
	}
	if !slices.Contains(Transforms(), t) {
		return r, fmt.Errorf("%w: transformation %q is not one of %v", ErrTemplate, t, Transforms())
	}
	limit := 64 // tokens of one question, roughly twice
	if t == HyDE || t == Decompose || t == MultiQuery {
		limit = 128
	}
	o := Options{ContextTokens: gen.ContextSize(), AnswerTokens: limit}
	o.Count, o.Literal = llm.ContentCounter(gen)
	f := fitter{l: l, name: string(t), o: o, v: values{Question: readable(question), N: maxQueries,
		Text: conversation(asked.History)}}
	p, err := f.fit(nil)
	if err != nil {
		return r, err
	}
	request := llm.Request{Messages: p.Messages, MaxTokens: limit, Temperature: asked.Temperature, Seed: asked.Seed,
		Priority: asked.Priority}
	if t == HyDE {
		request.RepeatPenalty = 1.1 // small models go round in circles; in a question, repeating words is the point
		if c, ok := gen.(interface{ Check(llm.Request) error }); ok && errors.Is(c.Check(request), llm.ErrOptions) {
			request.RepeatPenalty = 0 // a server may not know it, nor need it
		}
	}
	answer, err := gen.Generate(ctx, request, nil)
	if err != nil {
		return r, fmt.Errorf("prompt: %s: %w", t, err)
	}
	found := t.queries(question, answer.Text, p.Messages)
	if len(found) > 0 {
		r.Queries = found
	}
	// a question that stands for itself is repeated by Condense
	r.Fallback = len(r.Queries) == 1 && SameWords(r.Queries[0], question) && (t != Condense || len(found) == 0)
	if r.Fallback {
		r.Queries[0] = question
	}
	return r, nil
}

// queries reads what to search for out of the model's answer, nothing if it is not what was asked for.
func (t Transform) queries(question, answer string, asked []llm.Message) []string {
	if t == HyDE {
		if passage := oneLine(answer); hasWord(passage) {
			return []string{passage}
		}
		return nil
	}
	items := slices.DeleteFunc(list(answer), func(s string) bool {
		switch {
		case isEcho(s, asked):
			return true
		case t == Rewrite && !shareWord(s, question):
			return true
		}
		must := t == Decompose || t == StepBack || strings.HasSuffix(strings.TrimSpace(question), "?")
		return must && !strings.HasSuffix(s, "?")
	})
	switch t {
	case Rewrite, Condense:
		return items[:min(1, len(items))]
	case StepBack:
		items = items[:min(1, len(items))]
	}
	items = distinct(append([]string{question}, items...))
	return items[:min(1+maxQueries, len(items))]
}

// isEcho reports whether s stands in an example of the prompt.
func isEcho(s string, asked []llm.Message) bool {
	for _, m := range asked {
		if m.Role == llm.Assistant &&
			slices.ContainsFunc(list(m.Content), func(e string) bool { return words(e) == words(s) }) {
			return true
		}
	}
	return false
}

// shareWord reports whether two texts have a word of three letters or more in common.
func shareWord(a, b string) bool {
	other := " " + words(b) + " "
	for w := range strings.FieldsSeq(words(a)) {
		if len(w) >= 3 && strings.Contains(other, " "+w+" ") {
			return true
		}
	}
	return false
}

var (
	// itemMark matches what models put before an item: bullets, numbers, labels, and mixtures of them.
	itemMark = regexp.MustCompile(`^(?:[-*•–+>#]+\s+|\(?\d{1,2}[.):]\s*|\*\*|(?i:(?:rewritten|new|general|sub|step-back|follow-up|clear(?:er)?)?[ -]?(?:question|query|frage|answer)\s*\d*\s*:)\s*)+`)
	// inlineItem is where the next item of a list that stands on one line begins.
	inlineItem = regexp.MustCompile(`\s(?:\(?\d{1,2}[.)]\s)`)
)

// list returns the items of an answer that is a list, numbered or bulleted or by lines, each once.
// Lines that announce one ("Here are three questions:") are no items.
func list(answer string) []string {
	var items []string
	for line := range strings.Lines(answer) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "1") {
			line = inlineItem.ReplaceAllStringFunc(line, func(s string) string { return "\n" + s })
		}
		for item := range strings.Lines(line) {
			item = itemMark.ReplaceAllString(strings.TrimSpace(item), "")
			item = strings.Trim(oneLine(item), "\"'“”„«»*` ")
			if hasWord(item) && !strings.HasSuffix(item, ":") {
				items = append(items, item)
			}
		}
	}
	return distinct(items)
}

// distinct drops items with the same words as one before, whatever case and punctuation.
func distinct(items []string) []string {
	seen := make(map[string]bool)
	var out []string
	for _, s := range items {
		key := words(s)
		if !seen[key] {
			seen[key] = true
			out = append(out, s)
		}
	}
	return out
}

// SameWords reports whether two texts differ in nothing but case, punctuation and space.
func SameWords(a, b string) bool { return words(a) == words(b) }

// words returns a text in lower case without punctuation.
func words(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r)
	}), " ")
}

func hasWord(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })
}
