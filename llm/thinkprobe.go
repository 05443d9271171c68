package llm

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// thinkFormat is how a chat template has its model think. The zero value: not at all.
type thinkFormat struct {
	form   *thinkForm
	toggle string // the template's variable that is true or false for thinking; empty: it has none
	effort string // its variable for the reasoning effort; empty: it has none
	soft   bool   // it reads /no_think in a system message
}

const softOff = "/no_think"

// probeThinking determines how a template has its model think. render formats a conversation.
func probeThinking(template string, render func(chat) (string, error)) (f thinkFormat) {
	forms := thinkForms()
	at := slices.IndexFunc(forms, func(x thinkForm) bool {
		switch {
		case x.channels:
			return strings.Contains(template, x.open) && strings.Contains(template, channelHeader) &&
				strings.Contains(template, "analysis")
		case !strings.Contains(template, cmp.Or(x.named, x.begin)):
			return false
		}
		return strings.Contains(template, x.close) || !x.words && strings.Contains(template, x.open)
	})
	if at < 0 {
		return f
	}
	c := chat{messages: []Message{{Role: User, Content: "One?"}}}
	if _, err := render(c); err != nil {
		return f
	}
	f.form = &forms[at]
	with := func(name string, value any) string {
		c.variables = map[string]any{name: value}
		text, err := render(c)
		if err != nil {
			return ""
		}
		return text
	}
	for _, name := range []string{"enable_thinking", "thinking", "reasoning"} {
		on, off := with(name, true), with(name, false)
		if on != "" && off != "" && on != off {
			f.toggle = name
			break
		}
	}
	const effort = "reasoning_effort"
	if low, high := with(effort, "low"), with(effort, "high"); low != "" && high != "" && low != high {
		f.effort = effort
	}
	f.soft = f.toggle == "" && strings.Contains(template, softOff)
	return f
}

func (f thinkFormat) variables(e Effort) map[string]any {
	v := map[string]any{}
	on := Thinking{Effort: e}.On()
	if f.toggle != "" {
		v[f.toggle] = on
	}
	if f.effort != "" {
		if v[f.effort] = string(e); !on || e == MinimalEffort {
			v[f.effort] = string(LowEffort) // the least that gpt-oss knows
		}
	}
	return v
}

// chat returns a conversation as the template is to format it: without the thinking of earlier turns.
func (f thinkFormat) chat(c chat, e Effort) chat {
	if f.form == nil {
		return c
	}
	v := f.variables(e)
	maps.Copy(v, c.variables)
	c.variables = v
	c.messages = slices.Clone(c.messages)
	for i, m := range c.messages {
		if m.Role == Assistant {
			c.messages[i].Content = f.form.without(m.Content)
		}
	}
	if f.soft && !(Thinking{Effort: e}).On() {
		if len(c.messages) > 0 && c.messages[0].Role == System {
			c.messages[0].Content += " " + softOff
		} else {
			c.messages = slices.Insert(c.messages, 0, Message{Role: System, Content: softOff})
		}
	}
	return c
}

func (f thinkFormat) opened(prompt string) bool {
	return strings.HasSuffix(strings.TrimRight(prompt, " \n"), f.form.open)
}

// withCalls returns the format of a completion that may be calls. Where each part has a header, the model writes the
// answer's or a call's itself.
func (f thinkFormat) withCalls() thinkFormat {
	if f.form != nil && f.form.channels {
		form := *f.form
		form.begin, form.calls = "", true
		f.form = &form
	}
	return f
}

// closeOff returns a prompt after which the model answers at once.
func (f thinkFormat) closeOff(prompt string) string {
	switch end := strings.TrimRight(prompt, " \n"); {
	case f.form == nil:
		return prompt
	case f.form.channels:
		return prompt + f.form.begin
	case f.opened(prompt):
		if f.form.after != "" && !strings.HasSuffix(prompt, "\n") {
			prompt += "\n"
		}
		return prompt + f.closing("", true)
	case f.toggle != "" || strings.HasSuffix(end, f.form.close): // the template has done it
		return prompt
	case f.form.after == "":
		return prompt + f.form.open + f.form.close + f.form.begin
	}
	return prompt + f.form.open + "\n" + f.closing("", true)
}

// closing returns the end of a thinking up to the answer.
func (f thinkFormat) closing(thought string, cut bool) string {
	text := f.form.close
	if cut && f.form.after != "" && !strings.HasSuffix(thought, "\n") {
		text = "\n" + text
	}
	if f.form.channels {
		text += "<|start|>assistant"
	}
	return text + f.form.after + f.form.begin
}

// usual returns the form or, where the template does not mention thinking, the most common one: its model may think
// nevertheless.
func (f thinkFormat) usual() thinkForm {
	if f.form == nil {
		return thinkForm{open: "<think>", close: "</think>"}
	}
	return *f.form
}

// reader returns a reader for completions that are to be answers without thinking.
func (f thinkFormat) reader() *ThinkReader {
	r := newThinkReader([]thinkForm{f.usual()}, false)
	r.closed = f.form != nil
	return r
}

// written returns the marks, some of which may be control tokens that are to be shown.
func (f thinkFormat) written() string {
	form := f.usual()
	w := form.open + form.close + form.begin + form.end
	if form.channels {
		w += "<|start|>"
	}
	return w
}
