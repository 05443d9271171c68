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
func FromSchema(schema []byte) (string, error) {
	doc, err := decode(schema)
	if err != nil {
		return "", err
	}
	c := newCompiler()
	c.doc = doc
	root := c.reserve("root", "")
	if c.body[root], err = c.named(doc, "", "value"); err != nil {
		return "", err
	}
	source := c.String()
	if _, err = check(source); err == nil {
		return source, nil
	}
	syntax, ok := errors.AsType[*SyntaxError](err)
	if !ok {
		return "", err
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

// compiler turns schemas of one document into rules.
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

// types returns the types of JSON Schema.
func types() []string {
	return []string{"object", "array", "string", "number", "integer", "boolean", "null"}
}

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

func (c *compiler) errorf(path, keyword, format string, args ...any) error {
	return &SchemaError{Path: path, Keyword: keyword, Reason: fmt.Sprintf(format, args...)}
}

// named returns the rule of a schema, compiling it when it has none yet.
func (c *compiler) named(s *value, path, hint string) (string, error) {
	if name, ok := c.names[s]; ok {
		return name, nil
	}
	if at, ok := c.where[s]; ok {
		path = at
	}
	switch {
	case s.kind == 't' || s.kind == '{' && len(s.keys) == 0:
		return c.any(), nil
	case s.kind == 'f':
		return "", c.errorf(path, "", "nothing satisfies the schema false")
	case s.kind != '{':
		return "", c.errorf(path, "", "a schema is an object, true or false, not %s", s.encode())
	}
	name := c.reserve(hint, path)
	c.names[s] = name
	body, err := c.schema(s, path, name)
	c.body[name] = body
	return name, err
}

// schema returns the body of a schema's rule.
func (c *compiler) schema(s *value, path, name string) (string, error) {
	if composed(s) {
		return c.together(s, path, name)
	}
	for _, whole := range []struct {
		keyword string
		compile func(s *value, path, name string) (string, error)
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
				return "", c.errorf(path, k, "it is not supported beside %s", whole.keyword)
			}
		}
		return whole.compile(s, path, name)
	}
	kinds, err := c.types(s, path)
	if err != nil {
		return "", err
	}
	if kinds == nil {
		return c.any(), nil
	}
	var alts []string
	for _, typ := range kinds {
		body, err := c.typed(typ, s, path, name)
		if err != nil {
			return "", err
		}
		alts = append(alts, body)
	}
	return strings.Join(alts, " | "), nil
}

// types returns the types of a schema's values: the ones that it names, or that its keywords are about; nil is any.
// Every keyword must be known and be about one of them.
func (c *compiler) types(s *value, path string) ([]string, error) {
	kinds, err := c.declared(s, path)
	if err != nil {
		return nil, err
	}
	implied := kinds == nil
	for _, k := range s.keys {
		if k == "type" || slices.Contains(annotations, k) {
			if k == "$id" && path != "" {
				return nil, c.errorf(path, k, "only the whole document may have one")
			}
			continue
		}
		about := typesOf(k)
		switch {
		case about == nil:
			return nil, c.errorf(path, k, "it is not supported%s", hint(k))
		case implied && !slices.Contains(kinds, about[0]):
			kinds = append(kinds, about[0])
		case !implied && !intersect(about, kinds):
			return nil, c.errorf(path, k, "it is about type %s, not %s",
				strings.Join(about, " or "), strings.Join(kinds, " or "))
		}
	}
	return kinds, nil
}

