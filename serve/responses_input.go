package serve

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sluice-rag/sluice/serve/openai"
)

// responsesRequest is the body of POST /v1/responses.
type responsesRequest struct {
	Model        string          `json:"model"`
	Input        json.RawMessage `json:"input"` // a string or items
	Instructions *string         `json:"instructions"`
	Stream       bool            `json:"stream"`
	Tools        json.RawMessage `json:"tools"`
	ToolChoice   json.RawMessage `json:"tool_choice"`
	Parallel     *bool           `json:"parallel_tool_calls"`
	Text         *responseText   `json:"text"`
	Temperature  *float64        `json:"temperature" bounds:"0,2"`
	TopP         *float64        `json:"top_p" bounds:"0,1"`
	MaxTokens    *int            `json:"max_output_tokens" bounds:"1,2147483647"`
	Reasoning    *reasoning      `json:"reasoning"`
	Include      []string        `json:"include"`
	Sluice       json.RawMessage `json:"sluice"`

	// Refused, because nothing is kept.
	Previous     json.RawMessage `json:"previous_response_id"`
	Conversation json.RawMessage `json:"conversation"`
	Prompt       json.RawMessage `json:"prompt"`
	Background   *bool           `json:"background"`

	// Without effect: they concern OpenAI's accounts, caches and classes of service.
	Store            json.RawMessage `json:"store"`
	Metadata         json.RawMessage `json:"metadata"`
	User             json.RawMessage `json:"user"`
	Truncation       json.RawMessage `json:"truncation"`
	ServiceTier      json.RawMessage `json:"service_tier"`
	SafetyIdentifier json.RawMessage `json:"safety_identifier"`
	PromptCacheKey   json.RawMessage `json:"prompt_cache_key"`
	StreamOptions    json.RawMessage `json:"stream_options"`
}

type responseText struct {
	Format    json.RawMessage `json:"format"`
	Verbosity json.RawMessage `json:"verbosity"` // without effect
}

type reasoning struct {
	Effort  json.RawMessage `json:"effort"`
	Summary json.RawMessage `json:"summary"` // without effect: thinking is shown as it is
}

type inputItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
}

type responseTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Stores      []string        `json:"vector_store_ids"`
	MaxResults  int             `json:"max_num_results"`
	Filters     json.RawMessage `json:"filters"`
}

func (q *responsesRequest) items() ([]inputItem, error) {
	if text := strings.TrimSpace(string(q.Input)); text != "" && text[0] == '"' {
		return []inputItem{{Role: "user", Content: q.Input}}, nil
	}
	var list []inputItem
	if !given(q.Input) || json.Unmarshal(q.Input, &list) != nil {
		return nil, bad("input", "input is a string or a list of items such as %s", `{"role": "user", "content": "…"}`)
	}
	return list, nil
}

func (x inputItem) said(param string) (string, error) {
	parts, err := blocks(param+".content", x.Content)
	if err != nil {
		return "", err
	}
	text := ""
	for i, p := range parts {
		switch p.Type {
		case "text", "input_text", "output_text":
			text += p.Text
		case "refusal":
		default:
			return "", notServed(fmt.Sprintf("%s.content[%d].type", param, i), p.Type)
		}
	}
	return text, nil
}

func (q *responsesRequest) chat() (*openai.ChatRequest, error) {
	if err := q.refuse(); err != nil {
		return nil, err
	}
	out := &openai.ChatRequest{Model: q.Model, MaxCompletionTokens: q.MaxTokens, ParallelToolCalls: q.Parallel,
		Sluice: q.Sluice}
	out.Temperature, out.TopP = q.Temperature, q.TopP
	if q.Reasoning != nil {
		out.ReasoningEffort = q.Reasoning.Effort
	}
	if q.Instructions != nil {
		out.Messages = append(out.Messages, openai.Message{Role: "system", Content: quoted(*q.Instructions)})
	}
	items, err := q.items()
	if err != nil {
		return nil, err
	}
	for i, x := range items {
		if err := x.addTo(out, fmt.Sprintf("input[%d]", i)); err != nil {
			return nil, err
		}
	}
	if q.Text != nil {
		if out.ResponseFormat, err = formatOf(q.Text.Format); err != nil {
			return nil, err
		}
	}
	if err := q.tools(out); err != nil {
		return nil, err
	}
	return out, nil
}

