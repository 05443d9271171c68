package grammar

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestSchemasTakeAndRefuse compares single texts: what a schema takes in the package's notation, and what it does not.
func TestSchemasTakeAndRefuse(t *testing.T) {
	for _, c := range []struct {
		schema  string
		yes, no []string
	}{
		{`{"type":"string","maxLength":3}`, []string{`""`, `"aé😀"`, `"\n\"\\"`, `"\u00e9\ud83d\ude00x"`},
			[]string{`"abcd"`, `"\ud83d"`, `"\ud83dx"`, `"\ude00"`, "\"\n\"", "\"\u0001\"", `"\x"`, `"\u12"`, ` ""`,
				`"" `}},
		{`{"type":"string","minLength":2}`, []string{`"ab"`, `"\\\\"`}, []string{`""`, `"a"`, `"\\"`}},
		{`{"type":"string","minLength":2500,"maxLength":4700}`,
			[]string{`"` + strings.Repeat("x", 2500) + `"`, `"` + strings.Repeat("x", 4700) + `"`,
				`"` + strings.Repeat("x", 4500) + `"`},
			[]string{`"` + strings.Repeat("x", 2499) + `"`, `"` + strings.Repeat("x", 4701) + `"`}},
		{`{"type":"array","items":{"type":"null"},"minItems":1,"maxItems":3}`, []string{`[null]`, `[null,null, null]`},
			[]string{`[]`, `[null,null,null,null]`, `[null,]`, `[ null]`, `[null,  null]`, `[null null]`}},
		{`{"type":"array","items":false}`, []string{`[]`}, []string{`[null]`}},
		{`{"type":"array","prefixItems":[{"const":1},{"const":2}],"items":{"const":3},"minItems":1,"maxItems":4}`,
			[]string{`[1]`, `[1,2]`, `[1,2,3]`, `[1,2,3,3]`}, []string{`[]`, `[1,3]`, `[1,2,3,3,3]`, `[2]`}},
		{`{"type":"object","properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},"required":["b"],"additionalProperties":false}`,
			[]string{`{"b":2}`, `{"a":1,"b":2}`, `{"a": 1, "b": 2, "c": 3}`, `{"b":2,"c":3}`},
			[]string{`{}`, `{"a":1}`, `{"b":2,"a":1}`, `{"b":2,}`, `{,"b":2}`, `{"b":2"c":3}`, `{"b":2,"d":3}`,
				`{ "b":2}`}},
		{`{"type":"object","properties":{},"additionalProperties":false}`, []string{`{}`}, []string{`{"a":1}`}},
		{`{"type":"object"}`, []string{`{}`, `{"a":[1,{"b":null}]}`}, []string{`[]`, `{"a"}`, `{a:1}`}},
		{`{"type":"object","required":["x"]}`, []string{`{"x":[true]}`}, []string{`{}`, `{"y":1}`}},
		{`{}`, []string{`{}`, `[1,"a",-0.5e+3]`, `null`, `0`},
			[]string{``, `nul`, `01`, `1.`, `+1`, `.5`, `1e`, `- 1`}},
		{`{"properties":{"a":{"type":"boolean"}},"required":["a"]}`, []string{`{"a":true}`}, []string{`{"a":1}`, `3`}},
		{`{"type":"integer"}`, []string{`0`, `-7`, `999999999999999`},
			[]string{`-0`, `007`, `1.0`, `1e3`, `1000000000000000`, `--1`}},
		{`{"type":["number","integer"],"minimum":1}`, []string{`1`, `1.5`, `20`}, []string{`0`, `0.9`, `-1`}},
		{`{"type":"integer","minimum":1000000000000000000000}`,
			[]string{`1000000000000000000000`, `2000000000000000000000`}, []string{`999999999999999999999`}},
		{`{"type":"integer","multipleOf":1.5,"minimum":-3,"maximum":3}`, []string{`-3`, `0`, `3`}, []string{`1`, `2`}},
		{`{"type":"integer","multipleOf":0.5,"minimum":1,"maximum":2}`, []string{`1`, `2`}, []string{`0`, `3`}},
		{`{"type":"integer","multipleOf":300}`, []string{`0`, `-300`, `999999999999900`}, []string{`100`, `30`}},
		{`{"type":"number","multipleOf":0.25,"multipleOf ":1}`, nil, nil},
		{`{"enum":["a\"b","a",1.0,null,{"k":[]}]}`, []string{`"a\"b"`, `"a"`, `1.0`, `null`, `{"k":[]}`},
			[]string{`1`, `a`, `"b"`}},
		{`{"type":"integer","enum":["a",1.0,2.5,3]}`, []string{`1.0`, `3`}, []string{`2.5`, `"a"`}},
		{`{"const":"x","enum":["x","y"],"type":"string"}`, []string{`"x"`}, []string{`"y"`}},
		{`{"const":{"a":1,"b":2},"enum":[{"b":2.0,"a":1}]}`, []string{`{"a":1,"b":2}`}, []string{`{"b":2.0,"a":1}`}},
		{`{"anyOf":[{"type":"null"},{"type":"array","items":{"$ref":"#"},"maxItems":2}]}`,
			[]string{`null`, `[[],[null]]`}, []string{`[1]`}},
		{`{"$defs":{"a/b~c":{"const":1}},"$ref":"#/$defs/a~1b~0c"}`, []string{`1`}, []string{`2`}},
		{`{"definitions":{"a b":{"const":1}},"$ref":"#/definitions/a%20b"}`, []string{`1`}, []string{`2`}},
		{`{"type":"string","pattern":"^a|b$"}`, []string{`"a"`, `"ax"`, `"b"`, `"xb"`}, []string{`"xa"`, `"bx"`, `""`}},
		{`{"type":"string","pattern":"^(?:cat|car)s?$|^dog$"}`, []string{`"cat"`, `"cars"`, `"dog"`},
			[]string{`"dogs"`, `"ca"`}},
		{`{"type":"string","pattern":"^[^\\S\\n]x.y$"}`, []string{`" xéy"`, `"\txzy"`},
			[]string{`"\nxzy"`, "\"\u00a0xzy\"", `" x\ny"`}},
		{`{"type":"string","pattern":"^\\u00e9[[]\\/\\-\\x41\\\\\"$"}`, []string{`"é[/-A\\\""`}, []string{`"é[/-A\""`}},
		{`{"type":"string","pattern":"^a{2,3}?b+?c*?$","maxLength":100}`, nil, nil},
		{`{"type":"string","pattern":"^(ab){2,}$","maxLength":9}`, []string{`"abab"`, `"abababab"`},
			[]string{`"ab"`, `"ababababab"`, `"ababa"`}},
		{`{"type":"string","pattern":"^(\\d{3}|x+)$","minLength":2,"maxLength":3}`, []string{`"123"`, `"xx"`, `"xxx"`},
			[]string{`"x"`, `"xxxx"`}},
		{`{"type":"string","pattern":"^x*$","minLength":3}`, []string{`"xxx"`, `"xxxx"`}, []string{`""`, `"xx"`}},
		{`{"type":"string","format":"date"}`, []string{`"2024-02-29"`, `"2000-02-29"`, `"1999-12-31"`},
			[]string{`"2023-02-29"`, `"2100-02-29"`, `"2024-04-31"`, `"2024-13-01"`, `"2024-00-10"`}},
		{`{"type":"string","format":"ipv4"}`, []string{`"0.0.0.0"`, `"255.249.199.10"`},
			[]string{`"256.1.1.1"`, `"1.1.1"`, `"01.1.1.1"`}},
		{`{"type":"string","format":"ipv6"}`, []string{`"::"`, `"::1"`, `"2001:db8::8a2e:370:7334"`,
			`"1:2:3:4:5:6:7:8"`, `"1::"`}, []string{`"1:2"`, `"1:2:3:4:5:6:7:8::"`, `":1"`, `"1::2::3"`}},
		{`{"type":"string","format":"time"}`, []string{`"23:59:59Z"`, `"00:00:00.5+01:00"`},
			[]string{`"24:00:00Z"`, `"12:00:00"`}},
		{`{"type":"string","format":"duration"}`, []string{`"P3D"`, `"PT5M"`, `"P1Y2M3DT4H5M6S"`, `"P2W"`},
			[]string{`"P"`, `"PT"`, `"P1DT"`, `"P1Y3D"`}},
		{`{"type":"string","format":"email"}`, []string{`"jane.doe+x@mail.example.org"`},
			[]string{`"jane"`, `"a@b"`, `"a..b@c.de"`, `"a@-b.de"`}},
		{`{"type":"string","format":"uuid","minLength":36}`, []string{`"123e4567-e89b-12d3-a456-426614174000"`},
			[]string{`"123e4567e89b12d3a456426614174000"`}},
	} {
		takes(t, c.schema, c.yes, c.no)
	}
}

