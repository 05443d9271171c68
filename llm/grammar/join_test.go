package grammar

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestSchemasThatHoldTogether: what is joined takes what an independent validator takes of the whole, and no more.
func TestSchemasThatHoldTogether(t *testing.T) {
	for _, c := range []struct {
		schema  string
		yes, no []string
	}{
		// as pydantic writes a field with a default or a description
		{`{"$defs":{"Size":{"enum":["s","l"],"title":"Size"}},"type":"object","properties":{"size":{"allOf":[` +
			`{"$ref":"#/$defs/Size"}],"default":"s","description":"d"}},"required":["size"]}`,
			[]string{`{"size":"s"}`}, []string{`{"size":"m"}`, `{}`}},
		{`{"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},` +
			`{"properties":{"b":{"type":"string","maxLength":1},"a":{"minimum":3}},"required":["b","a"]}]}`,
			[]string{`{"a":3,"b":"x"}`, `{"a": 4, "b":""}`}, []string{`{"a":2,"b":"x"}`, `{"a":3}`, `{"b":"x","a":3}`}},
		{`{"allOf":[{"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"additionalProperties":false},` +
			`{"properties":{"b":{},"c":{}}}]}`, []string{`{}`, `{"a":1}`, `{"a":1,"b":2}`},
			[]string{`{"b":3}`, `{"c":1}`, `{"b":2,"c":3}`}},
		{`{"allOf":[{"type":["string","null","integer"]},{"type":["number","string"],"minLength":2,"minimum":1}]}`,
			[]string{`"ab"`, `1`}, []string{`"a"`, `null`, `0`, `1.5`}},
		{`{"allOf":[{"type":["string","null"],"minLength":2},{"type":"null"}]}`, []string{`null`}, []string{`"ab"`}},
		{`{"allOf":[{"type":"integer","minimum":2,"maximum":9,"multipleOf":2},{"exclusiveMinimum":2,"maximum":7,` +
			`"multipleOf":4}]}`, []string{`4`}, []string{`2`, `6`, `8`}},
		{`{"allOf":[{"enum":[1,"a",null]},{"enum":["a",null,2],"type":"string"}]}`, []string{`"a"`},
			[]string{`null`, `1`}},
		{`{"allOf":[{"enum":["a","b"]},{"const":"b"}]}`, []string{`"b"`}, []string{`"a"`}},
		{`{"allOf":[{"type":"array","items":{"type":"integer"}},{"items":{"minimum":5},"maxItems":2}]}`,
			[]string{`[]`, `[5,6]`}, []string{`[4]`, `[5,5,5]`}},
		{`{"allOf":[true,{}]}`, []string{`1`, `"x"`}, nil},
		{`{"oneOf":[{"type":"string"},{"type":"null"}]}`, []string{`"x"`, `null`}, []string{`1`}},
		// as pydantic and OpenAPI write a tagged union
		{`{"$defs":{"A":{"type":"object","properties":{"k":{"const":"a"},"x":{"type":"integer"}},"required":["k","x"]},` +
			`"B":{"type":"object","properties":{"k":{"const":"b"}},"required":["k"]}},"oneOf":[{"$ref":"#/$defs/A"},` +
			`{"$ref":"#/$defs/B"}],"discriminator":{"propertyName":"k","mapping":{"a":"#/$defs/A","b":"#/$defs/B"}}}`,
			[]string{`{"k":"a","x":1}`, `{"k":"b"}`}, []string{`{"k":"a"}`, `{"k":"b","x":1}`, `{"k":"c"}`}},
		{`{"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"additionalProperties":false,"oneOf":[` +
			`{"required":["a"]},{"required":["b"]},{"required":["c"]}]}`,
			[]string{`{"a":1}`, `{"b":2}`}, []string{`{}`, `{"c":1}`}},
		{`{"anyOf":[{"minLength":2},{"type":"null"},{"type":"boolean"}],"type":["string","null"]}`,
			[]string{`"ab"`, `null`}, []string{`"a"`, `true`, `1`}},
		{`{"$defs":{"t":{"type":"string"}},"$ref":"#/$defs/t","maxLength":1}`, []string{`"a"`}, []string{`"ab"`, `1`}},
		// recursive schemas end: what follows is of both
		{`{"$defs":{"A":{"type":"object","properties":{"next":{"$ref":"#/$defs/A"},"a":{"const":1}}},"B":{"properties":` +
			`{"next":{"$ref":"#/$defs/B"}},"required":["a"]}},"allOf":[{"$ref":"#/$defs/A"},{"$ref":"#/$defs/B"}]}`,
			[]string{`{"a":1}`, `{"next":{"a":1},"a":1}`, `{"next":{"next":{"a":1},"a":1},"a":1}`},
			[]string{`{}`, `{"next":{},"a":1}`, `{"next":{"next":{},"a":1},"a":1}`}},
		{`{"allOf":[{"anyOf":[{"type":"integer"},{"type":"null"}]},{"oneOf":[{"type":"null"},{"type":"string"},` +
			`{"type":"number","minimum":4}]}]}`, []string{`null`, `4`}, []string{`3`, `"x"`}},
	} {
		takes(t, c.schema, c.yes, c.no)
	}
}

