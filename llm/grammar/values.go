package grammar

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// space returns the single optional blank behind a colon or a comma.
func (c *compiler) space() string { return c.shared("space", `" "?`) }

// next returns the rule of a list item behind a comma.
func (c *compiler) next(item string) string { return fmt.Sprintf(`"," %s %s`, c.space(), item) }

// char is any character of a JSON string: as it is, or escaped; surrogates only in pairs.
func (c *compiler) char() string {
	hex := c.shared("hex", "[0-9a-fA-F]")
	unit := fmt.Sprintf(`[0-9a-cA-CefEF] %[1]s{3} | [dD] ([0-7] %[1]s{2} | [89abAB] %[1]s{2} "\\u" [dD] [c-fC-F] %[1]s{2})`, hex)
	escape := c.shared("escape", `["\\/bfnrt] | "u" (`+unit+")")
	return c.shared("char", raw().write()+` | "\\" `+escape)
}

// raw returns the characters that a JSON string holds without an escape.
func raw() set { return set{{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0xD7FF}, {0xE000, 0x10FFFF}} }

func (c *compiler) anyString() string { return c.shared("string", `"\"" `+c.char()+`* "\""`) }

func (c *compiler) anyNumber() string {
	return c.shared("number", `"-"? ("0" | [1-9] [0-9]{0,14}) ("." [0-9]{1,15})? ([eE] [-+]? [0-9]{1,2})?`)
}

// any is any JSON value.
func (c *compiler) any() string {
	return c.shared("any", strings.Join([]string{c.anyObject(), c.anyArray(), c.anyString(), c.anyNumber(),
		`"true"`, `"false"`, `"null"`}, " | "))
}

func (c *compiler) anyObject() string {
	member := c.shared("member", fmt.Sprintf(`%s ":" %s json-any`, c.anyString(), c.space()))
	return c.shared("object", fmt.Sprintf(`"{" (%[1]s ("," %[2]s %[1]s)*)? "}"`, member, c.space()))
}

func (c *compiler) anyArray() string {
	return c.shared("array", fmt.Sprintf(`"[" (json-any ("," %s json-any)*)? "]"`, c.space()))
}

// property is a member that an object may or must have.
type property struct {
	text     string // "key": value
	required bool
}

func (c *compiler) object(s *value, path string) string {
	open := true
	if v := s.get("additionalProperties"); v != nil {
		if v.kind != 'f' && !v.isTrue() {
			c.fail(path, "additionalProperties", "only true and false are supported")
		}
		open = v.kind != 'f'
	}
	list := c.properties(s, path, open)
	switch {
	case len(list) > 0:
		return c.members(list, path)
	case open:
		c.any()
		return c.anyObject()
	}
	return `"{}"`
}

// properties reads properties and required; an open object may require undeclared ones.
func (c *compiler) properties(s *value, path string, open bool) []property {
	declared := s.get("properties")
	if declared == nil {
		declared = &value{kind: '{'}
	}
	if declared.kind != '{' || len(declared.keys) > maxList {
		c.fail(path, "properties", "it is an object of at most %d schemas", maxList)
	}
	keys, schemas, required := slices.Clone(declared.keys), slices.Clone(declared.values), map[string]bool{}
	if v := s.get("required"); v != nil {
		if v.kind != '[' || len(v.values) > maxList {
			c.fail(path, "required", "it is a list of at most %d strings", maxList)
		}
		for _, e := range v.values {
			switch {
			case e.kind != '"':
				c.fail(path, "required", "%s is not a string", e.encode())
			case required[e.text]:
				c.fail(path, "required", "%q is there twice", e.text)
			case !slices.Contains(keys, e.text) && !open:
				c.fail(path, "required", "%q is not among the properties, and additionalProperties is false", e.text)
			case !slices.Contains(keys, e.text):
				keys, schemas = append(keys, e.text), append(schemas, &value{kind: 't', text: "true"})
			}
			required[e.text] = true
		}
	}
	var list []property
	for i, key := range keys {
		name := c.named(schemas[i], path+"/properties/"+escapePointer(key), key)
		list = append(list, property{fmt.Sprintf("%s %s %s", literal(quote(key)+":"), c.space(), name), required[key]})
	}
	return list
}

