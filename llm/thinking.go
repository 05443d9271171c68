package llm

import (
	"slices"
	"strings"
	"unicode"
)

// Effort says how long a model may think before it answers.
type Effort string

// The efforts. The zero value is NoEffort, so that a request thinks only when it asks for it.
const (
	NoEffort      Effort = "none"
	MinimalEffort Effort = "minimal"
	LowEffort     Effort = "low"
	MediumEffort  Effort = "medium"
	HighEffort    Effort = "high"
)

// Efforts returns all efforts, the shortest first.
func Efforts() []Effort {
	return []Effort{NoEffort, MinimalEffort, LowEffort, MediumEffort, HighEffort}
}

// Thinking configures what a model writes for itself before its answer to messages. Models that do not think ignore
// it, and a raw prompt has none: what its completion says is all text. Grammar, Schema, Tools, Stop and LogProbs
// apply to the answer only.
type Thinking struct {
	// Effort is passed to the chat template, as far as it has a setting for it. Unless Tokens is set, it also limits
	// the thinking: to 128 tokens (minimal), 512 (low), 2048 (medium) or 8192 (high), and to three quarters of
	// MaxTokens, so that there is an answer. "" and "none" turn thinking off: by the template's own setting, or else by
	// a thinking block in the prompt that is already closed.
	Effort Effort
	// Tokens limits the thinking. When they are used up, the thinking is closed, and the answer begins. 0: by Effort.
	// Thinking counts toward MaxTokens as well. When these are used up first, there is no answer.
	Tokens int
	// Stream, unless nil, is called with each piece of the thinking, as the stream function is with the answer's.
	Stream func(piece string) error `json:"-"`
}

// On reports whether the model may think.
func (t Thinking) On() bool { return t.Effort != "" && t.Effort != NoEffort }

// Limit returns the most tokens of thinking in a completion of at most maxTokens.
func (t Thinking) Limit(maxTokens int) int {
	if t.Tokens > 0 || !t.On() {
		return t.Tokens
	}
	limit := map[Effort]int{MinimalEffort: 128, LowEffort: 512, MediumEffort: 2048, HighEffort: 8192}[t.Effort]
	return min(limit, max(1, maxTokens*3/4))
}

func (t Thinking) check() error {
	switch {
	case t.Effort != "" && !slices.Contains(Efforts(), t.Effort):
		return optionError("the reasoning effort must be one of %q, given %q", Efforts(), t.Effort)
	case t.Tokens < 0:
		return optionError("a thinking budget of %d tokens is less than 0", t.Tokens)
	}
	return nil
}

// Thinks reports whether a generator's model is known to think when a request lets it.
func Thinks(g Generator) bool {
	t, ok := unwrapped[interface{ Thinks() bool }](g)
	return ok && t.Thinks()
}

// thinkForm holds the marks of a family of models around thinking and answer.
type thinkForm struct {
	open, close string
	begin, end  string // around the answer; may be empty
	after       string // what models write between close and the answer
	named       string // a text that only templates of this form have; empty: begin
	// channels: every part has a header that begins with open, names its channel and ends with channelHeader. The
	// channel "final" is the answer, all others are thinking.
	channels bool
	// calls: a header may name a recipient, and its part is not thinking then.
	calls bool
	// words: the marks are plain words, which are marks only where the template has close.
	words bool
}

const (
	channelHeader = "<|message|>"
	maxHeader     = 256 // bytes
)

// thinkForms returns the known forms; the first one that fits a chat template is its model's.
func thinkForms() []thinkForm {
	return []thinkForm{
		{open: "<|channel|>", close: "<|end|>", begin: "<|channel|>final<|message|>", end: "<|end|>", channels: true},
		{open: "<think>", close: "</think>", begin: "<response>", end: "</response>", after: "\n",
			named: "<response></response>"}, // Granite, which speaks of them
		{open: "<think>", close: "</think>", begin: "<answer>", end: "</answer>", after: "\n"}, // Hunyuan
		{open: "<think>", close: "</think>", after: "\n\n"},
		{open: "[THINK]", close: "[/THINK]"},
		{open: "<|START_THINKING|>", close: "<|END_THINKING|>", begin: "<|START_RESPONSE|>", end: "<|END_RESPONSE|>"},
		{open: "<|channel>thought", close: "<channel|>"}, // Gemma 4
		{open: "<seed:think>", close: "</seed:think>"},
		{open: "<mm:think>", close: "</mm:think>"},            // MiniMax M3
		{open: "<|inner_prefix|>", close: "<|inner_suffix|>"}, // Apertus
		{open: "<|START_THINKING|>", close: "<|END_THINKING|>", begin: "<|START_TEXT|>", end: "<|END_TEXT|>"},
		{open: "<|think|>", close: "<|end|><|begin|>assistant", begin: "<|content|>", end: "<|end|>"}, // Solar Open
		{open: "Here are my reasoning steps:", close: "[BEGIN FINAL RESPONSE]", end: "[END FINAL RESPONSE]",
			after: "\n", words: true}, // Apriel
	}
}

