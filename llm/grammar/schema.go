package grammar

import (
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strings"
)

const (
	// maxCount bounds minLength, maxLength, minItems and maxItems: llama.cpp writes out what is repeated.
	maxCount = 1 << 16
	// maxList bounds the values, alternatives and properties that one schema lists.
	maxList = 5000
	// maxWork bounds the comparisons that join schemas.
	maxWork = 1 << 22
)

// FromSchema returns the grammar of the JSON values that a JSON Schema accepts; see the package comment for what a
// schema may hold. The result passes Check. Errors are *SchemaError, which unwraps to ErrSchema.
func FromSchema(schema []byte) (source string, err error) {
	doc, err := decode(schema)
	if err != nil {
		return "", err
	}
	defer caught[*SchemaError](&err)
	c := newCompiler()
	c.doc = doc
	root := c.reserve("root", "")
	c.body[root] = c.named(doc, "", "value")
	source = c.String()
	_, err = check(source)
	syntax, refused := errors.AsType[*SyntaxError](err)
	if !refused {
		return source, nil
	}
	reason := "its grammar is refused: " + syntax.Reason
	switch {
	case strings.HasPrefix(syntax.Reason, neverEnds):
		reason = "no finite value satisfies it: what it requires refers back to it"
	case strings.HasPrefix(syntax.Reason, leftRecursion):
		reason = "its references lead back to it with nothing around it"
	}
	return "", &SchemaError{Path: c.path[syntax.Rule], Reason: reason}
}

// compiler turns schemas of one document into rules. It panics with a *SchemaError, which FromSchema and FromCalls
// recover.
type compiler struct {
	*builder
	doc    *value
	names  map[*value]string // rules of schemas that have one already
	digits map[[3]int]state  // the rules that digitRange has written

	// of schemas that apply together
	where  map[*value]string    // paths of parts and of the schemas in them
	splits map[*value][]*value  // what split returned
	pairs  map[[2]*value]*value // what allOf returned
	spent  int
}

func newCompiler() *compiler {
	return &compiler{builder: newBuilder(), names: map[*value]string{}, digits: map[[3]int]state{},
		where: map[*value]string{}, splits: map[*value][]*value{}, pairs: map[[2]*value]*value{}}
}

// annotations are the keywords that do not constrain values.
var annotations = []string{"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly",
	"$comment", "$schema", "$id", "$defs", "definitions", "discriminator"}

// types are the types of JSON Schema.
var types = []string{"object", "array", "string", "number", "integer", "boolean", "null"}

// typesOf returns the types whose values a keyword constrains.
func typesOf(keyword string) []string {
	switch keyword {
	case "minLength", "maxLength", "pattern", "format":
		return []string{"string"}
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		return []string{"number", "integer"}
	case "properties", "required", "additionalProperties":
		return []string{"object"}
	case "items", "prefixItems", "minItems", "maxItems":
		return []string{"array"}
	}
	return nil
}

// hint says what a user may write instead of a keyword that is refused.
func hint(keyword string) string {
	switch keyword {
	case "nullable":
		return "; use a type list such as [\"string\", \"null\"]"
	case "patternProperties", "minProperties", "maxProperties", "propertyNames":
		return "; declare the properties"
	}
	return ""
}

func (c *compiler) fail(path, keyword, format string, args ...any) {
	panic(&SchemaError{Path: path, Keyword: keyword, Reason: fmt.Sprintf(format, args...)})
}

// takesAll reports whether a schema accepts every value. It refuses the schema false, and values that are not schemas.
func (c *compiler) takesAll(s *value, path string) bool {
	switch {
	case s.kind == 'f':
		c.fail(path, "", "nothing satisfies the schema false")
	case s.kind != '{' && s.kind != 't':
		c.fail(path, "", "a schema is an object, true or false, not %s", s.encode())
	}
	return s.isTrue()
}

// named returns the rule of a schema, compiling it when it has none yet.
func (c *compiler) named(s *value, path, hint string) string {
	if name, ok := c.names[s]; ok {
		return name
	}
	if at, ok := c.where[s]; ok {
		path = at
	}
	if c.takesAll(s, path) {
		return c.any()
	}
	name := c.reserve(hint, path)
	c.names[s] = name
	c.body[name] = c.schema(s, path, name)
	return name
}