func intersect(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// declared returns what the keyword type names; number includes integer.
func (c *compiler) declared(s *value, path string) ([]string, error) {
	t := s.get("type")
	if t == nil {
		return nil, nil
	}
	list := []*value{t}
	if t.kind == '[' {
		list = t.values
	}
	var kinds []string
	for _, v := range list {
		switch {
		case v.kind != '"' || !slices.Contains(types(), v.text):
			return nil, c.errorf(path, "type", "%s is not one of %s", v.encode(), strings.Join(types(), ", "))
		case slices.Contains(kinds, v.text):
			return nil, c.errorf(path, "type", "%s is there twice", v.encode())
		}
		kinds = append(kinds, v.text)
	}
	if len(kinds) == 0 {
		return nil, c.errorf(path, "type", "the list is empty")
	}
	if slices.Contains(kinds, "number") {
		kinds = slices.DeleteFunc(kinds, func(k string) bool { return k == "integer" })
	}
	return kinds, nil
}

func (c *compiler) typed(typ string, s *value, path, name string) (string, error) {
	switch typ {
	case "object":
		return c.object(s, path, name)
	case "array":
		return c.array(s, path, name)
	case "string":
		return c.text(s, path, name)
	case "integer", "number":
		return c.number(typ, s, path, name)
	case "boolean":
		return `"true" | "false"`, nil
	}
	return `"null"`, nil
}

// reference compiles what $ref points at: "#" or a JSON pointer after it.
func (c *compiler) reference(s *value, path, _ string) (string, error) {
	target, at, err := c.target(s.get("$ref"), path)
	if err != nil {
		return "", err
	}
	return c.named(target, at, at[strings.LastIndexByte(at, '/')+1:])
}

// target returns what a reference points at, and its path.
func (c *compiler) target(ref *value, path string) (_ *value, at string, err error) {
	if ref.kind != '"' {
		return nil, "", c.errorf(path, "$ref", "%s is not a string", ref.encode())
	}
	at, ok := strings.CutPrefix(ref.text, "#")
	if !ok || at != "" && at[0] != '/' {
		return nil, "", c.errorf(path, "$ref", "%q does not point into this document; references begin with #/",
			ref.text)
	}
	at, err = url.PathUnescape(at)
	if err != nil {
		return nil, "", c.errorf(path, "$ref", "%q: %v", ref.text, err)
	}
	target := c.doc.pointer(at)
	if target == nil {
		return nil, "", c.errorf(path, "$ref", "%q leads to nothing", ref.text)
	}
	return target, at, nil
}

// union compiles anyOf and oneOf: one of the alternatives. A value that satisfies two of them, which oneOf excludes, is
// admitted.
func (c *compiler) union(s *value, path, name string) (string, error) {
	keyword, list := "anyOf", s.get("anyOf")
	if list == nil {
		keyword, list = "oneOf", s.get("oneOf")
	}
	if err := c.schemas(list, path, keyword); err != nil {
		return "", err
	}
	var alts []string
	for i, v := range list.values {
		alt, err := c.named(v, fmt.Sprintf("%s/%s/%d", path, keyword, i), name)
		if err != nil {
			return "", err
		}
		if !slices.Contains(alts, alt) {
			alts = append(alts, alt)
		}
	}
	return strings.Join(alts, " | "), nil
}

// constants compiles enum and const.
func (c *compiler) constants(s *value, path, _ string) (string, error) {
	kinds, err := c.declared(s, path)
	if err != nil {
		return "", err
	}
	keyword, list := "enum", s.get("enum")
	if list != nil && (list.kind != '[' || len(list.values) == 0 || len(list.values) > maxList) {
		return "", c.errorf(path, keyword, "it is a list of 1 to %d values", maxList)
	}
	if v := s.get("const"); v != nil {
		if list != nil && !contains(list, v) {
			return "", c.errorf(path, "const", "%s is not in enum", v.encode())
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
				return "", c.errorf(path, keyword, "%v", err)
			}
		}
		if alt := literal(v.encode()); !slices.Contains(alts, alt) {
			alts = append(alts, alt)
		}
	}
	if len(alts) == 0 {
		return "", c.errorf(path, keyword, "no value is of type %s", strings.Join(kinds, " or "))
	}
	return strings.Join(alts, " | "), nil
}

// isType reports whether a value is of a JSON Schema type.
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
func (c *compiler) count(s *value, path, keyword string, otherwise int) (int, error) {
	v := s.get(keyword)
	if v == nil {
		return otherwise, nil
	}
	if v.kind == '0' {
		r, err := rational(v)
		switch {
		case err == nil && r.IsInt() && r.Sign() >= 0 && r.Cmp(big.NewRat(maxCount, 1)) <= 0:
			return int(r.Num().Int64()), nil
		case err == nil && r.IsInt() && r.Sign() > 0:
			return 0, c.errorf(path, keyword, "%s is above the limit of %d", v.text, maxCount)
		}
	}
	return 0, c.errorf(path, keyword, "%s is not a whole number from 0", v.encode())
}

// counts reads a pair of bounds.
func (c *compiler) counts(s *value, path, lower, upper string) (lo, hi int, err error) {
	if lo, err = c.count(s, path, lower, 0); err != nil {
		return 0, 0, err
	}
	if hi, err = c.count(s, path, upper, unlimited); err != nil {
		return 0, 0, err
	}
	if hi != unlimited && lo > hi {
		return 0, 0, c.errorf(path, lower, "%d is above %s %d", lo, upper, hi)
	}
	return lo, hi, nil
}
