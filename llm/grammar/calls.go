package grammar

import (
	"fmt"
	"slices"
	"strings"
)

// ID stands in a Format for the identifier of a call.
const ID = '\x01'

const (
	idRule   = "[a-zA-Z0-9]{9}"
	maxCalls = 16 // of a completion

	maxReferences = 16 // from one to the next
)

// Function is a function that a completion may call.
type Function struct {
	Name   string
	Schema []byte // JSON Schema of the arguments; empty: no arguments
}

// Format says how a model writes calls: First NAME Middle ARGUMENTS (Next NAME Middle ARGUMENTS)* Last. Arguments are a
// JSON object, or one parameter after the other if Parameters is set.
type Format struct {
	Parameters                *Parameters
	Headers                   *Headers
	Trigger                   string // the beginning of First that is always followed by a call
	AtStart                   bool   // the trigger counts at the beginning of a completion only
	First, Middle, Next, Last string // Next is empty if there can be only one call; runes ID are identifiers
}

// Parameters says how arguments are written one by one: Begin NAME Middle VALUE End, and Between from one to the next.
// A value is plain text where the schema asks for a string, else JSON. With Quote, plain text stands between two of
// them, or is a JSON string.
type Parameters struct {
	Begin, Middle, End string
	Between, Quote     string
}

// Headers are set where each part of a completion has a header, as in Harmony, the format of gpt-oss. A call then
// begins with the First and goes on behind its name with the Middle of Format or of Headers. Trigger is not used.
type Headers struct {
	Answer        string // the header of an answer
	First, Middle string
}

// FromCalls returns the grammar of completions that call functions: with must only calls, else any text without the
// trigger and perhaps calls after it. Errors are *SchemaError whose Path begins with the function's name.
func FromCalls(f Format, functions []Function, must bool) (source string, err error) {
	defer caught[*SchemaError](&err)
	c := newCompiler()
	root := c.reserve("root", "")
	call := c.reserve("call", "")
	alts := make([]string, len(functions))
	for i, fn := range functions {
		var schema *value
		if len(fn.Schema) > 0 {
			if schema, err = decode(fn.Schema); err != nil {
				return "", fmt.Errorf("function %q: %w", fn.Name, err)
			}
		}
		middle := text(f.Middle)
		if f.Headers != nil {
			middle = choice(middle, text(f.Headers.Middle))
		}
		alts[i] = join(literal(fn.Name), middle, c.arguments(schema, "/"+fn.Name, f.Parameters))
	}
	c.body[call] = strings.Join(alts, " | ")
	calls := join(call, text(f.Last))
	if f.Next != "" {
		more := c.add("more", "", join(text(f.Next), call))
		calls = join(call, fmt.Sprintf("%s{0,%d}", more, maxCalls-1), text(f.Last))
	}
	first := strings.TrimLeft(f.First, " \n")
	switch {
	case f.Headers != nil:
		c.body[root] = join(choice(text(f.First), text(f.Headers.First)), calls)
		if !must {
			c.body[root] += " | " + join(literal(f.Headers.Answer), every().write()+"*")
		}
	case must:
		c.body[root] = join(text(first), calls)
	default:
		tail := c.add("calls", "", join(text(strings.TrimPrefix(first, f.Trigger)), calls))
		c.body[root] = c.until([]rune(f.Trigger), f.AtStart, true, tail)
	}
	source = c.String()
	if err := Check(source); err != nil {
		return "", fmt.Errorf("grammar: of the functions: %w", err)
	}
	return source, nil
}

func text(s string) string {
	var parts []string
	for i, fixed := range strings.Split(s, string(ID)) {
		if i > 0 {
			parts = append(parts, idRule)
		}
		if fixed != "" {
			parts = append(parts, literal(fixed))
		}
	}
	return join(parts...)
}

// arguments returns the rule of a function's arguments: an object, even if the schema doc allows other types. nil: the
// function has no arguments.
func (c *compiler) arguments(doc *value, path string, p *Parameters) string {
	none := literal("{}")
	if p != nil {
		none = ""
	}
	if doc == nil {
		return none
	}
	if doc.kind != '{' {
		c.fail(path, "", "the schema of a function's arguments is an object, not %s", doc.encode())
	}
	if typ := doc.get("type"); typ != nil && (typ.kind != '"' || typ.text != "object") {
		c.fail(path, "type", "arguments are an object, not %s", typ.encode())
	}
	if c.doc = doc; composed(doc) {
		if doc = c.joined(doc, path); doc.kind != '{' {
			doc = &value{kind: '{'}
		}
		if doc.get("anyOf") != nil && p != nil {
			c.fail(path, "", "arguments that are written one by one have one schema, not alternatives")
		}
	}
	properties := doc.get("properties")
	open := doc.get("additionalProperties")
	switch {
	case p != nil:
		return c.parameters(doc, path, p)
	case properties != nil && properties.kind == '{' && len(properties.keys) == 0 && (open == nil || open.kind != 't'),
		properties == nil && open != nil && open.kind == 'f':
		return none
	case doc.get("type") == nil && (properties != nil || len(doc.keys) == 0):
		doc.set("type", &value{kind: '"', text: "object"})
	}
	return c.named(doc, path, "arguments")
}

