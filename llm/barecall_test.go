package llm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBareCalls: whatever pieces a completion comes in, a call without marks is found, and all other text is given out.
func TestBareCalls(t *testing.T) {
	for name, c := range map[string]struct {
		given, text, called string
		llama               bool
	}{
		"call":           {given: `{"name": "f", "arguments": {"a": 1}}`, called: "f"},
		"parameters":     {given: "{\n  \"name\" : \"f\",\n  \"parameters\": {", called: "f"},
		"two braces":     {given: ` {{"name":"g","arguments"`, called: "g"},
		"fence":          {given: "```json\n{\"name\": \"f\", \"arguments\": {}}\n```", called: "f"},
		"after text":     {given: "Let me see.\n{\"name\": \"f\", \"arguments\"", text: "Let me see.\n", called: "f"},
		"other function": {given: `{"name": "h", "arguments": {}}`, text: `{"name": "h", "arguments": {}}`},
		"other object":   {given: "{\"name\": \"f\", \"x\": 1}\n{}", text: "{\"name\": \"f\", \"x\": 1}\n{}"},
		"in a line":      {given: `So {"name": "f", "arguments": {}}`, text: `So {"name": "f", "arguments": {}}`},
		"code":           {given: "```python\nprint({})\n```\n", text: "```python\nprint({})\n```\n"},
		"long":           {given: "{" + strings.Repeat(" ", 300) + "x", text: "{" + strings.Repeat(" ", 300) + "x"},
		"lines":          {given: "\n\na\n\n b", text: "\n\na\n\n b"},
		"cut":            {given: "a\n{\"name\": \"f", text: "a\n{\"name\": \"f"},
		"own way": {given: "a\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}",
			text: "a\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}"},
		"own way at the start": {given: `{"name": "f", "parameters": {}}`, text: `{"name": "f", "parameters": {}}`,
			llama: true},
		"not at the start": {given: "a\n{\"name\": \"f\", \"parameters\": {}}", text: "a\n", called: "f", llama: true},
	} {
		t.Run(name, func(t *testing.T) {
			for size := 1; size <= len(c.given); size++ {
				format := hermes
				if c.llama {
					format = llama3
				}
				b := newBareCalls(format, []Tool{{Name: "f"}, {Name: "g"}})
				var text strings.Builder
				called := ""
				for rest := c.given; rest != "" && called == ""; rest = rest[min(size, len(rest)):] {
					var piece string
					piece, called = b.push(rest[:min(size, len(rest))])
					text.WriteString(piece)
				}
				if called == "" {
					text.WriteString(b.finish())
				}
				if text.String() != c.text || called != c.called {
					t.Fatalf("in pieces of %d: %q, %q; want %q, %q", size, text.String(), called, c.text, c.called)
				}
			}
		})
	}
}

// TestToolsAsText: the roles that a template without tools is given alternate, and nothing is lost.
func TestToolsAsText(t *testing.T) {
	call := ToolCall{ID: "1", Name: "f", Arguments: `{"a": 1}`}
	c := chat{tools: []Tool{{Name: "f", Description: "Does it"}}, messages: []Message{
		{Role: System, Content: "Be brief."}, {Role: User, Content: "One?"},
		{Role: Assistant, Content: "Wait.", ToolCalls: []ToolCall{call, {ID: "2", Name: "g", Arguments: "{}"}}},
		{Role: ToolRole, ToolCallID: "1", Content: "r1"}, {Role: ToolRole, ToolCallID: "2", Content: "r2"},
		{Role: User, Content: "Well?"}, {Role: Assistant, ToolCalls: []ToolCall{call}},
		{Role: ToolRole, ToolCallID: "1", Content: "r3"}}}
	got, err := c.toolsAsText()
	if err != nil || len(got.tools) > 0 {
		t.Fatal(got, err)
	}
	system := got.messages[0]
	if system.Role != System || !strings.HasPrefix(system.Content, "Be brief.\n\n# Functions") ||
		!strings.Contains(system.Content, "Does it") {
		t.Errorf("%+v", system)
	}
	const f, g = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
		"<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>"
	result := func(text string) string { return "<tool_response>\n" + text + "\n</tool_response>" }
	if diff := cmp.Diff([]Message{{Role: User, Content: "One?"}, {Role: Assistant, Content: "Wait.\n" + f + "\n" + g},
		{Role: User, Content: result("r1") + "\n" + result("r2") + "\nWell?"}, {Role: Assistant, Content: f},
		{Role: User, Content: result("r3")}}, got.messages[1:]); diff != "" {
		t.Error(diff)
	}
}