// takes checks what the grammar of a schema takes and what not; yes is nil for a schema that is refused.
func takes(t *testing.T, schema string, yes, no []string) {
	t.Helper()
	source, err := FromSchema([]byte(schema))
	if yes == nil {
		if !errors.Is(err, ErrSchema) {
			t.Errorf("%s: %v", schema, err)
		}
		return
	}
	if err != nil {
		t.Errorf("%v: %s", err, schema)
		return
	}
	m, err := newMatcher(source)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range yes {
		if !strings.Contains(schema, `\\u`) { // the validator reads patterns in Go's notation
			if err := validate(validator(t, []byte(schema)), text); err != nil {
				t.Errorf("%s: %.60s is not valid: %v", schema, text, err)
			}
		}
		if !m.match(text) {
			t.Errorf("%s: %.60s is not matched\n%.2000s", schema, text, source)
		}
	}
	for _, text := range no {
		if m.match(text) {
			t.Errorf("%s: %.60s is matched\n%.2000s", schema, text, source)
		}
	}
}

// badSchemas are refused at a path, for a keyword, with a word of the reason.
func badSchemas() []struct{ schema, path, keyword, reason string } {
	deep := strings.Repeat(`{"items":`, 250) + "{}" + strings.Repeat("}", 250)
	return []struct{ schema, path, keyword, reason string }{
		{``, "", "", "line 1, column 1: not JSON"},
		{"{\n  \"type\": strin}", "", "", "line 2, column 11: not JSON"},
		{`{"type":"string"`, "", "", "column 17: not JSON"},
		{`{} {}`, "", "", "not JSON"},
		{"{\"a\":\"\xff\"}", "", "", "column 7: invalid UTF-8"},
		{`{"type":"string","type":"null"}`, "", "", `the key "type" is there twice`},
		{deep, "", "", "deeper than 200 levels"},
		{strings.Repeat(" ", maxSource) + "{}", "", "", "at most 1048576"},
		{`[]`, "", "", "a schema is an object"},
		{`false`, "", "", "nothing satisfies"},
		{`{"type":"objekt"}`, "", "type", `"objekt" is not one of`},
		{`{"type":[]}`, "", "type", "empty"},
		{`{"type":["null","null"]}`, "", "type", "twice"},
		{`{"type":3}`, "", "type", "3 is not one of"},
		{`{"allOf":[]}`, "", "allOf", "list of 1 to 5000 schemas"},
		{`{"oneOf":{}}`, "", "oneOf", "list of 1 to 5000 schemas"},
		{`{"not":{}}`, "", "not", "not supported"},
		{`{"if":{},"then":{}}`, "", "if", "not supported"},
		{`{"type":"object","patternProperties":{}}`, "", "patternProperties", "not supported"},
		{`{"type":"array","uniqueItems":true}`, "", "uniqueItems", "not supported"},
		{`{"type":"array","contains":{}}`, "", "contains", "not supported"},
		{`{"type":"object","properties":{"a/b":{"type":"string","minLenght":3}}}`, "/properties/a~1b", "minLenght",
			"not supported"},
		{`{"type":"object","properties":{"a":{"$id":"x"}}}`, "/properties/a", "$id", "only the whole document"},
		{`{"type":"object","properties":[]}`, "", "properties", "an object of at most 5000 schemas"},
		{`{"type":"object","properties":{"a":3}}`, "/properties/a", "", "a schema is an object"},
		{`{"type":"object","required":"a"}`, "", "required", "list of at most 5000 strings"},
		{`{"type":"object","required":[1]}`, "", "required", "not a string"},
		{`{"type":"object","required":["a","a"]}`, "", "required", "twice"},
		{`{"type":"object","properties":{"a":{}},"required":["b"],"additionalProperties":false}`, "", "required",
			`"b" is not among`},
		{`{"type":"object","additionalProperties":{"type":"string"}}`, "", "additionalProperties",
			"only true and false"},
		{`{"type":"integer","minLength":3}`, "", "minLength", "about type string, not integer"},
		{`{"type":"string","minLength":3,"maxLength":2}`, "", "minLength", "3 is above maxLength 2"},
		{`{"type":"string","minLength":-1}`, "", "minLength", "whole number"},
		{`{"type":"string","maxLength":1.5}`, "", "maxLength", "whole number"},
		{`{"type":"string","maxLength":1e9}`, "", "maxLength", "limit of 65536"},
		{`{"type":"string","format":"uri"}`, "", "format", `"uri" is not one of date-time`},
		{`{"type":"string","format":"uuid","maxLength":20}`, "", "format", "no text of 0 to 20 characters"},
		{`{"type":"string","format":"email","maxLength":20}`, "", "format", "bound the repetitions"},
		{`{"type":"string","format":"date","pattern":"x"}`, "", "format", "beside pattern"},
		{`{"type":"string","pattern":3}`, "", "pattern", "is a string"},
		{`{"type":"string","pattern":"a("}`, "", "pattern", "missing closing"},
		{`{"type":"string","pattern":"a(?=b)"}`, "", "pattern", "lookahead"},
		{`{"type":"string","pattern":"(?i)a"}`, "", "pattern", "(?i is not supported"},
		{`{"type":"string","pattern":"(a)\\1"}`, "", "pattern", "back reference \\1"},
		{`{"type":"string","pattern":"\\bfoo"}`, "", "pattern", "word boundary \\b"},
		{`{"type":"string","pattern":"\\Qa"}`, "", "pattern", "escape \\Q"},
		{`{"type":"string","pattern":"a^b"}`, "", "pattern", "only at the two ends"},
		{`{"type":"string","pattern":"^(a*b*)*$"}`, "", "pattern", "without limit"},
		{`{"type":"string","pattern":"^a{1001}$"}`, "", "pattern", "invalid repeat count"},
		{`{"type":"string","pattern":"[]"}`, "", "pattern", "at least one character"},
		{`{"type":"string","pattern":"^[a-z]+-[a-z]+$","maxLength":20}`, "", "pattern", "bound the repetitions"},
		{`{"type":"string","pattern":"^ab$","minLength":3}`, "", "pattern", "no text of at least 3"},
		{`{"type":"integer","minimum":2,"maximum":1}`, "", "minimum", "no integer is in the range"},
		{`{"type":"integer","exclusiveMinimum":1,"exclusiveMaximum":2}`, "", "exclusiveMinimum", "no integer"},
		{`{"type":"number","minimum":1,"exclusiveMaximum":1}`, "", "minimum", "no number"},
		{`{"type":"integer","minimum":1,"maximum":4,"multipleOf":5}`, "", "minimum", "no integer"},
		{`{"type":"number","minimum":"1"}`, "", "minimum", "not a number"},
		{`{"type":"number","exclusiveMinimum":true}`, "", "exclusiveMinimum", "not a number"},
		{`{"type":"number","minimum":1e99}`, "", "minimum", "exponent beyond 30"},
		{`{"type":"number","multipleOf":0.25}`, "", "multipleOf", "neither whole nor"},
		{`{"type":"integer","multipleOf":0}`, "", "multipleOf", "not above 0"},
		{`{"type":"integer","multipleOf":1009}`, "", "multipleOf", "the limit is"},
		{`{"type":"array","minItems":3,"maxItems":2}`, "", "minItems", "3 is above maxItems 2"},
		{`{"type":"array","prefixItems":[{}],"items":false,"minItems":2}`, "", "minItems", "above the 1 items"},
		{`{"type":"array","prefixItems":[]}`, "", "prefixItems", "list of 1 to"},
		{`{"type":"array","items":[{}]}`, "", "items", "prefixItems"},
		{`{"enum":[]}`, "", "enum", "list of 1 to 5000 values"},
		{`{"type":"string","enum":[1,2]}`, "", "enum", "no value is of type string"},
		{`{"const":1,"enum":[2]}`, "", "const", "1 is not in enum"},
		{`{"type":"string","enum":["a"],"minLength":1}`, "", "minLength", "beside enum"},
		{`{"anyOf":[]}`, "", "anyOf", "list of 1 to 5000 schemas"},
		{`{"$ref":"#/$defs/a"}`, "", "$ref", "leads to nothing"},
		{`{"$ref":"other.json"}`, "", "$ref", "does not point into this document"},
		{`{"$ref":"#anchor"}`, "", "$ref", "does not point into this document"},
		{`{"$ref":3}`, "", "$ref", "not a string"},
		{`{"$ref":"#","type":"string"}`, "", "", "lead back to it"},
		{`{"$ref":"#"}`, "", "", "no finite value"},
		{`{"anyOf":[{"$ref":"#"},{"type":"null"}]}`, "", "", "lead back to it"},
		{`{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"$ref":"#/properties/a"}},"required":["b"]}},"required":["a"]}`,
			"/properties/a", "", "no finite value"},
		{fmt.Sprintf(`{"type":"object","properties":{"a":{"enum":[%s1]}}}`, strings.Repeat(`"0123456789",`, 90000)), "",
			"", "at most"},
		{fmt.Sprintf(`{"enum":[%s1]}`, strings.Repeat(`"0",`, 5000)), "", "enum", "list of 1 to 5000 values"},
	}
}

