package llm

import (
	"encoding/json"
)

// chat is the input of a template.
type chat struct {
	messages []Message
	tools    []Tool
	closed   bool // the assistant's turn is not opened
	// variables are more variables of the template, by their names.
	variables map[string]any
}

type functionCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments any    `json:"arguments"`
	} `json:"function"`
}

// callsJSON returns OpenAI's tool calls with arguments as objects and as JSON text.
func callsJSON(calls []ToolCall, l *chatLiterals) (objects, texts string, err error) {
	asObjects, asTexts := make([]functionCall, len(calls)), make([]functionCall, len(calls))
	for i, call := range calls {
		arguments, err := l.json([]byte(call.Arguments))
		if err != nil {
			return "", "", err
		}
		f := functionCall{ID: call.ID, Type: "function"}
		f.Function.Name = call.Name
		f.Function.Arguments = arguments
		asObjects[i] = f
		f.Function.Arguments = string(arguments)
		asTexts[i] = f
	}
	one, err := plainJSON(asObjects)
	if err != nil {
		return "", "", err
	}
	two, err := plainJSON(asTexts)
	return string(one), string(two), err
}

// toolsJSON returns a chat's tools as in OpenAI's API, "" for none.
func (c chat) toolsJSON(l *chatLiterals) (string, error) {
	if len(c.tools) == 0 {
		return "", nil
	}
	type function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	type tool struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	list := make([]tool, len(c.tools))
	for i, t := range c.tools {
		parameters := t.Parameters
		if len(parameters) == 0 {
			parameters = json.RawMessage(`{"type": "object", "properties": {}}`)
		}
		parameters, err := l.json(parameters)
		if err != nil {
			return "", err
		}
		list[i] = tool{"function", function{t.Name, l.text(t.Description), parameters}}
	}
	text, err := plainJSON(list)
	return string(text), err
}

// chatLiterals marks the texts of a chat. A nil one leaves them unchanged.
type chatLiterals struct {
	assistant, others *literals
	whole             bool // every mark of the chat format is a token, so that no content can contain one
}

func (l *chatLiterals) text(s string) string {
	if l == nil {
		return s
	}
	return l.others.mark(s)
}

func (l *chatLiterals) content(m Message) string {
	if l != nil && m.Role == Assistant {
		return l.assistant.mark(m.Content)
	}
	return l.text(m.Content)
}

func (l *chatLiterals) json(text []byte) (json.RawMessage, error) {
	if l == nil {
		return json.RawMessage(text), nil
	}
	return l.others.markJSON(text)
}
