package exam

import (
	"context"
	"encoding/json"
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

// refuse asks what the passages do not answer.
func (e *exam) refuse(ctx context.Context) error {
	for _, p := range e.set.Passages {
		if p.Unanswered == "" {
			continue
		}
		rows, _, err := e.found(ctx, p.Unanswered, fewPassages, -1, -1)
		if err != nil {
			return err
		}
		text, _, err := e.answer(ctx, p.Unanswered, rows, e.named())
		if err != nil {
			return err
		}
		e.result.Refused.add(refusal.MatchString(text))
	}
	return nil
}

// foreign asks in another language than the passages'.
func (e *exam) foreign(ctx context.Context) error {
	for i, p := range e.set.Passages {
		if p.Foreign == "" || e.result.Foreign.Of == foreignItems {
			continue
		}
		rows, _, err := e.found(ctx, p.Question, fewPassages, i, -1)
		if err != nil {
			return err
		}
		code := e.languages.OfQuestion(p.Foreign)
		text, _, err := e.answer(ctx, p.Foreign, rows, e.languages.Name(code))
		if err != nil {
			return err
		}
		in := e.languages.Of(text)
		if in == "" {
			in = e.languages.OfQuestion(text)
		}
		e.result.Foreign.add(code != "" && in == code)
	}
	return nil
}

const jsonTask = `Passage: %s

Question: %s

Answer with a JSON object that has the keys "answer" (a string) and "quote" (the words of the passage that answer), and with nothing else.`

// json asks for JSON in words, without a grammar that would force it.
func (e *exam) json(ctx context.Context) error {
	for _, p := range e.set.Passages[:min(jsonItems, len(e.set.Passages))] {
		task := strings.Replace(strings.Replace(jsonTask, "%s", p.Text, 1), "%s", p.Question, 1)
		text := ""
		_, err := e.ask(ctx, func(ctx context.Context) error {
			r, err := e.Model.Generate(ctx, llm.Request{Messages: []llm.Message{{Role: llm.User, Content: task}},
				MaxTokens: 2 * answerTokens, Seed: seed, Priority: llm.Batch}, nil)
			text = r.Text
			return err
		})
		if err != nil {
			return err
		}
		e.result.JSON.add(isAnswer(text))
	}
	return nil
}

// isAnswer tells whether a text is the JSON that was asked for; the marks of a block of code around it are passed over.
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
