package remote

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sluice-rag/sluice/llm"
)

// maxCalls bounds the calls of an answer, which servers number.
const maxCalls = 128

// toolCall is a call in OpenAI's shape, in requests and, in parts, in the events of a stream.
type toolCall struct {
	Index    *int   `json:"index,omitempty"`
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type message struct {
	Role       llm.Role   `json:"role"`
	Content    *string    `json:"content"` // null beside calls alone
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

func messagesOf(msgs []llm.Message) []message {
	out := make([]message, len(msgs))
	for i, x := range msgs {
		out[i] = message{Role: x.Role, ToolCallID: x.ToolCallID}
		if x.Content != "" || len(x.ToolCalls) == 0 {
			out[i].Content = &x.Content
		}
		for _, c := range x.ToolCalls {
			call := toolCall{ID: c.ID, Type: "function"}
			call.Function.Name, call.Function.Arguments = c.Name, c.Arguments
			out[i].ToolCalls = append(out[i].ToolCalls, call)
		}
	}
	return out
}

func addTools(m map[string]any, r llm.Request) {
	if len(r.Tools) == 0 {
		return
	}
	type tool struct {
		Type     string   `json:"type"`
		Function llm.Tool `json:"function"`
	}
	tools := make([]tool, len(r.Tools))
	for i, t := range r.Tools {
		tools[i] = tool{"function", t}
	}
	m["tools"] = tools
	switch choice := cmp.Or(r.ToolChoice, llm.ToolsAuto); choice {
	case llm.ToolsAuto, llm.ToolsNone, llm.ToolsRequired:
		m["tool_choice"] = choice
	default:
		m["tool_choice"] = tool{"function", llm.Tool{Name: choice}}
	}
}

func (a *answer) addCalls(parts []toolCall) error {
	calls := a.result.ToolCalls
	if len(parts) > 0 && a.first.IsZero() {
		a.first = time.Now()
	}
	for _, p := range parts {
		at := len(calls) // a server without numbers sends whole calls
		if p.Index != nil {
			at = *p.Index
		}
		if at < 0 || at > len(calls) || at >= maxCalls {
			return fmt.Errorf("remote: %w: tool call %d after %d", ErrResponse, at, len(calls))
		}
		if at == len(calls) {
			calls = append(calls, llm.ToolCall{})
		}
		calls[at].ID += p.ID
		calls[at].Name += p.Function.Name
		calls[at].Arguments += p.Function.Arguments
	}
	a.result.ToolCalls = calls
	return nil
}

// checkCalls checks the calls of a complete answer, and drops them when a limit has cut the answer.
func (a *answer) checkCalls() error {
	r := &a.result
	if r.Finish == llm.FinishLength || r.Finish == llm.FinishContext {
		r.ToolCalls = nil
		return nil
	}
	for i, c := range r.ToolCalls {
		if c.Arguments == "" { // of a tool without parameters
			r.ToolCalls[i].Arguments = "{}"
		} else if !json.Valid([]byte(c.Arguments)) {
			return fmt.Errorf("remote: %w: the arguments of a tool call are no JSON", ErrResponse)
		}
		if c.Name == "" {
			return fmt.Errorf("remote: %w: a tool call names no tool", ErrResponse)
		}
	}
	if len(r.ToolCalls) > 0 {
		r.Finish = llm.FinishTools
	}
	return nil
}