// addTo adds an item to a conversation. Several calls of one turn become one message.
func (x inputItem) addTo(out *openai.ChatRequest, param string) error {
	switch x.Type {
	case "", "message":
		text, err := x.said(param)
		if err != nil {
			return err
		}
		out.Messages = append(out.Messages, openai.Message{Role: x.Role, Content: quoted(text)})
	case "function_call":
		call := openai.ToolCall{ID: x.CallID, Type: "function"}
		call.Function.Name, call.Function.Arguments = x.Name, x.Arguments
		if n := len(out.Messages); n > 0 && len(out.Messages[n-1].ToolCalls) > 0 {
			out.Messages[n-1].ToolCalls = append(out.Messages[n-1].ToolCalls, call)
			return nil
		}
		out.Messages = append(out.Messages, openai.Message{Role: "assistant", ToolCalls: []openai.ToolCall{call}})
	case "function_call_output":
		text, err := inputItem{Content: x.Output}.said(param + ".output")
		if err != nil {
			return err
		}
		out.Messages = append(out.Messages, openai.Message{Role: "tool", ToolCallID: x.CallID, Content: quoted(text)})
	case "reasoning", "file_search_call": // of earlier answers
	default:
		return notServed(param+".type", x.Type)
	}
	return nil
}

// formatOf converts a format of the text, whose fields lie one level higher than in a chat.
func formatOf(raw json.RawMessage) (json.RawMessage, error) {
	if !given(raw) {
		return nil, nil
	}
	var f map[string]json.RawMessage
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, bad("text.format", "text.format is not an object: %v", err)
	}
	kind := f["type"]
	if delete(f, "type"); string(kind) != `"json_schema"` {
		return json.Marshal(map[string]any{"type": kind})
	}
	return json.Marshal(map[string]any{"type": kind, "json_schema": f})
}

// tools converts the tools. A search of files is the answer of a knowledge base, whatever the model is called.
func (q *responsesRequest) tools(out *openai.ChatRequest) error {
	if !given(q.Tools) {
		return nil
	}
	var list []responseTool
	if err := json.Unmarshal(q.Tools, &list); err != nil {
		return bad("tools", "tools: %v", err)
	}
	for i, t := range list {
		param := fmt.Sprintf("tools[%d]", i)
		switch t.Type {
		case "function":
			one := openai.Tool{Type: t.Type}
			one.Function.Name, one.Function.Description, one.Function.Parameters = t.Name, t.Description, t.Parameters
			out.Tools = append(out.Tools, one)
		case "file_search":
			if given(t.Filters) {
				return notServed(param+".filters", "filters")
			}
			if len(t.Stores) > 1 {
				return bad(param+".vector_store_ids", "%d knowledge bases are named, one is searched", len(t.Stores))
			}
			if !strings.HasPrefix(out.Model, ragModel) {
				out.Model = ragModel
			}
			if len(t.Stores) == 1 && out.Model == ragModel {
				out.Model += "/" + t.Stores[0]
			}
			if t.MaxResults != 0 && !given(out.Sluice) {
				out.Sluice = json.RawMessage(fmt.Sprintf(`{"k":%d}`, t.MaxResults))
			}
		default:
			return notServed(param+".type", t.Type)
		}
	}
	return q.choose(out)
}

// choose converts which tool is to be called.
func (q *responsesRequest) choose(out *openai.ChatRequest) error {
	var choice struct {
		Type string `json:"type"`
		Name string `json:"name"`
	}
	switch text := strings.TrimSpace(string(q.ToolChoice)); {
	case text == "" || text == "null":
	case text[0] == '"':
		if out.ToolChoice = q.ToolChoice; len(out.Tools) == 0 {
			out.ToolChoice = nil // of a search, which is always made
		}
	case json.Unmarshal(q.ToolChoice, &choice) != nil:
		return bad("tool_choice", "tool_choice is a string or an object")
	case choice.Type == "function":
		out.ToolChoice = json.RawMessage(`{"type":"function","function":{"name":` + string(quoted(choice.Name)) + `}}`)
	case choice.Type != "file_search":
		return notServed("tool_choice.type", choice.Type)
	}
	return nil
}