// opens returns the texts that may begin a part that is not the answer.
func (f thinkForm) opens() []string {
	if f.channels {
		return []string{f.open, "<|start|>"}
	}
	return []string{f.open}
}

// bodyAt returns where the text of a thinking begins that a model has opened.
func (f thinkForm) bodyAt(text string, opened bool) int {
	mark := f.open
	if f.channels {
		mark = channelHeader
	}
	if at := strings.Index(text, mark); at >= 0 && !opened {
		return at + len(mark)
	}
	return 0
}

// thinkState is where in a completion a ThinkReader is.
type thinkState int

const (
	beforeAnswer thinkState = iota
	inThinking
	inHeader // of a channel
	inAnswer
)

// ThinkReader splits a completion into thinking and answer while it is generated. Thinking comes before the answer,
// and ends at the first closing mark: whatever else looks like a mark is text, and so is a closing mark without an
// opening one. White space around thinking is dropped, as are the marks themselves. Nothing else is lost, and the time
// is linear in the text.
type ThinkReader struct {
	forms []thinkForm // that the completion may have; one once the first mark was read
	state thinkState
	held  string          // the beginning of a mark, perhaps
	space strings.Builder // white space that counts only if more follows
	read  bool            // a mark was read: white space before the answer does not count
	began bool            // this thinking has text
	until string          // the mark that ends the answer; empty: none
	// closed: the prompt has closed the thinking, so that a closing mark before the answer only repeats that.
	closed bool
	any    bool // an earlier thinking has text
}

// NewThinkReader returns a reader for completions of an unknown model. With opened they begin within the thinking.
func NewThinkReader(opened bool) *ThinkReader {
	return newThinkReader(slices.DeleteFunc(thinkForms(), func(f thinkForm) bool { return f.words }), opened)
}

func newThinkReader(forms []thinkForm, opened bool) *ThinkReader {
	r := &ThinkReader{forms: forms}
	if opened {
		r.state, r.read = inThinking, true
	}
	return r
}

// Push takes a piece of a completion and returns what is known to be thinking and answer by now. A nil reader returns
// everything as the answer.
func (r *ThinkReader) Push(piece string) (thought, answer string) {
	if r == nil {
		return "", piece
	}
	var t, a strings.Builder
	text := r.held + piece
	r.held = ""
	for more := true; more && text != ""; {
		switch r.state {
		case beforeAnswer:
			text, more = r.before(text, &a)
		case inHeader:
			text, more = r.header(text, &a)
		case inThinking:
			text, more = r.thinking(text, &t)
		case inAnswer:
			text, more = r.answer(text, &a)
		}
	}
	return t.String(), a.String()
}

// Finish returns what was held back at the end of a completion.
func (r *ThinkReader) Finish() (thought, answer string) {
	if r == nil {
		return "", ""
	}
	held := r.held
	r.held = ""
	if r.state == inThinking || r.state == inHeader {
		var t strings.Builder
		r.think(held, &t)
		return t.String(), ""
	}
	if r.state == beforeAnswer && r.read {
		return "", held
	}
	return "", r.space.String() + held
}

