package grammar

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
)

// A schema's keywords apply together, and so do the schemas of allOf and $ref. Schemas that apply together are joined
// into one, so that the rest of the compiler sees single schemas only.
//
//	allOf, $ref or anyOf beside others → parts (plain schemas and unions) → one plain schema, or a union of them
//
// Properties that several parts have are joined when they are compiled, so that recursive schemas end.

// conflict says why no value satisfies two schemas together. It is nil if there is such a value.
type conflict struct{ keyword, reason string }

func conflicting(keyword, format string, args ...any) *conflict {
	return &conflict{keyword, fmt.Sprintf(format, args...)}
}

// composing are the keywords that combine schemas.
var composing = []string{"$ref", "allOf", "anyOf", "oneOf"}

// composed reports whether a schema has to be joined before it is compiled: it has allOf, or another composing keyword
// beside a keyword that constrains values.
func composed(s *value) bool {
	says, composes := 0, false
	for _, k := range s.keys {
		if k == "allOf" {
			return true
		}
		composes = composes || slices.Contains(composing, k)
		if !slices.Contains(annotations, k) {
			says++
		}
	}
	return composes && says > 1
}

// joined returns the plain schema, or the union, that a schema amounts to.
func (c *compiler) joined(s *value, path string) *value {
	one, why := c.join(c.parts(nil, s, path, nil), path)
	if why != nil {
		c.fail(path, why.keyword, "%s", why.reason)
	}
	return one
}

// parts appends the plain schemas and unions that a schema consists of, each once. within is the path of schemas from
// the root to this one, by which a schema that contains itself is noticed.
func (c *compiler) parts(to []*value, s *value, path string, within []*value) []*value {
	switch {
	case c.takesAll(s, path):
		return to
	case slices.Contains(within, s):
		c.fail(path, "", "its references lead back to it with nothing around it")
	case s.get("$id") != nil && path != "":
		c.fail(path, "$id", "only the whole document may have one")
	}
	c.spend(len(s.keys)+len(to)+len(within), path)
	within = append(within, s)
	if ref := s.get("$ref"); ref != nil {
		target, at := c.target(ref, path)
		to = c.parts(to, target, at, within)
	}
	if all := s.get("allOf"); all != nil {
		c.schemas(all, path, "allOf")
		for i, one := range all.values {
			to = c.parts(to, one, fmt.Sprintf("%s/allOf/%d", path, i), within)
		}
	}
	for _, one := range c.split(s, path) {
		if slices.Contains(to, one) {
			continue
		}
		if one.get("anyOf") == nil && one.get("oneOf") == nil && one.get("enum") == nil && one.get("const") == nil {
			c.types(one, path) // what it refuses might not be noticed in the joined schema
		}
		to = append(to, one)
	}
	return to
}

// split returns a schema's unions, and its other constraining keywords as another schema; the same ones each time.
func (c *compiler) split(s *value, path string) []*value {
	if list, ok := c.splits[s]; ok {
		return list
	}
	rest := &value{kind: '{'}
	var list []*value
	for i, k := range s.keys {
		switch {
		case k == "anyOf" || k == "oneOf":
			list = append(list, &value{kind: '{', keys: []string{k}, values: s.values[i : i+1]})
		case !slices.Contains(composing, k) && !slices.Contains(annotations, k):
			rest.set(k, s.values[i])
		}
	}
	if len(list) == 0 && s.get("$ref") == nil && s.get("allOf") == nil {
		rest = s
	}
	if len(rest.keys) > 0 {
		list = append(list, rest)
	}
	for _, one := range list {
		c.place(one, path)
	}
	c.splits[s] = list
	return list
}

// place notes the paths of a plain schema and of the schemas in it, for errors about them.
func (c *compiler) place(s *value, path string) {
	c.where[s] = path
	if p := s.get("properties"); p != nil && p.kind == '{' {
		for i, key := range p.keys {
			c.where[p.values[i]] = path + "/properties/" + escapePointer(key)
		}
	}
	if items := s.get("items"); items != nil {
		c.where[items] = path + "/items"
	}
}

func (c *compiler) schemas(list *value, path, keyword string) {
	if list.kind != '[' || len(list.values) == 0 || len(list.values) > maxList {
		c.fail(path, keyword, "it is a list of 1 to %d schemas", maxList)
	}
}

