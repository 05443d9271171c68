package grammar

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

func hermes() Format {
	return Format{Trigger: "<tool_call>", First: "\n<tool_call>\n{\"name\": \"", Middle: `", "arguments": `,
		Next: "}\n</tool_call>\n<tool_call>\n{\"name\": \"", Last: "}\n</tool_call>"}
}

func functions() []Function {
	return []Function{
		{"weather", []byte(`{"properties": {"city": {"$ref": "#/$defs/city"}}, "required": ["city"],
			"$defs": {"city": {"type": "string"}}}`)},
		{"now", nil},
		{"any", []byte(`{"type": "object"}`)},
		{"trip", []byte(`{"type": "object", "properties": {"to": {"enum": ["Rome", "Oslo"]}, "days": {"type": "array",
			"items": {"type": "integer"}}}, "required": ["to"]}`)},
		{"many", []byte(`{"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"},
			"c": {"type": "integer"}}, "required": ["b"]}`)},
		{"nothing", []byte(`{"type": "object", "properties": {}}`)},
	}
}

func TestFromCalls(t *testing.T) {
	bare := Format{Trigger: `{"name": "`, AtStart: true, First: `{"name": "`, Middle: `", "parameters": `, Last: "}"}
	ids := Format{Trigger: "[CALLS]", First: `[CALLS][{"name": "`, Middle: `", "arguments": `,
		Next: ", \"id\": \"\x01\"}, {\"name\": \"", Last: ", \"id\": \"\x01\"}]"}
	tags := Format{Trigger: "<call>", First: "<call><f=", Next: "</f><f=", Last: "></f></call>",
		Parameters: &Parameters{Begin: "><p=", Middle: ">", End: "</p"}}
	quotes := Format{Trigger: "<call>", First: "<call>", Middle: "(", Last: ")</call>",
		Parameters: &Parameters{Middle: "=", Between: ", ", Quote: "'"}}
	headers := Format{First: " to=", Middle: "|m|",
		Headers: &Headers{Answer: "|final|", First: "|c| to=", Middle: " j|m|"}}
	weather := "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>"
	for name, c := range map[string]struct {
		format  Format
		must    bool
		yes, no []string
	}{
		"must": {hermes(), true, []string{
			weather, weather + "\n" + weather,
			"<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
			"<tool_call>\n{\"name\": \"any\", \"arguments\": {\"x\": [1]}}\n</tool_call>",
		}, []string{
			"", "text", "text " + weather, weather + weather, weather + " text",
			"<tool_call>\n{\"name\": \"now\", \"arguments\": {\"x\": 1}}\n</tool_call>",
			"<tool_call>\n{\"name\": \"nothing\", \"arguments\": {\"x\": 1}}\n</tool_call>",
			"<tool_call>\n{\"name\": \"weather\", \"arguments\": {}}\n</tool_call>",
			"<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>",
		}},
		"may": {hermes(), false, []string{
			"", "text", "<tool", "a <tool_cal<tool_ <<tool_call", weather, "Let me see.\n" + weather,
			"<<tool_call" + weather,
		}, []string{"<tool_call>", "x <tool_call> y", weather + "text", "<<tool_call>x"}},
		"bare": {bare, false, []string{
			"", "text", `{"name": "now", "parameters": {}}`, `{"other": 1}`, `so {"name": "x"}`, `{"name": 1}`,
		}, []string{`{"name": "x"}`, `{"name": "now", "parameters": {}} text`}},
		"parameters": {tags, true, []string{
			"<call><f=weather><p=city>Rome<br></p></f></call>", "<call><f=now></f></call>",
			"<call><f=nothing></f></call>",
			"<call><f=trip><p=to>Oslo</p><p=days>[1,2]</p></f></call>", "<call><f=trip><p=to>Rome</p></f></call>",
			"<call><f=weather><p=city></p></f></call>",
		}, []string{
			"<call><f=weather></f></call>", "<call><f=weather><p=city>Rome</f></call>",
			"<call><f=now><p=x>1</p></f></call>",
			"<call><f=trip><p=to>Paris</p></f></call>", "<call><f=trip><p=to>Oslo</p><p=days>x</p></f></call>",
			"<call><f=trip><p=days>[1]</p><p=to>Oslo</p></f></call>",
		}},
		"quotes": {quotes, true, []string{
			"<call>weather(city='Ro\"me')</call>", `<call>weather(city="O'Neill\n")</call>`, "<call>now()</call>",
			"<call>trip(to='Oslo')</call>", "<call>trip(to='Oslo', days=[1,2])</call>",
			"<call>many(b=1)</call>", "<call>many(a='x', b=1)</call>", "<call>many(b=1, c=2)</call>",
			"<call>many(a='', b=1, c=2)</call>",
		}, []string{
			"<call>weather()</call>", "<call>weather(city=Rome)</call>", "<call>weather(city='O'Neill')</call>",
			"<call>trip(to='Oslo', )</call>", "<call>trip(to='Oslo'days=[1])</call>", "<call>trip(to='Paris')</call>",
			"<call>many(, b=1)</call>", "<call>many(a='x')</call>", "<call>many(b=1, a='x')</call>",
		}},
		"headers": {headers, false, []string{
			`|final|`, `|final|a to=now|m|`, ` to=now|m|{}`, `|c| to=now j|m|{}`, `|c| to=weather j|m|{"city": "Rome"}`,
		}, []string{"", "a", "|c|text", ` to=now|m|`, ` to=now|m|{} `, `to=now|m|{}`, `|c| to=other j|m|{}`}},
		"only calls with headers": {headers, true, []string{` to=now|m|{}`, `|c| to=now j|m|{}`},
			[]string{"", "|final|", "|final|a"}},
		"identifiers": {ids, true, []string{`[CALLS][{"name": "now", "arguments": {}, "id": "abcDEF123"}]`,
			`[CALLS][{"name": "now", "arguments": {}, "id": "abcDEF123"}, {"name": "now", "arguments": {}, "id": "abcDEF124"}]`},
			[]string{`[CALLS][{"name": "now", "arguments": {}, "id": "abcDEF12"}]`,
				`[CALLS][{"name": "now", "arguments": {}}]`}},
	} {
		t.Run(name, func(t *testing.T) {
			source, err := FromCalls(c.format, functions(), c.must)
			if err != nil {
				t.Fatal(err)
			}
			m, err := newMatcher(source)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range c.yes {
				if !m.match(text) {
					t.Errorf("%q is refused", text)
				}
			}
			for _, text := range c.no {
				if m.match(text) {
					t.Errorf("%q is taken", text)
				}
			}
		})
	}
}