// members writes an object with its properties in order, any of the optional ones left out.
func (c *compiler) members(list []property, path string) string {
	more := func(p property) string {
		if p.required {
			return c.next(p.text)
		}
		return "(" + c.next(p.text) + ")?"
	}
	if list[0].required {
		items := []string{`"{"`, list[0].text}
		for _, p := range list[1:] {
			items = append(items, more(p))
		}
		return join(append(items, `"}"`)...)
	}
	// What comes first decides how it goes on: rests[i] is what may follow when property i-1 is there.
	rests := make([]string, len(list)+1)
	for i := len(list) - 1; i > 0; i-- {
		rests[i] = c.add("more", path, join(more(list[i]), rests[i+1]))
	}
	var alts []string
	for i, p := range list {
		if alts = append(alts, join(p.text, rests[i+1])); p.required {
			break
		}
	}
	if len(alts) == len(list) && !list[len(list)-1].required {
		alts = append(alts, `""`)
	}
	return join(`"{"`, choice(alts...), `"}"`)
}

func (c *compiler) array(s *value, path, name string) string {
	lower, upper := c.counts(s, path, "minItems", "maxItems")
	first, rest := c.items(s, path, name)
	if rest == "" {
		if lower > len(first) {
			c.fail(path, "minItems", "%d is above the %d items that prefixItems allows", lower, len(first))
		}
		upper = min(upper, len(first))
	}
	if len(first) == 0 && rest != "" {
		first = []string{rest}
	}
	if first = first[:min(upper, len(first))]; len(first) == 0 {
		return `"[]"`
	}
	tail := ""
	if rest != "" && upper > len(first) {
		more := c.add(name+"-more", path, c.next(rest))
		tail = c.repeat(more, max(lower-len(first), 0), plus(upper, -len(first)))
	}
	for i := len(first) - 1; i >= 0; i-- {
		item := first[i]
		if i > 0 {
			item = c.next(item)
		}
		if tail = join(item, tail); i >= lower {
			tail = c.add(name+"-items", path, tail) + "?"
		}
	}
	return join(`"["`, tail, `"]"`)
}

// items returns the rules of the first items, and the rule of all others: empty when there may be no others.
func (c *compiler) items(s *value, path, name string) (first []string, rest string) {
	if v := s.get("prefixItems"); v != nil {
		if v.kind != '[' || len(v.values) == 0 || len(v.values) > maxRepeat {
			c.fail(path, "prefixItems", "it is a list of 1 to %d schemas", maxRepeat)
		}
		for i, e := range v.values {
			first = append(first, c.named(e, path+"/prefixItems/"+strconv.Itoa(i), name+"-item"))
		}
	}
	v := s.get("items")
	switch {
	case v == nil:
		return first, c.any()
	case v.kind == 'f':
		return first, ""
	case v.kind == '[':
		c.fail(path, "items", "it is one schema; a list of them is prefixItems")
	}
	return first, c.named(v, path+"/items", name+"-item")
}

func (c *compiler) text(s *value, path string) string {
	lower, upper := c.counts(s, path, "minLength", "maxLength")
	keyword, pattern := "pattern", ""
	switch p, f := s.get("pattern"), s.get("format"); {
	case p != nil && f != nil:
		c.fail(path, "format", "it is not supported beside pattern")
	case p == nil && f == nil:
		if lower == 0 && upper == unlimited {
			return c.anyString()
		}
		return join(`"\""`, c.repeat(c.char(), lower, upper), `"\""`)
	case p != nil && p.kind == '"':
		pattern = p.text
	case p != nil:
		c.fail(path, keyword, "it is a string, not %s", p.encode())
	default:
		keyword = "format"
		var known []string
		if pattern, known = formatPattern(f.text); pattern == "" || f.kind != '"' {
			c.fail(path, keyword, "%s is not one of %s", f.encode(), strings.Join(known, ", "))
		}
	}
	r := &regular{compiler: c, path: path, keyword: keyword}
	return join(`"\""`, r.pattern(pattern, lower, upper), `"\""`)
}