// join makes one schema of parts: a plain one, or a union of plain ones if a part is a union. Alternatives that nothing
// satisfies together with the other parts are left out.
func (c *compiler) join(parts []*value, path string) (*value, *conflict) {
	if len(parts) == 0 {
		return &value{kind: 't', text: "true"}, nil
	}
	for i, p := range parts {
		for _, keyword := range []string{"anyOf", "oneOf"} {
			if list := p.get(keyword); list != nil {
				others := slices.Concat(parts[:i], parts[i+1:])
				return c.distribute(list, others, c.where[p], keyword)
			}
		}
	}
	one := parts[0]
	for _, p := range parts[1:] {
		var why *conflict
		if one, why = c.merge(one, p, path); why != nil {
			return nil, why
		}
	}
	return one, nil
}

// distribute returns the union of each alternative joined with the other parts.
func (c *compiler) distribute(list *value, others []*value, path, keyword string) (*value, *conflict) {
	c.schemas(list, path, keyword)
	union := &value{kind: '['}
	var first *conflict
	for i, alternative := range list.values {
		at := fmt.Sprintf("%s/%s/%d", path, keyword, i)
		one, why := c.join(c.parts(slices.Clone(others), alternative, at, nil), at)
		if why != nil {
			first = cmp.Or(first, why)
			continue
		}
		if _, ok := c.where[one]; !ok {
			c.where[one] = at
		}
		union.values = append(union.values, one)
	}
	if len(union.values) == 0 {
		return nil, first
	}
	return &value{kind: '{', keys: []string{"anyOf"}, values: []*value{union}}, nil
}

// spend counts work, because references let a short document stand for any number of parts.
func (c *compiler) spend(n int, path string) {
	if c.spent += n + 1; c.spent > maxWork {
		c.fail(path, "", "to join the schemas that apply together takes more than %d steps", maxWork)
	}
}

func (c *compiler) merge(a, b *value, path string) (*value, *conflict) {
	out := &value{kind: '{'}
	for _, s := range []*value{a, b} {
		for i, k := range s.keys {
			v, there := s.values[i], out.get(k)
			if slices.Contains(annotations, k) {
				continue
			}
			if there != nil && there != v {
				var why *conflict
				if v, why = c.both(k, there, v, path); why != nil {
					return nil, why
				}
			}
			out.set(k, v)
		}
	}
	for _, x := range [][2]*value{{a, b}, {b, a}} {
		if x[0].get("prefixItems") != nil && (x[1].get("items") != nil || x[1].get("prefixItems") != nil) {
			c.fail(path, "prefixItems", "it cannot be joined with another schema's items")
		}
	}
	if why := closed(a, b, out); why != nil {
		return nil, why
	}
	c.narrow(out, a, b, path)
	return out, nil
}

// narrow removes keywords about types that the joined schema excludes.
func (c *compiler) narrow(out, a, b *value, path string) {
	kinds := c.declared(out, path)
	if a.get("type") == nil && b.get("type") == nil {
		return
	}
	for _, k := range slices.Clone(out.keys) {
		if about := typesOf(k); about != nil && !intersect(about, kinds) {
			out.remove(k)
		}
	}
}

// closed removes properties from a joined schema that one of its two schemas neither declares nor allows.
func closed(a, b, out *value) *conflict {
	properties := out.get("properties")
	if properties == nil || properties.kind != '{' {
		properties = &value{kind: '{'}
	}
	isShut := func(s *value) bool {
		v := s.get("additionalProperties")
		return v != nil && v.kind == 'f'
	}
	if !isShut(a) && !isShut(b) {
		return nil
	}
	allows := func(s *value, key string) bool {
		declared := s.get("properties")
		return !isShut(s) || declared != nil && declared.get(key) != nil
	}
	kept := &value{kind: '{'}
	for i, key := range properties.keys {
		if allows(a, key) && allows(b, key) {
			kept.set(key, properties.values[i])
		}
	}
	if required := out.get("required"); required != nil {
		for _, r := range required.values {
			if r.kind == '"' && kept.get(r.text) == nil {
				return conflicting("required", "%q is required, and a schema that holds together with this one, with "+
					"additionalProperties false, does not have it", r.text)
			}
		}
	}
	out.set("properties", kept)
	out.set("additionalProperties", &value{kind: 'f', text: "false"})
	return nil
}

