package exam

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/sluice-rag/sluice/llm"
)

// refusal finds an answer that says that it has none, as prompts ask for, and in the usual other words.
var refusal = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
	`(do|does|did|is|are|was|were|can|could)(n't| not) (\w+ )?(contain|mention|provide|say|state|include|specif|inform|` +
		`answer|given|known|give|tell|found|determine|available|disclose)`,
	`(cannot|can't|unable to) (be )?(answer|determine|find|say|tell)`, `no (answer|information|mention|data|details)`,
	`I don't know`, `I do not know`, `unknown`,
	`(enthalten|enthält|nennen|nennt|geben|gibt|erwähnen|erwähnt|sagen|sagt|beantworten|beantwortet)\b.{0,60}\b(nicht|kein\w*)`,
	`nicht (\w+ )?(enthalten|erwähnt|angegeben|genannt|bekannt|beantwortet|hervor|ersichtlich|beantworten)`,
	`keine? (antwort|angaben?|information\w*|hinweise?)`, `weiß (ich )?(es )?nicht`, `unbekannt`}, "|") + `)`)

// limit returns how many of n items are asked in a part that decides nothing: a few where quotes will be printed
// instead of the model's answers.
func (e *exam) limit(n int) int {
	if e.result.Write.Value() < e.result.Quote.Value() {
		return min(n, block)
	}
	return n
}

// refuse asks what the passages do not answer.
func (e *exam) refuse(ctx context.Context) error {
	var questions []string
	for _, p := range e.set.Passages {
		if p.Unanswered != "" {
			questions = append(questions, p.Unanswered)
		}
	}
	questions = questions[:e.limit(len(questions))]
	said := make([]string, len(questions))
	err := e.blocks(ctx, len(questions), func(ctx context.Context, i int) error {
		rows, _, err := e.found(ctx, questions[i], fewPassages, -1, -1)
		if err != nil {
			return err
		}
		said[i], _, err = e.answer(ctx, questions[i], rows, e.named())
		return err
	}, nil)
	for _, text := range said {
		e.result.Refused.add(refusal.MatchString(text))
	}
	return err
}

// foreign asks in another language than the passages'.
func (e *exam) foreign(ctx context.Context) error {
	var items []int
	for i, p := range e.set.Passages {
		if p.Foreign != "" && len(items) < e.limit(foreignItems) {
			items = append(items, i)
		}
	}
	followed := make([]bool, len(items))
	err := e.blocks(ctx, len(items), func(ctx context.Context, i int) error {
		p := e.set.Passages[items[i]]
		rows, _, err := e.found(ctx, p.Question, fewPassages, items[i], -1)
		if err != nil {
			return err
		}
		code := e.languages.OfQuestion(p.Foreign)
		text, _, err := e.answer(ctx, p.Foreign, rows, e.languages.Name(code))
		in := e.languages.Of(text)
		if in == "" {
			in = e.languages.OfQuestion(text)
		}
		followed[i] = code != "" && in == code
		return err
	}, nil)
	for _, is := range followed {
		e.result.Foreign.add(is)
	}
	return err
}

const jsonTask = `Passage: %s

Question: %s

Answer with a JSON object that has the keys "answer" (a string) and "quote" (the words of the passage that answer), and with nothing else.`

// json asks for JSON in words, without a grammar that would force it.
func (e *exam) json(ctx context.Context) error {
	said := make([]string, e.limit(min(jsonItems, len(e.set.Passages))))
	err := e.blocks(ctx, len(said), func(ctx context.Context, i int) error {
		p := e.set.Passages[i]
		task := fmt.Sprintf(jsonTask, p.Text, p.Question)
		r, err := e.model().Generate(ctx, llm.Request{Messages: []llm.Message{{Role: llm.User, Content: task}},
			MaxTokens: 2 * answerTokens, Seed: seed}, nil)
		said[i] = r.Text
		return err
	}, nil)
	for _, text := range said {
		e.result.JSON.add(isAnswer(text))
	}
	return err
}

// isAnswer reports whether a text is the JSON that was asked for; the marks of a block of code around it are passed
// over.
func isAnswer(text string) bool {
	text = strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(text, "```"); ok {
		text = strings.TrimSuffix(strings.TrimPrefix(inner, "json"), "```")
	}
	fields := map[string]any{}
	if json.Unmarshal([]byte(text), &fields) != nil || len(fields) != 2 {
		return false
	}
	_, answered := fields["answer"].(string)
	_, quoted := fields["quote"].(string)
	return answered && quoted
}
