//go:build native

package llm

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strconv"

	"github.com/sluice-rag/sluice/llm/grammar"
)

// prompt is a request's text with what its completion must follow.
type prompt struct {
	text    string
	marked  bool // literal texts are marked in it
	grammar string
	calls   *callReader // nil: the completion has no calls
	bare    *bareCalls  // finds calls without marks; nil: not looked for
	think   thinkFormat
	shown   string // marks of thinking, whose control tokens are text of the completion
}

// toolFormat is how a model calls tools.
type toolFormat struct {
	calls  grammar.Format
	asText bool // the template has no way for tools and calls, so that they are text (chat.toolsAsText)
}

func (m *Model) probeTools() (toolFormat, error) {
	var ends []string
	for _, s := range m.tok.specials() {
		if s.end {
			ends = append(ends, s.text)
		}
	}
	template := cmp.Or(m.forTool, m.info.ChatTemplate)
	calls, why := callFormat(func(c chat) (string, error) { return m.renderWith(template, c, nil) }, ends)
	if why == nil {
		return toolFormat{calls: calls}, nil
	}
	c, err := chat{messages: []Message{{Role: User, Content: probeNext}, {Role: Assistant, ToolCalls: probeCalls},
		{Role: ToolRole, Content: probeResult}}, tools: []Tool{{Name: probeCalls[0].Name}}}.toolsAsText()
	if err == nil {
		_, err = m.renderWith(m.info.ChatTemplate, c, nil)
	}
	if err != nil {
		return toolFormat{}, fmt.Errorf("llm: %s: %w", m.info.Path, why)
	}
	m.opts.Logger.Info("tools are described to the model in its system message", slog.String("reason", why.Error()))
	return toolFormat{textCalls(), true}, nil
}

// HasTools returns nil when requests may have tools, else an ErrTools with the reason.
func (m *Model) HasTools() error {
	if !m.enter() {
		return ErrClosed
	}
	defer m.users.Done()
	_, err := m.tools()
	return err
}

func (m *Model) prompt(req Request) (p prompt, err error) {
	p.text = m.valid(req.Prompt)
	c := chat{messages: req.Messages, tools: req.Tools}
	if req.ToolChoice == ToolsNone {
		c.tools = nil
	}
	if len(req.Messages) > 0 {
		p.marked, p.think = true, m.thinkingIn(c)
		p.shown = p.think.written()
		if p.text, err = m.chatText(c, req.Thinking.Effort); err != nil {
			return p, err
		}
	}
	if len(c.tools) == 0 {
		p.grammar, err = req.gbnf()
		return p, err
	}
	if req.Grammar != "" || len(req.Schema) > 0 {
		return p, optionError("a request with tools cannot have a grammar or a schema of its own as well")
	}
	tools, err := m.tools()
	if err != nil {
		return p, err
	}
	return p, p.withCalls(req, tools.calls)
}

// gbnf returns the grammar that a completion must follow, "" for any text. Errors wrap grammar.ErrGrammar or
// grammar.ErrSchema and name the place.
func (r Request) gbnf() (string, error) {
	switch {
	case len(r.Schema) > 0:
		return grammar.FromSchema(r.Schema)
	case r.Grammar != "":
		return r.Grammar, grammar.Check(r.Grammar)
	}
	return "", nil
}

func (m *Model) thinkingIn(c chat) thinkFormat {
	if len(c.tools) > 0 {
		return m.thinks().withCalls()
	}
	return m.thinks()
}

// Thinks reports whether the model's chat template has it think before it answers.
func (m *Model) Thinks() bool {
	if !m.enter() {
		return false
	}
	defer m.users.Done()
	return m.thinks().form != nil
}

// chatText returns a conversation as the text of a prompt, which has the model answer at once unless it may think.
func (m *Model) chatText(c chat, e Effort) (string, error) {
	f := m.thinkingIn(c)
	text, err := m.render(f.chat(c, e), m.literal)
	if err == nil && f.form != nil && !(Thinking{Effort: e}).On() {
		text = f.closeOff(text)
	}
	return m.valid(text), err
}

func (p *prompt) withCalls(req Request, format grammar.Format) error {
	must := req.ToolChoice != "" && req.ToolChoice != ToolsAuto
	if err := p.constrain(req, format, must); err != nil {
		return err
	}
	if !must && format.Headers == nil {
		p.bare = newBareCalls(format, req.Tools)
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

// constrain sets the grammar of calls, which are all of the completion with must.
func (p *prompt) constrain(req Request, format grammar.Format, must bool) (err error) {
	var functions []grammar.Function
	for _, t := range req.Tools {
		if !must || req.ToolChoice == ToolsRequired || req.ToolChoice == t.Name {
			functions = append(functions, grammar.Function{Name: t.Name, Schema: t.Parameters})
		}
	}
	if p.grammar, err = grammar.FromCalls(format, functions, must); err != nil {
		return fmt.Errorf("llm: %w: %w", ErrOptions, err)
	}
	return nil
}
