package llm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/llm/grammar"
)

var (
	hermes = grammar.Format{Trigger: "<tool_call>", First: "<tool_call>\n{\"name\": \"", Middle: `", "arguments": `,
		Next: "}\n</tool_call>\n<tool_call>\n{\"name\": \"", Last: "}\n</tool_call>"}
	llama3 = grammar.Format{Trigger: `{"name": "`, AtStart: true, First: `{"name": "`, Middle: `", "parameters": `,
		Last: "}"}
	mistral = grammar.Format{Trigger: "[TOOL_CALLS]", First: `[TOOL_CALLS][{"name": "`, Middle: `", "arguments": `,
		Next: ", \"id\": \"\x01\"}, {\"name\": \"", Last: ", \"id\": \"\x01\"}]"}
	devstral = grammar.Format{Trigger: "[TOOL_CALLS]", First: "[TOOL_CALLS]", Middle: "[CALL_ID]\x01[ARGS]",
		Next: "[TOOL_CALLS]"}
	coder = grammar.Format{Trigger: "<tool_call>", First: "<tool_call>\n<function=",
		Next: ">\n</function>\n</tool_call>\n<tool_call>\n<function=", Last: ">\n</function>\n</tool_call>",
		Parameters: &grammar.Parameters{Begin: ">\n<parameter=", Middle: ">\n", End: "\n</parameter"}}
	gemma = grammar.Format{Trigger: "<|tool_call>call:", First: "<|tool_call>call:", Middle: "{",
		Next: "}<tool_call|><|tool_call>call:", Last: "}<tool_call|>",
		Parameters: &grammar.Parameters{Middle: ":", Between: ",", Quote: `<|"|>`}}
	harmony = grammar.Format{First: " to=functions.", Middle: "<|channel|>commentary json<|message|>",
		Headers: harmonyHeaders()}
)