func TestSchemasAreRefusedByName(t *testing.T) {
	for _, c := range badSchemas() {
		_, err := FromSchema([]byte(c.schema))
		e, ok := errors.AsType[*SchemaError](err)
		if !ok || !errors.Is(err, ErrSchema) {
			t.Errorf("%.80q: %v", c.schema, err)
			continue
		}
		if e.Path != c.path || e.Keyword != c.keyword || !strings.Contains(e.Reason, c.reason) {
			t.Errorf("%.80q: %v; want path %q, keyword %q, %q", c.schema, err, c.path, c.keyword, c.reason)
		}
	}
}

// FuzzFromSchema looks for panics, for grammars that Check refuses, and for texts that are not JSON.
func FuzzFromSchema(f *testing.F) {
	for _, schema := range schemaFiles(f) {
		f.Add(string(schema))
	}
	for _, c := range badSchemas() {
		if len(c.schema) < 300 {
			f.Add(c.schema)
		}
	}
	f.Fuzz(func(t *testing.T, schema string) {
		if len(schema) > 3000 {
			return
		}
		source, err := FromSchema([]byte(schema))
		if err != nil {
			if e, ok := errors.AsType[*SchemaError](err); !ok || e.Reason == "" {
				t.Fatalf("%#v", err)
			}
			return
		}
		if len(source) > 50000 {
			return
		}
		m, err := newMatcher(source)
		if err != nil {
			t.Fatalf("%v\n%s", err, source)
		}
		if len(m.rules) > 5000 {
			return
		}
		text := m.derive(newRand(schema), 200)
		if _, err := decode([]byte(text)); err != nil && !strings.Contains(err.Error(), "there twice") &&
			!strings.Contains(err.Error(), "deeper") {
			t.Fatalf("%s derives %s: %v", schema, text, err)
		}
	})
}