// both joins what two schemas say by one keyword.
func (c *compiler) both(keyword string, v, w *value, path string) (*value, *conflict) {
	c.spend(len(v.values)*len(w.values), path)
	switch keyword {
	case "properties":
		if v.kind != '{' || w.kind != '{' {
			c.fail(path, keyword, "it is an object of at most %d schemas", maxList)
		}
		return c.bothProperties(v, w), nil
	case "items":
		if v.kind == 'f' || w.kind == '[' {
			return v, nil
		}
		if w.kind == 'f' || v.kind == '[' {
			return w, nil
		}
		return c.allOf(v, w), nil
	case "required":
		all := &value{kind: '[', values: slices.Clone(v.values)}
		for _, x := range w.values {
			if !contains(v, x) {
				all.values = append(all.values, x)
			}
		}
		return all, nil
	case "additionalProperties":
		if v.isTrue() {
			return w, nil
		}
		return v, nil
	case "type":
		return commonTypes(v, w)
	case "enum":
		common := &value{kind: '[', values: slices.Clone(v.values)}
		common.values = slices.DeleteFunc(common.values, func(x *value) bool { return !contains(w, x) })
		if len(common.values) == 0 {
			return nil, conflicting(keyword, "two lists of it hold together and have no value in common")
		}
		return common, nil
	}
	if equal(v, w) {
		return v, nil
	}
	if keyword == "const" {
		return nil, conflicting(keyword, "%.40s and %.40s hold together", v.encode(), w.encode())
	}
	return c.bound(keyword, v, w, path), nil
}

// allOf returns the schema of what satisfies both; the same one each time.
func (c *compiler) allOf(v, w *value) *value {
	if v == w {
		return v
	}
	key := [2]*value{v, w}
	if c.pairs[key] == nil {
		both := &value{kind: '[', values: []*value{v, w}}
		c.pairs[key] = &value{kind: '{', keys: []string{"allOf"}, values: []*value{both}}
	}
	return c.pairs[key]
}

func (c *compiler) bothProperties(v, w *value) *value {
	all := &value{kind: '{', keys: slices.Clone(v.keys), values: slices.Clone(v.values)}
	for i, key := range w.keys {
		one := w.values[i]
		if there := all.get(key); there != nil {
			one = c.allOf(there, one)
		}
		all.set(key, one)
	}
	return all
}

// commonTypes returns the types that two schemas both name; an integer is a number.
func commonTypes(v, w *value) (*value, *conflict) {
	listOf := func(x *value) []*value {
		if x.kind == '[' {
			return x.values
		}
		return []*value{x}
	}
	common := &value{kind: '['}
	for _, x := range listOf(v) {
		for _, y := range listOf(w) {
			switch {
			case x.text == y.text || x.text == "integer" && y.text == "number":
				common.values = append(common.values, x)
			case x.text == "number" && y.text == "integer":
				common.values = append(common.values, y)
			}
		}
	}
	if len(common.values) == 0 {
		return nil, conflicting("type", "%s and %s hold together", v.encode(), w.encode())
	}
	return common, nil
}

func contains(array, v *value) bool {
	return slices.ContainsFunc(array.values, func(x *value) bool { return equal(x, v) })
}

// bound returns the narrower of two bounds.
func (c *compiler) bound(keyword string, v, w *value, path string) *value {
	x, errX := rational(v)
	y, errY := rational(w)
	if errX == nil && errY == nil {
		least := slices.Contains([]string{"minimum", "exclusiveMinimum", "minLength", "minItems"}, keyword)
		most := slices.Contains([]string{"maximum", "exclusiveMaximum", "maxLength", "maxItems"}, keyword)
		multiple := keyword == "multipleOf"
		switch {
		case least && x.Cmp(y) < 0, most && x.Cmp(y) > 0:
			return w
		case least, most,
			multiple && (x.Sign() <= 0 || y.Sign() <= 0), // an error where it is compiled
			multiple && new(big.Rat).Quo(x, y).IsInt():
			return v
		case multiple && new(big.Rat).Quo(y, x).IsInt():
			return w
		}
	}
	c.fail(path, keyword, "%.40s and %.40s hold together, and cannot be joined", v.encode(), w.encode())
	return nil
}
