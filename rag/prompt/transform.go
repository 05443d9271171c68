package prompt

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/sluice-rag/sluice/llm"
)

// Transform is what happens to a question before it is searched for.
type Transform string

// The transformations. All but None cost a call of the language model.
const (
	None       Transform = "none"
	Rewrite    Transform = "rewrite"     // the question, clearer
	HyDE       Transform = "hyde"        // a hypothetical passage that answers it
	StepBack   Transform = "step-back"   // the question and a more general one
	Decompose  Transform = "decompose"   // the question and the simple ones that it consists of
	MultiQuery Transform = "multi-query" // the question and others with the same meaning
)

// Transforms are all transformations, None first.
func Transforms() []Transform {
	return []Transform{None, Rewrite, HyDE, StepBack, Decompose, MultiQuery}
}

// maxQueries is how many questions Decompose and MultiQuery ask for.
const maxQueries = 3

// Transformed is what became of a question.
type Transformed struct {
	Queries  []string // to search for; never empty
	Calls    int      // of the language model
	Fallback bool     // the model's answer gave nothing to search for: Queries is the question itself
	Answer   string   // of the model, as it was
}

// Transform returns the queries to search for in place of the question, and the number of calls of gen.
// An answer that gives none leaves the question itself (see Apply).
func (l *Library) Transform(ctx context.Context, gen llm.Generator, t Transform, question string) (queries []string, calls int, err error) {
	r, err := l.Apply(ctx, gen, t, question)
	return r.Queries, r.Calls, err
}

// Apply is Transform with all that there is to know about it.
func (l *Library) Apply(ctx context.Context, gen llm.Generator, t Transform, question string) (Transformed, error) {
	r := Transformed{Queries: []string{question}}
	if t == None || t == "" {
		return r, nil
	}
	if !slices.Contains(Transforms(), t) {
		return r, fmt.Errorf("%w: transformation %q is not one of %v", ErrTemplate, t, Transforms())
	}
	limit := 64 // tokens of one question, roughly twice
	if t == HyDE || t == Decompose || t == MultiQuery {
		limit = 192
	}
	o := Options{ContextTokens: gen.ContextSize(), AnswerTokens: limit, Count: gen.CountTokens}
	f := fitter{l: l, name: string(t), o: o, v: values{Question: neutralise(question), N: maxQueries}}
	p, err := f.fit(nil)
	if err != nil {
		return r, err
	}
	answer, err := gen.Generate(ctx, llm.Request{Messages: p.Messages, MaxTokens: limit}, nil)
	r.Calls, r.Answer = 1, answer.Text
	if err != nil {
		return r, fmt.Errorf("prompt: %s: %w", t, err)
	}
	switch t {
	case HyDE:
		if passage := oneLine(answer.Text); hasWord(passage) {
			r.Queries = []string{passage}
			return r, nil
		}
		r.Fallback = true
		return r, nil
	case Rewrite, StepBack:
		if items := list(answer.Text, 1); len(items) > 0 {
			if r.Queries = items; t == StepBack {
				r.Queries = distinct(append([]string{question}, items...))
			}
			return r, nil
		}
	default:
		r.Queries = distinct(append(r.Queries, list(answer.Text, maxQueries)...))
	}
	r.Fallback = len(r.Queries) == 1 && r.Queries[0] == question
	return r, nil
}

var (
	// itemMark is what models put before an item: bullets, numbers, labels, and mixtures of them.
	itemMark = regexp.MustCompile(`^(?:[-*•–+>#]+\s+|\(?\d{1,2}[.):]\s*|\*\*|(?i:(?:rewritten|new|general|sub|step-back|follow-up|clear(?:er)?)?[ -]?(?:question|query|frage|answer)\s*\d*\s*:)\s*)+`)
	// inlineItem is where the next item of a list that stands on one line begins.
	inlineItem = regexp.MustCompile(`\s(?:\(?\d{1,2}[.)]\s)`)
)

// list returns at most n items of an answer that is a list, numbered or bulleted or by lines, each once.
// Lines that announce one ("Here are three questions:") are no items.
func list(answer string, n int) []string {
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
	items = distinct(items)
	return items[:min(n, len(items))]
}

// distinct drops items with the same words as one before, whatever case and punctuation.
func distinct(items []string) []string {
	seen := make(map[string]bool)
	var out []string
	for _, s := range items {
		key := strings.Join(strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsNumber(r)
		}), " ")
		if !seen[key] {
			seen[key] = true
			out = append(out, s)
		}
	}
	return out
}

func hasWord(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })
}
