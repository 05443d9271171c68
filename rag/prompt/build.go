package prompt

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/corpus/sentence"
)

// Upper bounds, in tokens, of what a chat format adds to the messages: the delimiters of a turn, and the default system
// message that some formats insert if the conversation has no system message.
const (
	turnTokens   = 8
	systemTokens = 32
)

// leastShare bounds truncation: a passage that does not fit is shown only if at least 1/leastShare of it is left.
const leastShare = 4

// Style is the style of an answer from the model's own knowledge.
type Style string

// The styles.
const (
	FewShot        Style = "few-shot"
	ChainOfThought Style = "chain-of-thought"
)

// Options of a prompt.
type Options struct {
	ContextTokens int                       // the model's window; 0 = no limit
	AnswerTokens  int                       // kept free for the answer
	Count         func(string) (int, error) // tokens of a text, as the model counts
	// of the answer: a name or a code ("German", "de"); "" leaves it to the model
	Language string
	Template string // of a prompt with passages, as ContextTemplates lists them; "" is DefaultTemplate
	Order    Order  // of the passages; "" is Forward
	// History are the turns before the question. The newest are shown, as many as fit a quarter of what the window has
	// beside the answer.
	History []llm.Message
	// Literal: the model takes contents literally (llm.ContentCounter). Otherwise, and in a prompt without a chat
	// format, a space is put into what looks like a control token.
	Literal bool
}

// clean returns a text as a message shows it.
func (o Options) clean(s string) string {
	if o.Literal {
		return readable(s)
	}
	return neutralise(s)
}

// Context asks for an answer from passages, which come best first and are numbered so from 1. Passages are taken while
// they fit; the next one is shortened at a sentence if a quarter of it is left then (the first passage
// at all events, at a word if need be) and counted in Truncated; the rest is counted in Dropped.
// ErrBudget: not even the question fits, or nothing of the first passage.
func (l *Library) Context(question string, passages []Passage, o Options) (Prompt, error) {
	v := values{Question: readable(question), Language: languageName(o.Language)}
	all := make([]shown, len(passages))
	for i, p := range passages {
		all[i] = shown{i + 1, oneLine(readable(p.Chunk.Heading)),
			strings.TrimSpace(readable(cmp.Or(p.Text, p.Chunk.Text)))}
	}
	name, err := l.contextTemplate(o.Template)
	if err == nil {
		err = o.Order.check()
	}
	if err != nil {
		return Prompt{}, err
	}
	f := fitter{l: l, name: name, o: o, v: v}
	p, err := f.fit(all)
	if err != nil {
		return Prompt{}, err
	}
	p.Dropped = len(passages) - len(p.Citations)
	p.Citations = Citations(passages[:len(p.Citations)])
	return p, nil
}

// Own asks for an answer from the model's own knowledge.
func (l *Library) Own(question string, style Style, o Options) (Prompt, error) {
	if style != FewShot && style != ChainOfThought {
		return Prompt{}, fmt.Errorf("%w: style %q is not %s or %s", ErrTemplate, style, FewShot, ChainOfThought)
	}
	f := fitter{l: l, name: "own/" + string(style), o: o,
		v: values{Question: readable(question), Language: languageName(o.Language)}}
	p, err := f.fit(nil)
	p.Citations = nil
	return p, err
}

// Questions asks for n questions that a text answers. A text that does not fit is shortened (Truncated = 1).
func (l *Library) Questions(text, heading string, n int, o Options) (Prompt, error) {
	f := fitter{l: l, name: "questions", o: o,
		v: values{Heading: oneLine(readable(heading)), Language: languageName(o.Language), N: n}, asText: true}
	p, err := f.fit([]shown{{Text: strings.TrimSpace(readable(text))}})
	p.Citations = nil
	return p, err
}

// fitter fills a template within the budget.
type fitter struct {
	l      *Library
	name   string
	o      Options
	v      values
	asText bool  // the one passage is .Text
	drawn  []int // where the passages stand, instead of o.Order; nil: as that says
}

func (f *fitter) limit() int { return f.o.ContextTokens - f.o.AnswerTokens }

