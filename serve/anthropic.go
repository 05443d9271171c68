package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/serve/openai"
)

const messagesPath = "/v1/messages"

// messagesRequest is the body of POST /v1/messages, Anthropic's API.
type messagesRequest struct {
	Model         string            `json:"model"`
	MaxTokens     *int              `json:"max_tokens" bounds:"1,2147483647"`
	Messages      []anthropicTurn   `json:"messages"`
	System        json.RawMessage   `json:"system"` // a string or blocks
	Temperature   *float64          `json:"temperature" bounds:"0,1"`
	TopP          *float64          `json:"top_p" bounds:"0,1"`
	TopK          *int              `json:"top_k" bounds:"0,2147483647"`
	StopSequences []string          `json:"stop_sequences"`
	Stream        bool              `json:"stream"`
	Tools         []anthropicTool   `json:"tools"`
	ToolChoice    *anthropicChoice  `json:"tool_choice"`
	Thinking      *anthropicThought `json:"thinking"`
	Sluice        json.RawMessage   `json:"sluice"`

	// Without effect: they concern Anthropic's accounts and classes of service.
	Metadata    json.RawMessage `json:"metadata"`
	ServiceTier json.RawMessage `json:"service_tier"`
}

type anthropicTurn struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"` // a string or blocks
}

type anthropicTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
	Cache       json.RawMessage `json:"cache_control"` // without effect
}

type anthropicChoice struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	OneCall bool   `json:"disable_parallel_tool_use"`
}

type anthropicThought struct {
	Type   string          `json:"type"`
	Budget *int            `json:"budget_tokens" bounds:"0,2147483647"`
	Shown  json.RawMessage `json:"display"` // without effect
}

// anthropicPart is a block of a turn.
type anthropicPart struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

// blocks reads a string or blocks.
func blocks(param string, raw json.RawMessage) ([]anthropicPart, error) {
	switch text := bytes.TrimSpace(raw); {
	case len(text) == 0 || string(text) == "null":
		return nil, nil
	case text[0] == '"':
		var s string
		if err := json.Unmarshal(text, &s); err != nil {
			return nil, bad(param, "%s: %v", param, err)
		}
		return []anthropicPart{{Type: "text", Text: s}}, nil
	}
	var list []anthropicPart
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, bad(param, "%s is neither a string nor blocks such as {\"type\": \"text\", \"text\": \"…\"}", param)
	}
	return list, nil
}

// turns converts a turn: each result of a tool becomes a message of its own, before the rest.
func (t anthropicTurn) turns(param string) (out []openai.Message, err error) {
	if t.Role != "user" && t.Role != "assistant" {
		return nil, bad(param+".role", "%s.role is user or assistant, given %q", param, shortened(t.Role))
	}
	list, err := blocks(param+".content", t.Content)
	if err != nil {
		return nil, err
	}
	rest, text := openai.Message{Role: t.Role}, ""
	for i, b := range list {
		at := fmt.Sprintf("%s.content[%d]", param, i)
		switch b.Type {
		case "text":
			text += b.Text
		case "thinking", "redacted_thinking": // earlier turns' thinking is not repeated
		case "tool_use":
			call := openai.ToolCall{ID: b.ID, Type: "function"}
			call.Function.Name, call.Function.Arguments = b.Name, string(b.Input)
			rest.ToolCalls = append(rest.ToolCalls, call)
		case "tool_result":
			inner, err := blocks(at+".content", b.Content)
			if err != nil {
				return nil, err
			}
			said := ""
			for _, part := range inner {
				if part.Type != "text" {
					return nil, notServed(at+".content", part.Type)
				}
				said += part.Text
			}
			out = append(out, openai.Message{Role: "tool", ToolCallID: b.ToolUseID, Content: quoted(said)})
		default:
			return nil, notServed(at+".type", b.Type)
		}
	}
	if text != "" || len(rest.ToolCalls) > 0 || len(out) == 0 {
		rest.Content = quoted(text)
		out = append(out, rest)
	}
	return out, nil
}

func notServed(param, kind string) error {
	return &openai.Error{Code: openai.CodeUnsupported, Param: param,
		Message: fmt.Sprintf("%s: %q is not supported", param, shortened(kind))}
}

// refused is the error of a parameter of another server's API.
func refused(param, hint string) error {
	return &openai.Error{Code: openai.CodeUnsupported, Param: param, Hint: hint,
		Message: param + ": it is not supported"}
}