// Texts without the trigger are all taken, however much of it they repeat.
func TestFromCallsAnyText(t *testing.T) {
	for _, trigger := range []string{"aab", "abab", "aaaa", "<|a|><|a|b", "abcabd"} {
		f := Format{Trigger: trigger, First: trigger, Middle: ":", Last: "."}
		source, err := FromCalls(f, []Function{{Name: "f"}}, false)
		if err != nil {
			t.Fatal(err)
		}
		m, err := newMatcher(source)
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(3, 4))
		for range 3000 {
			var b strings.Builder
			for range random.IntN(14) {
				b.WriteByte(trigger[random.IntN(len(trigger))])
			}
			text := b.String()
			free := !strings.Contains(text, trigger)
			if m.match(text) != free || m.match(text+"x") != free {
				t.Fatalf("%q in %q: %v", trigger, text, !free)
			}
			if free && !strings.Contains((text + trigger)[:len(text+trigger)-1], trigger) &&
				!m.match(text+trigger+"f:{}.") {
				t.Fatalf("a call after %q is refused", text)
			}
		}
	}
}

func TestFromCallsRefuses(t *testing.T) {
	for schema, path := range map[string]string{
		`[]`:                 "/f",
		`{"type": "string"}`: "/f",
		`{"type": "object", "properties": {"x": {"oneOf": []}}}`: "/f/properties/x",
	} {
		_, err := FromCalls(hermes(), []Function{{"f", []byte(schema)}}, false)
		var e *SchemaError
		if !errors.As(err, &e) || e.Path != path {
			t.Errorf("%s: %v", schema, err)
		}
	}
}
