package llm

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
)

// Tool is a function that a model may ask its caller to run.
type Tool struct {
	Name        string          `json:"name"` // letters, digits, "_" and "-", at most 64
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"` // JSON Schema of an object; empty: no parameters
}

// ToolCall is a call that a model asks for.
type ToolCall struct {
	ID        string // unique within the conversation
	Name      string // of a Tool
	Arguments string // JSON text of an object
}

// Values of Request.ToolChoice beside the names of tools.
const (
	ToolsAuto     = "auto"
	ToolsNone     = "none"
	ToolsRequired = "required"
)

const maxTools = 128 // as in OpenAI's API

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// CheckTools returns the part of Check about tools and the messages that concern them.
func (r Request) CheckTools() error {
	names := map[string]bool{}
	for i, t := range r.Tools {
		switch {
		case !toolName.MatchString(t.Name):
			return optionError("tool %d has the name %q; letters, digits, _ and - are allowed, 1 to 64 of them",
				i, t.Name)
		case names[t.Name]:
			return optionError("two tools have the name %q", t.Name)
		case !isObject(t.Parameters) && len(t.Parameters) > 0:
			return optionError("the parameters of tool %q are not a JSON object", t.Name)
		}
		names[t.Name] = true
	}
	switch {
	case len(r.Tools) > maxTools:
		return optionError("%d tools are more than %d", len(r.Tools), maxTools)
	case len(r.Tools) > 0 && len(r.Messages) == 0:
		return optionError("tools need messages, not a raw prompt")
	case slices.Contains([]string{"", ToolsAuto, ToolsNone}, r.ToolChoice):
	case len(r.Tools) == 0:
		return optionError("the tool choice %q needs tools", r.ToolChoice)
	case r.ToolChoice != ToolsRequired && !names[r.ToolChoice]:
		return optionError("the tool choice %q is neither %q, %q, %q nor a tool's name",
			r.ToolChoice, ToolsAuto, ToolsNone, ToolsRequired)
	case r.Grammar != "" || len(r.Schema) > 0:
		return optionError("a request that must call a tool cannot have a grammar or a schema of its own")
	}
	return r.checkRoles()
}

func (r Request) checkRoles() error {
	for i, m := range r.Messages {
		switch m.Role {
		case System, User, Assistant, ToolRole:
		default:
			return optionError("message %d has role %q; roles are %q, %q, %q and %q",
				i, m.Role, System, User, Assistant, ToolRole)
		}
		if len(m.ToolCalls) > 0 && m.Role != Assistant {
			return optionError("message %d has tool calls, but role %q; only %q makes them", i, m.Role, Assistant)
		}
		if m.ToolCallID != "" && m.Role != ToolRole {
			return optionError("message %d answers a tool call, but has role %q, not %q", i, m.Role, ToolRole)
		}
		for j, c := range m.ToolCalls {
			if !toolName.MatchString(c.Name) {
				return optionError("tool call %d of message %d has the name %q", j, i, c.Name)
			}
			if !isObject([]byte(c.Arguments)) {
				return optionError("the arguments of tool call %d of message %d are not a JSON object", j, i)
			}
		}
	}
	return nil
}

// HasTools reports whether a request needs a chat template with tools.
func (r Request) HasTools() bool {
	return len(r.Tools) > 0 || slices.ContainsFunc(r.Messages, func(m Message) bool {
		return m.Role == ToolRole || len(m.ToolCalls) > 0
	})
}

func isObject(text []byte) bool {
	return json.Valid(text) && bytes.HasPrefix(bytes.TrimSpace(text), []byte("{"))
}