func (c *compiler) schema(s *value, path, name string) string {
	if composed(s) {
		s = c.joined(s, path)
		if at, ok := c.where[s]; ok || s.kind != '{' { // it consists of one part
			return c.named(s, at, name)
		}
	}
	for _, whole := range []struct {
		keyword string
		compile func(s *value, path, name string) string
		beside  []string
	}{
		{"$ref", c.reference, nil},
		{"anyOf", c.union, nil},
		{"oneOf", c.union, nil},
		{"const", c.constants, []string{"type", "enum"}},
		{"enum", c.constants, []string{"type"}},
	} {
		if s.get(whole.keyword) == nil {
			continue
		}
		for _, k := range s.keys {
			if k != whole.keyword && !slices.Contains(annotations, k) && !slices.Contains(whole.beside, k) {
				c.fail(path, k, "it is not supported beside %s", whole.keyword)
			}
		}
		return whole.compile(s, path, name)
	}
	kinds := c.types(s, path)
	if kinds == nil {
		return c.any()
	}
	var alts []string
	for _, typ := range kinds {
		alts = append(alts, c.typed(typ, s, path, name))
	}
	return strings.Join(alts, " | ")
}

// types returns the types of a schema's values: the ones that it names, or that its keywords are about; nil is any.
// Every keyword must be known and be about one of them.
func (c *compiler) types(s *value, path string) []string {
	kinds := c.declared(s, path)
	implied := kinds == nil
	for _, k := range s.keys {
		about := typesOf(k)
		switch {
		case k == "$id" && path != "":
			c.fail(path, k, "only the whole document may have one")
		case k == "type" || slices.Contains(annotations, k):
		case about == nil:
			c.fail(path, k, "it is not supported%s", hint(k))
		case implied && !slices.Contains(kinds, about[0]):
			kinds = append(kinds, about[0])
		case !implied && !intersect(about, kinds):
			c.fail(path, k, "it is about type %s, not %s", strings.Join(about, " or "), strings.Join(kinds, " or "))
		}
	}
	return kinds
}