// render fills the template with passages and counts; fits is true without a limit.
func (f *fitter) render(passages []shown) (p Prompt, fits bool, err error) {
	v := f.v
	v.Passages = f.order(passages)
	if f.asText {
		v.Passages, v.Text = nil, ""
		if len(passages) > 0 {
			v.Text = passages[0].Text
		}
	}
	p = Prompt{Template: f.name, Citations: make([]Citation, len(passages))}
	if p.Messages, err = f.l.run(f.name, v, f.o.clean); err != nil {
		return p, false, err
	}
	if err := f.remember(&p); err != nil {
		return p, false, err
	}
	if len(p.Messages) == 1 && p.Messages[0].Role == asOneText {
		p.Text, p.Messages = p.Messages[0].Content+"\n", nil
		p.Stop = slices.Compact(slices.Sorted(slices.Values(mark.FindAllString(p.Text, -1))))
	}
	if f.o.Count == nil {
		if f.o.ContextTokens > 0 {
			return p, false, fmt.Errorf("%w: a window of %d tokens, but no token counter", ErrBudget, f.o.ContextTokens)
		}
		return p, true, nil
	}
	p.Tokens = systemTokens
	for _, m := range p.Messages {
		n, err := f.o.Count(m.Content)
		if err != nil {
			return p, false, fmt.Errorf("prompt: count tokens: %w", err)
		}
		p.Tokens += n + turnTokens
		if m.Role == llm.System {
			p.Tokens -= systemTokens
		}
	}
	if p.Text != "" {
		if p.Tokens, err = f.o.Count(p.Text); err != nil {
			return p, false, fmt.Errorf("prompt: count tokens: %w", err)
		}
	}
	return p, f.o.ContextTokens <= 0 || p.Tokens <= f.limit(), nil
}

// order puts passages, which come best first, where they stand.
func (f *fitter) order(passages []shown) []shown {
	if f.drawn == nil {
		return f.o.Order.of(passages)
	}
	out := make([]shown, 0, len(passages))
	for _, at := range f.drawn {
		if at < len(passages) {
			out = append(out, passages[at])
		}
	}
	return out
}

// fit shows as many of the passages as fit, in order, the last one shortened.
func (f *fitter) fit(passages []shown) (Prompt, error) {
	p, fits, err := f.render(passages)
	if err != nil || fits {
		return p, err
	}
	p, fits, err = f.render(nil)
	if err != nil {
		return p, err
	}
	if !fits {
		return p, f.tooLong("it", p.Tokens)
	}
	// The largest number of whole passages that fit; all of them are known not to.
	n := sort.Search(len(passages), func(k int) bool {
		_, fits, e := f.render(passages[:k+1])
		if e != nil {
			err = e
		}
		return !fits
	})
	if err != nil {
		return p, err
	}
	if p, _, err = f.render(passages[:n]); err != nil || n == len(passages) {
		return p, err
	}
	share := leastShare
	if n == 0 { // better little than nothing
		share = 0
	}
	short, ok, err := f.shorten(passages, n, sentence.Ends(passages[n].Text), share)
	if err == nil && !ok && n == 0 {
		short, ok, err = f.shorten(passages, n, wordEnds(passages[n].Text), 0)
	}
	switch {
	case err != nil:
		return p, err
	case ok:
		return short, nil
	case n == 0:
		return p, f.tooLong("it, with the beginning of the first passage,", p.Tokens)
	}
	return p, nil
}

func (f *fitter) tooLong(what string, given int) error {
	return fmt.Errorf("%w: %s takes %d tokens or more; %d are left of a window of %d with %d for the answer", ErrBudget,
		what, given, max(f.limit(), 0), f.o.ContextTokens, f.o.AnswerTokens)
}

// shorten renders passages up to n, of the last one the longest beginning that fits and ends at one of
// ends; ok is false when less than 1/share of it is left.
func (f *fitter) shorten(passages []shown, n int, ends []int, share int) (p Prompt, ok bool, err error) {
	last := passages[n]
	try := func(end int) (Prompt, bool, error) {
		cut := last
		if cut.Text = strings.TrimSpace(last.Text[:end]); end < len(last.Text) {
			cut.Text += " …"
		}
		return f.render(append(passages[:n:n], cut))
	}
	k := sort.Search(len(ends), func(i int) bool {
		_, fits, e := try(ends[i])
		if e != nil {
			err = e
		}
		return !fits
	})
	if err != nil || k == 0 || share > 0 && ends[k-1]*share < len(last.Text) {
		return p, false, err
	}
	p, ok, err = try(ends[k-1])
	p.Truncated = 1
	return p, ok, err
}

// wordEnds returns the offsets behind each word of s.
func wordEnds(s string) []int {
	var ends []int
	at := 0
	for w := range strings.FieldsSeq(s) {
		at += strings.Index(s[at:], w) + len(w)
		ends = append(ends, at)
	}
	return ends
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// languageName spells out the code of a language; a name is taken as it is.
func languageName(s string) string {
	switch strings.ToLower(s) {
	case "en":
		return "English"
	case "de":
		return "German"
	case "fr":
		return "French"
	case "es":
		return "Spanish"
	case "it":
		return "Italian"
	case "pt":
		return "Portuguese"
	case "nl":
		return "Dutch"
	}
	return oneLine(readable(s))
}
