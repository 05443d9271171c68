package openai

import (
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/sluice-rag/sluice/llm"
)

// Tool is a function that the model may call.
type Tool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"` // JSON Schema; absent: none
		Strict      json.RawMessage `json:"strict"`     // without effect: arguments always follow Parameters
	} `json:"function"`
}

// ToolCall is a tool call by the model, in responses and in later requests.
type ToolCall struct {
	Index    *int   `json:"index,omitempty" bounds:"-2147483648,2147483647"` // in chunks of a stream
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

var functionName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (c *ToolCall) call(param string) (llm.ToolCall, *Error) {
	switch {
	case c.Type != "" && c.Type != "function":
		return llm.ToolCall{}, unsupported(param+".type", "%.40q is not supported, only \"function\" is", c.Type)
	case c.ID == "":
		return llm.ToolCall{}, missing(param + ".id")
	case !functionName.MatchString(c.Function.Name):
		return llm.ToolCall{}, badName(param+".function.name", c.Function.Name)
	}
	arguments := json.RawMessage(c.Function.Arguments)
	if c.Function.Arguments == "" {
		arguments = json.RawMessage("{}")
	}
	if first(arguments) != '{' || !json.Valid(arguments) {
		return llm.ToolCall{}, invalid(param+".function.arguments", "they are not a JSON object")
	}
	return llm.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: string(arguments)}, nil
}

func badName(param, name string) *Error {
	return invalid(param, "%.80q is not 1 to 64 letters, digits, '_' and '-'", name)
}

// tools converts the request's tools, and which of them the model must call.
func (r *ChatRequest) tools(out *llm.Request, l Limits) *Error {
	if len(r.Tools) > l.Tools {
		return tooMany("tools", len(r.Tools), l.Tools, "tools")
	}
	known := map[string]bool{}
	for i, t := range r.Tools {
		param := fmt.Sprintf("tools[%d]", i)
		f := t.Function
		switch {
		case t.Type != "function":
			return unsupported(param+".type", "%.40q is not supported, only \"function\" is", t.Type)
		case !functionName.MatchString(f.Name):
			return badName(param+".function.name", f.Name)
		case known[f.Name]:
			return invalid(param+".function.name", "%q is there twice", f.Name)
		case given(f.Parameters) && first(f.Parameters) != '{':
			return wrongType(param+".function.parameters", "an object", f.Parameters)
		}
		known[f.Name] = true
		tool := llm.Tool{Name: f.Name, Description: f.Description}
		if given(f.Parameters) {
			tool.Parameters = f.Parameters
		}
		out.Tools = append(out.Tools, tool)
	}
	var err *Error
	if out.ToolChoice, err = choice(r.ToolChoice, known); err != nil {
		return err
	}
	if len(out.Tools) > 0 && len(out.Schema) > 0 && out.ToolChoice != "none" {
		return unsupported("response_format", "a form of the answer cannot be asked for together with tools").
			hint(`send tool_choice "none", or leave one of them out`)
	}
	return nil
}

// choice returns which tool is to be called: "", "auto", "none", "required" or a name.
func choice(raw json.RawMessage, known map[string]bool) (string, *Error) {
	const param = "tool_choice"
	if !given(raw) {
		return "", nil
	}
	var name string
	switch first(raw) {
	case '"':
		s, err := text(param, raw)
		if err != nil {
			return "", err
		}
		if s != "none" && s != "auto" && s != "required" {
			return "", invalid(param, "%.80q is none of none, auto and required", s)
		}
		if s == "required" && len(known) == 0 {
			return "", invalid(param, "a tool is required, and none is given")
		}
		return s, nil
	case '{':
		var c struct {
			Type     string `json:"type"`
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		}
		if err := object(param, raw, &c); err != nil {
			return "", err
		}
		if c.Type != "function" {
			return "", unsupported(param+".type", "%.40q is not supported, only \"function\" is", c.Type)
		}
		name = c.Function.Name
	default:
		return "", wrongType(param, "a string or an object", raw)
	}
	if !known[name] {
		return "", invalid(param+".function.name", "%.80q is none of the tools", name)
	}
	return name, nil
}