func intersect(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// declared returns what the keyword type names; number includes integer.
func (c *compiler) declared(s *value, path string) []string {
	t := s.get("type")
	if t == nil {
		return nil
	}
	list := []*value{t}
	if t.kind == '[' {
		list = t.values
	}
	var kinds []string
	for _, v := range list {
		switch {
		case v.kind != '"' || !slices.Contains(types, v.text):
			c.fail(path, "type", "%s is not one of %s", v.encode(), strings.Join(types, ", "))
		case slices.Contains(kinds, v.text):
			c.fail(path, "type", "%s is there twice", v.encode())
		}
		kinds = append(kinds, v.text)
	}
	if len(kinds) == 0 {
		c.fail(path, "type", "the list is empty")
	}
	if slices.Contains(kinds, "number") {
		kinds = slices.DeleteFunc(kinds, func(k string) bool { return k == "integer" })
	}
	return kinds
}

func (c *compiler) typed(typ string, s *value, path, name string) string {
	switch typ {
	case "object":
		return c.object(s, path)
	case "array":
		return c.array(s, path, name)
	case "string":
		return c.text(s, path)
	case "integer", "number":
		return c.number(typ, s, path)
	case "boolean":
		return `"true" | "false"`
	}
	return `"null"`
}

// reference compiles what $ref points at: "#" or a JSON pointer after it.
func (c *compiler) reference(s *value, path, _ string) string {
	target, at := c.target(s.get("$ref"), path)
	return c.named(target, at, at[strings.LastIndexByte(at, '/')+1:])
}

// target returns what a reference points at, and its path.
func (c *compiler) target(ref *value, path string) (target *value, at string) {
	if ref.kind != '"' {
		c.fail(path, "$ref", "%s is not a string", ref.encode())
	}
	at, ok := strings.CutPrefix(ref.text, "#")
	if !ok || at != "" && at[0] != '/' {
		c.fail(path, "$ref", "%q does not point into this document; references begin with #/", ref.text)
	}
	at, err := url.PathUnescape(at)
	if err != nil {
		c.fail(path, "$ref", "%q: %v", ref.text, err)
	}
	if target = c.doc.pointer(at); target == nil {
		c.fail(path, "$ref", "%q leads to nothing", ref.text)
	}
	return target, at
}

// union compiles anyOf and oneOf: one of the alternatives. A value that satisfies two of them, which oneOf excludes, is
// admitted.
func (c *compiler) union(s *value, path, name string) string {
	keyword, list := "anyOf", s.get("anyOf")
	if list == nil {
		keyword, list = "oneOf", s.get("oneOf")
	}
	c.schemas(list, path, keyword)
	var alts []string
	for i, v := range list.values {
		alt := c.named(v, fmt.Sprintf("%s/%s/%d", path, keyword, i), name)
		if !slices.Contains(alts, alt) {
			alts = append(alts, alt)
		}
	}
	return strings.Join(alts, " | ")
}

func (c *compiler) constants(s *value, path, _ string) string {
	kinds := c.declared(s, path)
	keyword, list := "enum", s.get("enum")
	if list != nil && (list.kind != '[' || len(list.values) == 0 || len(list.values) > maxList) {
		c.fail(path, keyword, "it is a list of 1 to %d values", maxList)
	}
	if v := s.get("const"); v != nil {
		if list != nil && !contains(list, v) {
			c.fail(path, "const", "%s is not in enum", v.encode())
		}
		keyword, list = "const", &value{values: []*value{v}}
	}
	var alts []string
	for _, v := range list.values {
		if kinds != nil && !slices.ContainsFunc(kinds, func(typ string) bool { return isType(v, typ) }) {
			continue
		}
		if v.kind == '0' {
			if _, err := rational(v); err != nil {
				c.fail(path, keyword, "%v", err)
			}
		}
		if alt := literal(v.encode()); !slices.Contains(alts, alt) {
			alts = append(alts, alt)
		}
	}
	if len(alts) == 0 {
		c.fail(path, keyword, "no value is of type %s", strings.Join(kinds, " or "))
	}
	return strings.Join(alts, " | ")
}

func isType(v *value, typ string) bool {
	switch v.kind {
	case '{':
		return typ == "object"
	case '[':
		return typ == "array"
	case '"':
		return typ == "string"
	case '0':
		r, err := rational(v)
		return typ == "number" || typ == "integer" && err == nil && r.IsInt()
	case 'n':
		return typ == "null"
	}
	return typ == "boolean"
}

// equal compares as JSON Schema does: numbers by value, objects in any order.
func equal(a, b *value) bool {
	if a.kind != b.kind || len(a.values) != len(b.values) {
		return false
	}
	if a.kind == '0' {
		x, errX := rational(a)
		y, errY := rational(b)
		return errX == nil && errY == nil && x.Cmp(y) == 0
	}
	for i, v := range a.values {
		w := b.values[i]
		if a.kind == '{' {
			if w = b.get(a.keys[i]); w == nil {
				return false
			}
		}
		if !equal(v, w) {
			return false
		}
	}
	return a.text == b.text
}

// count reads a keyword that is a whole number between 0 and maxCount; otherwise is returned without it.
func (c *compiler) count(s *value, path, keyword string, otherwise int) int {
	v := s.get(keyword)
	if v == nil {
		return otherwise
	}
	r, err := rational(v)
	switch {
	case err != nil || !r.IsInt() || r.Sign() < 0:
		c.fail(path, keyword, "%s is not a whole number from 0", v.encode())
	case r.Cmp(big.NewRat(maxCount, 1)) > 0:
		c.fail(path, keyword, "%s is above the limit of %d", v.text, maxCount)
	}
	return int(r.Num().Int64())
}

func (c *compiler) counts(s *value, path, lower, upper string) (lo, hi int) {
	lo, hi = c.count(s, path, lower, 0), c.count(s, path, upper, unlimited)
	if lo > hi {
		c.fail(path, lower, "%d is above %s %d", lo, upper, hi)
	}
	return lo, hi
}