// TestSchemasThatCannotHoldTogether: errors name the place in the document and the keyword.
func TestSchemasThatCannotHoldTogether(t *testing.T) {
	for _, c := range []struct{ schema, path, keyword, reason string }{
		{`{"allOf":[{"type":"string"},{"type":"null"}]}`, "", "type", `"string" and "null" hold together`},
		{`{"allOf":[{"const":1},{"const":2}]}`, "", "const", "1 and 2 hold together"},
		{`{"allOf":[{"enum":[1]},{"enum":[2]}]}`, "", "enum", "no value in common"},
		{`{"allOf":[{"type":"string","pattern":"a"},{"pattern":"b"}]}`, "", "pattern", "cannot be joined"},
		{`{"allOf":[{"type":"number","multipleOf":2},{"multipleOf":3}]}`, "", "multipleOf", "cannot be joined"},
		{`{"allOf":[{"type":"object","properties":{"a":{}},"additionalProperties":false},{"required":["b"]}]}`, "",
			"required", `"b" is required`},
		{`{"properties":{"p":{"allOf":[{"type":"object"},{"not":{}}]}}}`, "/properties/p/allOf/1", "not",
			"not supported"},
		{`{"allOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"properties":{"a":{"type":"null"}}}]}`,
			"/properties/a", "type", "hold together"},
		{`{"allOf":[{"type":"object"},{"properties":{"a":{"type":"strin"}}}]}`, "/allOf/1/properties/a", "type",
			"is not one of"},
		{`{"allOf":[{"$ref":"#"}]}`, "", "", "lead back to it"},
		{`{"$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"allOf":[{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"}`,
			"/$defs/a", "", "lead back to it"},
		{`{"allOf":[{"prefixItems":[{}]},{"items":{}}]}`, "", "prefixItems", "cannot be joined"},
		{`{"allOf":[3]}`, "/allOf/0", "", "a schema is an object"},
		{`{"allOf":[false]}`, "/allOf/0", "", "nothing satisfies"},
		{`{"type":"string","oneOf":[{"type":"null"},{"type":"integer"}]}`, "", "type", "hold together"},
		{`{"allOf":[{"type":"integer","minLength":3},{}]}`, "/allOf/0", "minLength", "about type string"},
	} {
		_, err := FromSchema([]byte(c.schema))
		e, ok := errors.AsType[*SchemaError](err)
		if !ok || e.Path != c.path || e.Keyword != c.keyword || !strings.Contains(e.Reason, c.reason) {
			t.Errorf("%s: %v; want path %q, keyword %q, %q", c.schema, err, c.path, c.keyword, c.reason)
		}
	}
}

// TestJoiningIsBounded: a short document that stands for a great number of parts is refused, not worked on.
func TestJoiningIsBounded(t *testing.T) {
	wide := `{"anyOf":[` + strings.Repeat(`{"minimum":1},`, 99) + `{"minimum":2}]}`
	doubling, names := `"x0":{"type":"object"}`, `"p":{"type":"string"}`
	for i := range 60 {
		doubling += fmt.Sprintf(`,"x%d":{"allOf":[{"$ref":"#/$defs/x%[2]d"},{"$ref":"#/$defs/x%[2]d"}]}`, i+1, i)
	}
	for i := range 4000 {
		names += fmt.Sprintf(`,"p%d":{}`, i)
	}
	many := `{"properties":{` + names + `}},{"properties":{` + names + `}}`
	for name, schema := range map[string]string{
		"unions":     `{"allOf":[` + wide + `,` + wide + `,` + wide + `]}`,
		"references": `{"$defs":{` + doubling + `},"$ref":"#/$defs/x60","type":"object"}`,
		"properties": `{"allOf":[` + many + `]}`,
	} {
		_, err := FromSchema([]byte(schema))
		if e, ok := errors.AsType[*SchemaError](err); !ok || !strings.Contains(e.Reason, "more than 4194304 steps") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestArgumentsHoldTogether: a function's arguments may be schemas that hold together, in both ways of writing them.
func TestArgumentsHoldTogether(t *testing.T) {
	f := []Function{{"go", []byte(`{"$defs":{"P":{"type":"object","properties":{"to":{"type":"string"}},"required":["to"]}},` +
		`"allOf":[{"$ref":"#/$defs/P"},{"properties":{"days":{"allOf":[{"type":"integer"},{"maximum":3,"minimum":1}]}}}]}`)}}
	if text := TextParameters(f[0].Schema); !text["to"] || text["days"] {
		t.Errorf("%v", text)
	}
	either := TextParameters([]byte(`{"properties":{"a":{"type":"string","anyOf":[{"maxLength":1},{"minLength":3}]}}}`))
	if either["a"] {
		t.Error("a string that has to be one of two kinds is written as any text")
	}
	for _, c := range []struct {
		format  Format
		yes, no []string
	}{
		{hermes(), []string{"<tool_call>\n{\"name\": \"go\", \"arguments\": {\"to\": \"Rome\", \"days\": 3}}\n</tool_call>"},
			[]string{"<tool_call>\n{\"name\": \"go\", \"arguments\": {\"days\": 3}}\n</tool_call>",
				"<tool_call>\n{\"name\": \"go\", \"arguments\": {\"to\": \"Rome\", \"days\": 4}}\n</tool_call>"}},
		{Format{Trigger: "<call>", First: "<call><f=", Last: "></f></call>",
			Parameters: &Parameters{Begin: "><p=", Middle: ">", End: "</p"}},
			[]string{"<call><f=go><p=to>Rome</p><p=days>3</p></f></call>", "<call><f=go><p=to>Rome</p></f></call>"},
			[]string{"<call><f=go><p=days>3</p></f></call>", "<call><f=go><p=to>Rome</p><p=days>4</p></f></call>"}},
	} {
		source, err := FromCalls(c.format, f, true)
		if err != nil {
			t.Fatal(err)
		}
		m, err := newMatcher(source)
		if err != nil {
			t.Fatal(err)
		}
		for want, texts := range map[bool][]string{true: c.yes, false: c.no} {
			for _, text := range texts {
				if m.match(text) != want {
					t.Errorf("%s is matched: %v\n%s", text, !want, source)
				}
			}
		}
	}
}