func (q *messagesRequest) chat() (out openai.ChatRequest, err error) {
	out.Model, out.Sluice = q.Model, q.Sluice
	out.MaxTokens, out.Temperature, out.TopP, out.TopK = q.MaxTokens, q.Temperature, q.TopP, q.TopK
	if q.MaxTokens == nil {
		return out, bad("max_tokens", "max_tokens is missing")
	}
	if len(q.StopSequences) > 0 {
		out.Stop, _ = json.Marshal(q.StopSequences) // strings can be written
	}
	system, err := blocks("system", q.System)
	if err != nil {
		return out, err
	}
	for _, b := range system {
		out.Messages = append(out.Messages, openai.Message{Role: "system", Content: quoted(b.Text)})
	}
	for i, t := range q.Messages {
		list, err := t.turns(fmt.Sprintf("messages[%d]", i))
		if err != nil {
			return out, err
		}
		out.Messages = append(out.Messages, list...)
	}
	for i, t := range q.Tools {
		if t.Type != "" && t.Type != "custom" {
			return out, notServed(fmt.Sprintf("tools[%d].type", i), t.Type)
		}
		one := openai.Tool{Type: "function"}
		one.Function.Name, one.Function.Description, one.Function.Parameters = t.Name, t.Description, t.InputSchema
		out.Tools = append(out.Tools, one)
	}
	if c := q.ToolChoice; c != nil {
		out.ParallelToolCalls = new(!c.OneCall)
		switch c.Type {
		case "auto", "none":
			out.ToolChoice = quoted(c.Type)
		case "any":
			out.ToolChoice = quoted("required")
		case "tool":
			out.ToolChoice = json.RawMessage(`{"type":"function","function":{"name":` + string(quoted(c.Name)) + `}}`)
		default:
			return out, notServed("tool_choice.type", c.Type)
		}
	}
	if t := q.Thinking; t != nil {
		out.TemplateKwargs = json.RawMessage(fmt.Sprintf(`{"enable_thinking":%t}`, t.Type != "disabled"))
		out.ThinkingBudget = t.Budget
	}
	return out, nil
}

type anthropicMessage struct {
	ID      string           `json:"id"`
	Type    string           `json:"type"` // "message"
	Role    string           `json:"role"`
	Model   string           `json:"model"`
	Content []anthropicBlock `json:"content"`
	Stop    *string          `json:"stop_reason"`
	StopAt  *string          `json:"stop_sequence"` // always null
	Usage   anthropicUsage   `json:"usage"`
	Sluice  *ragAnswer       `json:"sluice,omitempty"` // of an answer from a knowledge base
}

type anthropicUsage struct {
	Input  int `json:"input_tokens"`
	Output int `json:"output_tokens"`
}

type anthropicBlock struct {
	Type      string              `json:"type"`
	Text      *string             `json:"text,omitempty"`
	Citations []anthropicCitation `json:"citations,omitempty"`
	Thinking  *string             `json:"thinking,omitempty"`
	Signature *string             `json:"signature,omitempty"` // of thinking; empty, because nothing checks it
	ID        string              `json:"id,omitempty"`
	Name      string              `json:"name,omitempty"`
	Input     json.RawMessage     `json:"input,omitempty"`
}

// anthropicCitation is a passage that the answer cites.
type anthropicCitation struct {
	Type   string `json:"type"` // "search_result_location"
	Cited  string `json:"cited_text"`
	Source string `json:"source"`
	Title  string `json:"title"`
	Index  int    `json:"search_result_index"`
	Start  int    `json:"start_block_index"`
	End    int    `json:"end_block_index"`
}

func (a *spoken) cited(r *http.Request) (list []anthropicCitation) {
	seen := map[int]bool{}
	for _, m := range prompt.Marks(a.text, a.citations) {
		c := m.Citation
		if seen[c.Number] {
			continue
		}
		seen[c.Number] = true
		one := anthropicCitation{Type: "search_result_location", Source: addressOf(r, a.base, c), Title: titleOf(c),
			Index: c.Number - 1, End: 1, Cited: c.Text}
		if c.Sentence != nil {
			one.Cited = c.Sentence.Text
		}
		list = append(list, one)
	}
	return list
}

func (a *spoken) calledBlocks() (list []anthropicBlock) {
	for _, c := range a.calls {
		list = append(list, anthropicBlock{Type: "tool_use", ID: c.ID, Name: c.Name,
			Input: json.RawMessage(c.Arguments)})
	}
	return list
}

// stopReason returns Anthropic's name for the end of an answer.
func (a *spoken) stopReason() *string {
	return new(cmp.Or(map[string]string{"length": "max_tokens", "tool_calls": "tool_use"}[a.finish], "end_turn"))
}

func (s *Server) messages(w http.ResponseWriter, r *http.Request, in *messagesRequest) error {
	q, err := in.chat()
	if err != nil {
		return err
	}
	h := newHead("msg", in.Model)
	if in.Stream {
		return s.streamMessages(w, r, &q, h.id)
	}
	a, err := s.speak(r, &q, listener{})
	if err != nil {
		return err
	}
	out := anthropicMessage{ID: h.id, Type: "message", Role: "assistant", Model: a.model, Content: []anthropicBlock{},
		Stop: a.stopReason(), Usage: anthropicUsage{a.usage.PromptTokens, a.usage.CompletionTokens}, Sluice: a.rag}
	if a.thought != "" {
		out.Content = append(out.Content, anthropicBlock{Type: "thinking", Thinking: &a.thought, Signature: new("")})
	}
	if a.text != "" || len(a.calls) == 0 {
		out.Content = append(out.Content, anthropicBlock{Type: "text", Text: &a.text, Citations: a.cited(r)})
	}
	out.Content = append(out.Content, a.calledBlocks()...)
	return writeJSON(w, http.StatusOK, out)
}