// before reads white space and marks up to the answer or the next thinking.
func (r *ThinkReader) before(text string, a *strings.Builder) (rest string, more bool) {
	trimmed := strings.TrimLeftFunc(text, unicode.IsSpace)
	r.space.WriteString(text[:len(text)-len(trimmed)])
	if trimmed == "" {
		return "", false
	}
	partly := false
	for i, f := range r.forms {
		for _, mark := range append(f.opens(), f.begin, f.close) {
			if mark == "" || mark == f.begin && !r.read && !r.closed || mark == f.close && !r.closed {
				continue
			}
			rest, ok := strings.CutPrefix(trimmed, mark)
			if !ok {
				partly = partly || strings.HasPrefix(mark, trimmed)
				continue
			}
			r.space.Reset()
			if mark == f.close {
				r.read = true
				return rest, true
			}
			if mark == f.begin && !f.channels {
				r.forms, r.state, r.until = r.forms[i:i+1], inAnswer, f.end
				return rest, true
			}
			if !r.read {
				r.forms = slices.DeleteFunc(slices.Clone(r.forms), func(g thinkForm) bool { return g.open != f.open })
			}
			r.read, r.began, r.state = true, false, inThinking
			if f.channels {
				r.state, rest = inHeader, mark+rest
			}
			return rest, true
		}
	}
	if partly {
		r.held = trimmed
		return "", false
	}
	if !r.read {
		a.WriteString(r.space.String())
	}
	r.space.Reset()
	r.state = inAnswer
	return trimmed, true
}

// header reads the header of a channel. One that does not end is text.
func (r *ThinkReader) header(text string, a *strings.Builder) (rest string, more bool) {
	name, rest, ok := strings.Cut(text, channelHeader)
	switch {
	case ok && len(name) <= maxHeader:
		_, channel, _ := strings.Cut(name, r.forms[0].open)
		r.state = inThinking
		called := r.forms[0].calls && strings.Contains(name, "to=")
		if channel = strings.TrimSpace(channel); channel == "" || strings.HasPrefix(channel, "final") || called {
			r.state, r.until = inAnswer, r.forms[0].end
		}
		return rest, true
	case ok || len(text) > maxHeader+len(channelHeader):
		r.state = inAnswer
		a.WriteString(text)
		return "", false
	}
	r.held = text
	return "", false
}

// thinking reads up to the closing mark.
func (r *ThinkReader) thinking(text string, t *strings.Builder) (rest string, more bool) {
	var marks []string // one, unless the completion began within thinking of an unknown form
	for _, f := range r.forms {
		marks = append(marks, f.close)
	}
	at, end := cutAt(text, marks)
	if at < 0 {
		r.held = text[end:]
		r.think(text[:end], t)
		return "", false
	}
	r.think(text[:at], t)
	r.space.Reset()
	r.state, r.closed = beforeAnswer, true
	return text[end:], true
}

// think adds a text to the thinking, without white space at its ends.
func (r *ThinkReader) think(text string, t *strings.Builder) {
	if !r.began {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
	}
	core := strings.TrimRightFunc(text, unicode.IsSpace)
	if core != "" {
		if !r.began && r.any {
			t.WriteString("\n")
		}
		t.WriteString(r.space.String())
		t.WriteString(core)
		r.space.Reset()
		r.began, r.any = true, true
	}
	r.space.WriteString(text[len(core):])
}

// answer reads the answer up to its mark, if its form has one.
func (r *ThinkReader) answer(text string, a *strings.Builder) (rest string, more bool) {
	if r.until == "" {
		a.WriteString(text)
		return "", false
	}
	at, end := cutAt(text, []string{r.until})
	if at < 0 {
		a.WriteString(text[:end])
		r.held = text[end:]
		return "", false
	}
	a.WriteString(text[:at])
	if r.forms[0].channels {
		r.state = beforeAnswer
	}
	return text[end:], true
}

// cutAt returns the offsets of the first of some marks. Without one it returns -1 and where a mark may begin at the end
// of the text.
func cutAt(text string, marks []string) (at, end int) {
	at = -1
	for _, mark := range marks {
		if i := strings.Index(text, mark); i >= 0 && (at < 0 || i < at) {
			at, end = i, i+len(mark)
		}
	}
	if at >= 0 {
		return at, end
	}
	end = len(text)
	for _, mark := range marks {
		for n := min(len(mark)-1, len(text)); n > 0; n-- {
			if strings.HasSuffix(text, mark[:n]) {
				end = min(end, len(text)-n)
				break
			}
		}
	}
	return -1, end
}

// without returns an assistant's earlier turn without the thinking at its beginning.
func (f thinkForm) without(text string) string {
	r := newThinkReader([]thinkForm{f}, false)
	_, answer := r.Push(text)
	_, rest := r.Finish()
	if r.state == inThinking { // never closed: not a thinking of ours
		return text
	}
	return answer + rest
}
