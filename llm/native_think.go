//go:build native

package llm

import (
	"cmp"
	"errors"
	"strings"
)

// thinkAndAnswer lets the model think, closes the thinking, and has the model answer. These are two predictions, so
// that what constrains the answer (grammar, tools, stop strings) does not concern the thinking; the second one finds
// the first one's text in the KV cache.
func (r *run) thinkAndAnswer(m *Model, p prompt, req Request) (Result, error) {
	form := *p.think.form
	opened := p.think.opened(p.text)
	t := &thinking{run: r, reader: newThinkReader([]thinkForm{form}, opened)}
	aside := req
	aside.Stop, aside.LogProbs, aside.Alternatives = []string{form.close}, false, 0
	limit := req.Thinking.Limit(cmp.Or(req.MaxTokens, m.opts.ContextSize))
	bounded := req.MaxTokens == 0 || limit < req.MaxTokens
	if bounded {
		aside.MaxTokens = limit
	}
	thought, err := r.generate(prompt{text: p.text, marked: true, shown: p.shown}, aside, t.push)
	t.finish()
	thought.ThoughtTokens = thought.CompletionTokens
	switch {
	case err != nil || r.isCancelled():
		return thought, err
	case !t.reader.read || t.reader.state == inHeader || t.reader.state == inAnswer: // it does not think
		thought.CompletionTokens, thought.ThoughtTokens = 0, 0
		if form.channels {
			p.text += form.begin
		}
	case thought.Finish == FinishContext || thought.Finish == FinishLength && !bounded:
		return thought, nil
	case req.MaxTokens > 0 && thought.CompletionTokens >= req.MaxTokens:
		thought.Finish = FinishLength
		return thought, nil
	default:
		text := t.text.String()
		at := form.bodyAt(text, opened)
		p.text += text[:at] + m.literal.text(text[at:]) + p.think.closing(text, thought.Finish == FinishLength)
	}
	if req.MaxTokens > 0 {
		req.MaxTokens -= thought.CompletionTokens
	}
	answer, err := r.answer(m, p, req)
	var long *PromptTooLongError
	if errors.As(err, &long) && thought.ThoughtTokens > 0 { // the thinking has filled the context
		thought.Finish = FinishContext
		return thought, nil
	}
	return thought.then(answer), err
}

// then returns the sum of two predictions, of which the second goes on from the first.
func (r Result) then(answer Result) Result {
	answer.DecodeTime += r.DecodeTime + answer.PromptTime
	answer.PromptTokens, answer.CachedTokens, answer.PromptTime = r.PromptTokens, r.CachedTokens, r.PromptTime
	answer.QueueTime += r.QueueTime
	answer.CompletionTokens += r.CompletionTokens
	answer.ThoughtTokens = r.ThoughtTokens
	return answer
}

// thinking reads what a model writes before its answer.
type thinking struct {
	run    *run
	reader *ThinkReader
	text   strings.Builder // all of it, as the model wrote it
}

// push is a token callback, which ends the prediction when the model answers without thinking.
func (t *thinking) push(piece string) bool {
	t.text.WriteString(piece)
	aside, _ := t.reader.Push(piece)
	if aside != "" {
		t.run.hand(&t.run.thoughts, aside)
	}
	return t.reader.state != inAnswer
}

// finish hands over the rest of the thinking. A channel header that the token limit has cut is not part of it.
func (t *thinking) finish() {
	if t.reader.state == inHeader {
		return
	}
	if aside, _ := t.reader.Finish(); aside != "" {
		t.run.hand(&t.run.thoughts, aside)
	}
}

func (r *run) isCancelled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cancelled
}
