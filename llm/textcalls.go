package llm

import (
	"fmt"
	"strings"

	"github.com/sluice-rag/sluice/llm/grammar"
)

// textCalls returns how a model writes calls whose chat template does not say it: as Hermes 2 Pro, Qwen 2.5 and others
// were trained to, but one at a time, since small models go on with the same call.
func textCalls() grammar.Format {
	return grammar.Format{Trigger: "<tool_call>", First: "<tool_call>\n{\"name\": \"", Middle: `", "arguments": `,
		Last: "}\n</tool_call>"}
}

// textTools describes functions in the system message: the functions as JSON, and what stands before a name, before
// the arguments and behind them. Of three wordings it is the one with which Qwen2.5-Coder-1.5B made ten of ten calls
// and used the most results (docs/adr/0012).
const textTools = `# Functions

Functions that help with what the user asks, one JSON object each:
%s

When one of them helps, call it: write only
%sNAME%s{ARGUMENTS}%s
and wait for its result, which the user sends in <tool_response>. Otherwise answer in words.`

// toolsAsText returns a chat for a template without tools: the system message describes them, and calls and their
// results are contents. Neighbouring results and messages of the user become one message, since many templates want
// the roles to alternate.
func (c chat) toolsAsText() (chat, error) {
	f := textCalls()
	var out []Message
	if len(c.tools) > 0 {
		tools, err := c.toolsJSON(nil)
		if err != nil {
			return chat{}, err
		}
		out = append(out, Message{Role: System, Content: fmt.Sprintf(textTools, tools, f.First, f.Middle, f.Last)})
	}
	for i, m := range c.messages {
		switch {
		case i == 0 && m.Role == System && len(out) > 0:
			out[0].Content = m.Content + "\n\n" + out[0].Content
			continue
		case len(m.ToolCalls) > 0:
			text := []string{m.Content}
			for _, call := range m.ToolCalls {
				text = append(text, f.First+call.Name+f.Middle+call.Arguments+f.Last)
			}
			m = Message{Role: Assistant, Content: strings.TrimLeft(strings.Join(text, "\n"), "\n")}
		case m.Role == ToolRole:
			m = Message{Role: User, Content: "<tool_response>\n" + m.Content + "\n</tool_response>"}
		}
		last := len(out) - 1
		if m.Role == User && last >= 0 && out[last].Role == User && i > 0 && c.messages[i-1].Role == ToolRole {
			out[last].Content += "\n" + m.Content
			continue
		}
		out = append(out, m)
	}
	c.messages, c.tools = out, nil
	return c, nil
}