// parameters returns the rules of arguments that are written one by one, in the schema's order.
func (c *compiler) parameters(doc *value, path string, p *Parameters) string {
	properties := doc.get("properties")
	if properties == nil {
		return ""
	}
	if properties.kind != '{' || len(properties.keys) > maxList {
		c.fail(path, "properties", "it is an object of at most %d schemas", maxList)
	}
	required := map[string]bool{}
	if list := doc.get("required"); list != nil {
		for _, name := range list.values {
			required[name.text] = true
		}
	}
	// The rules of the parameters from one on: where it is the first that is written, and where others were.
	first, later := literal(""), literal("")
	for i, name := range slices.Backward(properties.keys) {
		s := properties.values[i]
		if strings.Contains(name, p.Middle) {
			c.fail(path+"/properties/"+name, "", "its name holds %q, which ends names", p.Middle)
		}
		body := ""
		switch values, plain := c.texts(s); {
		case values != nil:
			for j, v := range values {
				values[j] = literal(p.Quote + v + p.Quote + p.End)
			}
			body = choice(values...)
		case plain && p.Quote == "":
			body = c.until([]rune(p.End), false, false, "")
		default:
			rule := c.named(s, path+"/properties/"+name, "parameter")
			if plain {
				rule = choice(join(literal(p.Quote), c.until([]rune(p.Quote), false, false, "")), rule)
			}
			body = join(rule, literal(p.End))
		}
		item := c.add("parameter", path+"/properties/"+name, join(literal(p.Begin+name+p.Middle), body))
		one, more := join(item, later), join(text(p.Between), item, later)
		if !required[name] {
			one, more = choice(one, first), choice(more, later)
		}
		if first = c.add("parameters", "", one); p.Between == "" {
			later = first
			continue
		}
		later = c.add("parameters", "", more)
	}
	return first
}

// texts reports whether a schema asks for a string, and returns the allowed strings if it lists them.
func (c *compiler) texts(s *value) (values []string, text bool) {
	for range maxReferences {
		if composed(s) {
			return nil, false
		}
		ref := s.get("$ref")
		if s.kind != '{' || ref == nil || !strings.HasPrefix(ref.text, "#/") {
			break
		}
		if s = c.doc.pointer(ref.text[1:]); s == nil {
			return nil, false // named says so
		}
	}
	if list := s.get("enum"); list != nil && list.kind == '[' {
		for _, v := range list.values {
			if v.kind != '"' {
				return nil, false
			}
			values = append(values, v.text)
		}
		return values, true
	}
	typ := s.get("type")
	return nil, typ != nil && typ.kind == '"' && typ.text == "string"
}

// TextParameters reports for each property of a schema whether it is a string, which Parameters write as plain text.
func TextParameters(schema []byte) (text map[string]bool) {
	doc, err := decode(schema)
	if err != nil {
		return nil
	}
	defer caught[*SchemaError](&err) // nil then; FromCalls says why
	c := newCompiler()
	if c.doc = doc; composed(doc) { // as arguments does
		doc = c.joined(doc, "")
	}
	text = map[string]bool{}
	if properties := doc.get("properties"); properties != nil && properties.kind == '{' {
		for i, name := range properties.keys {
			_, text[name] = c.texts(properties.values[i])
		}
	}
	return text
}

// until returns the rule of any text up to and with a word, followed by the rule then; with atStart the word counts at
// the beginning only. With mayEnd the text may end without the word. The states follow Knuth, Morris and Pratt, so that
// a text can be read in one way only.
func (c *compiler) until(word []rune, atStart, mayEnd bool, then string) string {
	states := make([]string, len(word))
	for i := range states {
		states[i] = c.reserve("text", "")
	}
	any := ""
	if atStart {
		any = c.add("any", "", every().write()+"*")
	}
	for i := range word {
		var alts []string
		if mayEnd {
			alts = []string{`""`}
		}
		if i+1 < len(word) {
			alts = append(alts, join(literal(string(word[i])), states[i+1]))
		} else {
			alts = append(alts, join(literal(string(word[i])), then))
		}
		if atStart {
			alts = append(alts, join(set{{word[i], word[i]}}.not().write(), any))
			c.body[states[i]] = strings.Join(alts, " | ")
			continue
		}
		seen := [][2]rune{{word[i], word[i]}}
		for _, r := range word[:i] {
			next := overlap(append(slices.Clone(word[:i]), r), word)
			if next > 0 && !slices.Contains(seen, [2]rune{r, r}) {
				seen = append(seen, [2]rune{r, r})
				alts = append(alts, join(literal(string(r)), states[next]))
			}
		}
		alts = append(alts, join(newSet(seen).not().write(), states[0]))
		c.body[states[i]] = strings.Join(alts, " | ")
	}
	return states[0]
}

// overlap returns the length of the longest end of text that begins word and is shorter than it.
func overlap(text, word []rune) int {
	for n := min(len(text), len(word)-1); n > 0; n-- {
		if slices.Equal(text[len(text)-n:], word[:n]) {
			return n
		}
	}
	return 0
}