// TestCallReader: whatever pieces a completion comes in, its calls are taken out, and nothing of them is given out.
func TestCallReader(t *testing.T) {
	f := func(id, name, arguments string) ToolCall { return ToolCall{ID: id, Name: name, Arguments: arguments} }
	for name, c := range map[string]struct {
		format grammar.Format
		must   bool
		given  string
		text   string
		calls  []ToolCall
	}{
		"parameters": {coder, false, "Hm.\n<tool_call>\n<function=f>\n<parameter=a>\nx \"y\"\n</b>\n</parameter>\n" +
			"<parameter=n>\n[1, 2]\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=g>\n</function>\n" +
			"</tool_call>", "Hm.", []ToolCall{f("", "f", `{"a": "x \"y\"\n</b>", "n": [1, 2]}`), f("", "g", "{}")}},
		"parameter that is no JSON": {coder, true, "<tool_call>\n<function=f>\n<parameter=n>\nx\n</parameter>\n" +
			"</function>\n</tool_call>", "", nil},
		"text":   {hermes, false, "An <answer> <tool", "An <answer> <tool", nil},
		"spaces": {hermes, false, " a \n", " a \n", nil},
		"call": {hermes, false, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}\"}}\n</tool_call>", "",
			[]ToolCall{f("", "f", `{"a": "}"}`)}},
		"after": {hermes, false,
			"Let me <see>.\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n", "Let me <see>.",
			[]ToolCall{f("", "f", "{}")}},
		"two": {hermes, true,
			"<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", " +
				"\"arguments\": {\"b\": 1}}\n</tool_call>", "", []ToolCall{f("", "f", "{}"), f("", "g", `{"b": 1}`)}},
		"cut": {hermes, false, "So: <tool_call>\n{\"name\": \"f\", \"argum", "So:", nil},
		"cut later": {hermes, false, "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool", "",
			[]ToolCall{f("", "f", "{}")}},
		"second one cut": {hermes, false, "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n" +
			"<tool_call>\n{\"name\": \"g\", \"arguments\": {", "", []ToolCall{f("", "f", "{}")}},
		"cut before a parameter": {coder, true, "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n<param", "",
			nil},
		"identifier cut": {mistral, false, `[TOOL_CALLS][{"name": "f", "arguments": {}, "id": "abcdefgh1"}, ` +
			`{"name": "g", "arguments": {}, "id": "abc`, "", []ToolCall{f("abcdefgh1", "f", "{}")}},
		"bare": {llama3, false, `{"name": "f", "parameters": {"x": [1, 2]}}`, "",
			[]ToolCall{f("", "f", `{"x": [1, 2]}`)}},
		"bare late": {llama3, false, ` {"name": "f", "parameters": {}}`, ` {"name": "f", "parameters": {}}`, nil},
		"bare not":  {llama3, false, `{"name": 1}`, `{"name": 1}`, nil},
		"ids": {mistral, false,
			`[TOOL_CALLS][{"name": "f", "arguments": {}, "id": "abcdefgh1"}, {"name": "g", "arguments": {}, "id": "abcdefgh2"}]`, "",
			[]ToolCall{f("abcdefgh1", "f", "{}"), f("abcdefgh2", "g", "{}")}},
		"ids before": {devstral, false,
			`x[TOOL_CALLS]f[CALL_ID]abcdefgh1[ARGS]{}[TOOL_CALLS]g[CALL_ID]abcdefgh2[ARGS]{"a":1}`, "x",
			[]ToolCall{f("abcdefgh1", "f", "{}"), f("abcdefgh2", "g", `{"a":1}`)}},
		"quotes": {gemma, false, `So <|tool_call>call:f{a:<|"|>b:<|c,<|"|>,n:[1,"x"]}<tool_call|>` +
			`<|tool_call>call:f{n:[],a:"<|\""}<tool_call|><|tool_call>call:g{}<tool_call|>`, "So",
			[]ToolCall{f("", "f", `{"a": "b:<|c,", "n": [1,"x"]}`), f("", "f", `{"n": [], "a": "<|\""}`),
				f("", "g", "{}")}},
		"open quote": {gemma, false, `<|tool_call>call:f{a:<|"|>b}<tool_call|>`, "", nil},
		"header": {harmony, false, ` to=functions.f<|channel|>commentary json<|message|>{"a":1}`, "",
			[]ToolCall{f("", "f", `{"a":1}`)}},
		"other header": {harmony, true, `<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}`, "",
			[]ToolCall{f("", "f", `{}`)}},
		"answer's header": {harmony, false, `<|channel|>final<|message|> It to=functions.f`, " It to=functions.f", nil},
		"cut header":      {harmony, false, "<|channel|>fin", "", nil},
		"cut call": {harmony, false, `<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a`, "",
			nil},
	} {
		t.Run(name, func(t *testing.T) {
			for size := 1; size <= len(c.given); size++ {
				r := newCallReader(c.format, c.must, "s", []Tool{{Name: "f",
					Parameters: []byte(`{"properties": {"a": {"type": "string"}, "n": {"type": "array"}}}`)}})
				var text strings.Builder
				rest := c.given
				for ; len(rest) > size; rest = rest[size:] {
					text.WriteString(r.push(rest[:size]))
				}
				calls, _, last := r.finish(rest)
				text.WriteString(last)
				for i := range calls {
					if len(calls[i].ID) != 9 {
						t.Errorf("identifier %q", calls[i].ID)
					}
					if c.calls[min(i, len(c.calls)-1)].ID == "" {
						calls[i].ID = ""
					}
				}
				if text.String() != c.text || !cmp.Equal(calls, c.calls) {
					t.Fatalf("in pieces of %d: %q, %+v; want %q, %+v", size, text.String(), calls, c.text, c.calls)
				}
			}
		})
	}
}

// Calls that are not followed by another turn have identifiers of their own.
func TestCallIDs(t *testing.T) {
	given := "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n" +
		"{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"
	seen := map[string]bool{}
	for _, seed := range []string{"1", "2"} {
		calls, _, _ := (&callReader{format: hermes, seed: seed}).finish(given)
		for _, c := range calls {
			seen[c.ID] = true
		}
	}
	if len(seen) != 4 {
		t.Error(seen)
	}
}