type anthropicEvent struct {
	Type    string            `json:"type"`
	Message *anthropicMessage `json:"message,omitempty"`
	Index   *int              `json:"index,omitempty"`
	Block   *anthropicBlock   `json:"content_block,omitempty"`
	Delta   map[string]any    `json:"delta,omitempty"`
	Usage   *anthropicUsage   `json:"usage,omitempty"`
	Sluice  *ragAnswer        `json:"sluice,omitempty"`
}

type messageStream struct {
	out  *stream
	open string // type of the open block, "" for none
	at   int    // its index
	err  error
}

func (m *messageStream) send(e anthropicEvent) error {
	if m.err == nil {
		m.err = m.out.event(e.Type, e)
	}
	return m.err
}

// begin opens a block of a type, and ends the one before, unless it is open already.
func (m *messageStream) begin(b anthropicBlock) {
	if m.open == b.Type {
		return
	}
	m.end()
	m.open = b.Type
	_ = m.send(anthropicEvent{Type: "content_block_start", Index: new(m.at), Block: &b})
}

func (m *messageStream) delta(kind, name string, value any) error {
	return m.send(anthropicEvent{Type: "content_block_delta", Index: new(m.at),
		Delta: map[string]any{"type": kind, name: value}})
}

func (m *messageStream) end() {
	if m.open == "" {
		return
	}
	_ = m.send(anthropicEvent{Type: "content_block_stop", Index: new(m.at)})
	m.at, m.open = m.at+1, ""
}

// streamMessages streams an answer in Anthropic's events.
func (s *Server) streamMessages(w http.ResponseWriter, r *http.Request, q *openai.ChatRequest, id string) error {
	m := &messageStream{out: &stream{w: w, kind: eventStream}}
	a, err := s.speak(r, q, listener{
		begin: func(model string) error {
			return m.send(anthropicEvent{Type: "message_start", Message: &anthropicMessage{ID: id, Type: "message",
				Role: "assistant", Model: model, Content: []anthropicBlock{}}})
		},
		thought: func(piece string) error {
			m.begin(anthropicBlock{Type: "thinking", Thinking: new(""), Signature: new("")})
			return m.delta("thinking_delta", "thinking", piece)
		},
		text: func(piece string) error {
			m.begin(anthropicBlock{Type: "text", Text: new("")})
			return m.delta("text_delta", "text", piece)
		},
	})
	if err != nil {
		if m.out.broken(r) {
			_ = m.out.event("error", asRequestError(err).finish().body(r.URL.Path)) // the client has left
		}
		return err
	}
	for _, c := range a.cited(r) {
		_ = m.delta("citations_delta", "citation", c)
	}
	for _, b := range a.calledBlocks() {
		arguments := string(b.Input)
		b.Input = json.RawMessage("{}")
		m.end()
		m.begin(b)
		_ = m.delta("input_json_delta", "partial_json", arguments)
		m.end()
	}
	m.end()
	_ = m.send(anthropicEvent{Type: "message_delta", Delta: map[string]any{"stop_reason": a.stopReason(),
		"stop_sequence": nil}, Usage: &anthropicUsage{a.usage.PromptTokens, a.usage.CompletionTokens}, Sluice: a.rag})
	return m.send(anthropicEvent{Type: "message_stop"})
}

// eventStream is the type of a response of server-sent events.
const eventStream = "text/event-stream; charset=utf-8"

// stream writes a response piece by piece and flushes each.
type stream struct {
	w     http.ResponseWriter
	kind  string // its Content-Type
	begun bool
}

// event writes a named server-sent event.
func (s *stream) event(name string, v any) error { return s.send("event: "+name+"\ndata: ", v, "\n\n") }

// line writes a line of JSON (NDJSON).
func (s *stream) line(v any) error { return s.send("", v, "\n") }

func (s *stream) send(before string, v any, after string) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", s.kind)
		if s.kind == eventStream {
			s.w.Header().Set("X-Accel-Buffering", "no") // nginx would buffer events
		}
		s.w.WriteHeader(http.StatusOK)
	}
	if _, err := fmt.Fprintf(s.w, "%s%s%s", before, raw, after); err != nil {
		return err
	}
	return http.NewResponseController(s.w).Flush()
}

// broken reports whether a stream is to end with an error in it: it has begun, and the client has not left.
func (s *stream) broken(r *http.Request) bool { return s.begun && r.Context().Err() == nil }

// anthropicError is the body of an error in Anthropic's API.
type anthropicError struct {
	Type  string           `json:"type"` // "error"
	Error anthropicFailure `json:"error"`
}

type anthropicFailure struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// anthropicType returns Anthropic's type of an error.
func anthropicType(status int) string {
	switch {
	case status == http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case status == http.StatusServiceUnavailable:
		return "overloaded_error"
	case status >= http.StatusInternalServerError:
		return "api_error"
	case status == http.StatusConflict:
		return "invalid_request_error"
	}
	return typeOf(status)
}
