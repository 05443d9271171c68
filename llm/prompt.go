//go:build native

package llm

import (
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/sluice-rag/sluice/llm/grammar"
)

// prompt is a request's text with what its completion must follow.
type prompt struct {
	text    string
	marked  bool // literal texts are marked in it
	grammar string
	calls   *callReader // nil: the completion has no calls
	think   thinkFormat
	thinks  bool   // the model may think before the completion
	shown   string // marks of thinking, whose control tokens are text of the completion
}

// toolProbe is what callFormat has found out about a model.
type toolProbe struct {
	once   sync.Once
	format grammar.Format
	err    error
}

// thinkProbe is what thinking has found out about a model.
type thinkProbe struct {
	once   sync.Once
	format thinkFormat
}

func (m *Model) callFormat() (grammar.Format, error) {
	p := &m.tools
	p.once.Do(func() {
		var ends []string
		for _, s := range m.tok.specials() {
			if s.end {
				ends = append(ends, s.text)
			}
		}
		p.format, p.err = callFormat(func(c chat) (string, error) { return m.render(c, nil) }, ends)
		if p.err != nil {
			p.err = fmt.Errorf("llm: %s: %w", m.info.Path, p.err)
		}
	})
	return p.format, p.err
}

// HasTools returns nil when requests may have tools, else an ErrTools with the reason.
func (m *Model) HasTools() error {
	if !m.enter() {
		return ErrClosed
	}
	defer m.users.Done()
	_, err := m.callFormat()
	return err
}

// checkChat checks what a chat template is to format.
func (m *Model) checkChat(req Request) error {
	err := req.Check()
	if err == nil && req.HasTools() {
		_, err = m.callFormat()
	}
	return err
}

func (m *Model) prompt(req Request) (prompt, error) {
	p := prompt{text: m.valid(req.Prompt)}
	if len(req.Messages) == 0 {
		var err error
		p.grammar, err = req.gbnf()
		return p, err
	}
	p.marked = true
	c := chat{messages: req.Messages, tools: req.Tools}
	if req.ToolChoice == ToolsNone {
		c.tools = nil
	}
	var format grammar.Format
	var err error
	if req.HasTools() {
		if format, err = m.callFormat(); err != nil {
			return p, err
		}
	}
	p.think, p.thinks = m.thinking(), req.Thinking.On()
	if p.text, err = m.chatText(c, req.Thinking.Effort); err != nil {
		return p, err
	}
	p.thinks = p.thinks && p.think.form != nil
	p.shown = p.think.written()
	if len(c.tools) == 0 {
		p.grammar, err = req.gbnf()
		return p, err
	}
	if req.Grammar != "" || len(req.Schema) > 0 {
		return p, optionError("a request with tools cannot have a grammar or a schema of its own as well")
	}
	return p, p.withCalls(req, format)
}

// thinking returns how the chat template has the model think.
func (m *Model) thinking() thinkFormat {
	m.thinks.once.Do(func() {
		m.thinks.format = probeThinking(m.info.ChatTemplate, func(c chat) (string, error) { return m.render(c, nil) })
	})
	return m.thinks.format
}

// Thinks reports whether the model's chat template has it think before it answers.
func (m *Model) Thinks() bool {
	if !m.enter() {
		return false
	}
	defer m.users.Done()
	return m.thinking().form != nil
}

// chatText returns a conversation as the text of a prompt, which has the model answer at once unless it may think.
func (m *Model) chatText(c chat, e Effort) (string, error) {
	f := m.thinking()
	text, err := m.render(f.chat(c, e), m.literal)
	if err == nil && f.form != nil && !c.closed && !(Thinking{Effort: e}).On() {
		text = f.closeOff(text)
	}
	return m.valid(text), err
}

// withCalls adds the grammar of calls and their reader.
func (p *prompt) withCalls(req Request, format grammar.Format) error {
	must := req.ToolChoice != "" && req.ToolChoice != ToolsAuto
	var functions []grammar.Function
	for _, t := range req.Tools {
		if !must || req.ToolChoice == ToolsRequired || req.ToolChoice == t.Name {
			functions = append(functions, grammar.Function{Name: t.Name, Schema: t.Parameters})
		}
	}
	var err error
	if p.grammar, err = grammar.FromCalls(format, functions, must); err != nil {
		return fmt.Errorf("llm: %w: %w", ErrOptions, err)
	}
	seed := strconv.Itoa(len(req.Messages))
	for _, m := range slices.Backward(req.Messages) { // the same call may come again in a later turn
		if m.Role == User {
			seed += m.Content
			break
		}
	}
	p.calls = newCallReader(format, must, seed, req.Tools)
	return nil
}
