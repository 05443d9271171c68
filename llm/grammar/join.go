package grammar

import (
	"cmp"
	"errors"
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

// conflict says why nothing satisfies two schemas together.
type conflict struct{ keyword, reason string }

func (e *conflict) Error() string { return e.keyword + ": " + e.reason }

func conflicting(keyword, format string, args ...any) error {
	return &conflict{keyword, fmt.Sprintf(format, args...)}
}

// composing returns the keywords that combine schemas.
func composing() []string { return []string{"$ref", "allOf", "anyOf", "oneOf"} }

// composed reports whether a schema has to be joined before it is compiled: it has allOf, or another composing keyword
// beside a keyword that constrains values.
func composed(s *value) bool {
	says, composes := 0, false
	for _, k := range s.keys {
		if k == "allOf" {
			return true
		}
		composes = composes || slices.Contains(composing(), k)
		if !slices.Contains(annotations, k) {
			says++
		}
	}
	return composes && says > 1
}

// together compiles a schema that is composed.
func (c *compiler) together(s *value, path, name string) (string, error) {
	one, err := c.joined(s, path)
	if err != nil {
		return "", err
	}
	if at, ok := c.where[one]; ok || one.kind != '{' { // it consists of one part
		return c.named(one, at, name)
	}
	return c.schema(one, path, name)
}

// joined returns the plain schema, or the union, that a schema amounts to.
func (c *compiler) joined(s *value, path string) (*value, error) {
	parts, err := c.parts(nil, s, path, nil)
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return &value{kind: 't', text: "true"}, nil
	}
	one, err := c.join(parts, path)
	if why, ok := errors.AsType[*conflict](err); ok {
		return nil, c.errorf(path, why.keyword, "%s", why.reason)
	}
	return one, err
}

// parts appends the plain schemas and unions that a schema consists of, each once. within is the path of schemas from
// the root to this one, by which a schema that contains itself is noticed.
func (c *compiler) parts(to []*value, s *value, path string, within []*value) ([]*value, error) {
	switch {
	case s.kind == 't' || s.kind == '{' && len(s.keys) == 0:
		return to, nil
	case s.kind == 'f':
		return nil, c.errorf(path, "", "nothing satisfies the schema false")
	case s.kind != '{':
		return nil, c.errorf(path, "", "a schema is an object, true or false, not %s", s.encode())
	case slices.Contains(within, s):
		return nil, c.errorf(path, "", "its references lead back to it with nothing around it")
	case s.get("$id") != nil && path != "":
		return nil, c.errorf(path, "$id", "only the whole document may have one")
	}
	if err := c.spend(len(s.keys)+len(to)+len(within), path); err != nil {
		return nil, err
	}
	within = append(within, s)
	if target := s.get("$ref"); target != nil {
		t, at, err := c.target(target, path)
		if err != nil {
			return nil, err
		}
		if to, err = c.parts(to, t, at, within); err != nil {
			return nil, err
		}
	}
	if all := s.get("allOf"); all != nil {
		if err := c.schemas(all, path, "allOf"); err != nil {
			return nil, err
		}
		for i, one := range all.values {
			var err error
			if to, err = c.parts(to, one, fmt.Sprintf("%s/allOf/%d", path, i), within); err != nil {
				return nil, err
			}
		}
	}
	for _, one := range c.split(s, path) {
		if slices.Contains(to, one) {
			continue
		}
		if one.get("anyOf") == nil && one.get("oneOf") == nil && one.get("enum") == nil && one.get("const") == nil {
			if _, err := c.types(one, path); err != nil { // joined, it might no longer be noticed
				return nil, err
			}
		}
		to = append(to, one)
	}
	return to, nil
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
		case !slices.Contains(composing(), k) && !slices.Contains(annotations, k):
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

// schemas checks a list of schemas.
func (c *compiler) schemas(list *value, path, keyword string) error {
	if list.kind != '[' || len(list.values) == 0 || len(list.values) > maxList {
		return c.errorf(path, keyword, "it is a list of 1 to %d schemas", maxList)
	}
	return nil
}

// join makes one schema of at least one part: a plain one, or a union of plain ones if a part is a union. Alternatives
// that nothing satisfies together with the other parts are left out.
func (c *compiler) join(parts []*value, path string) (*value, error) {
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
		var err error
		if one, err = c.merge(one, p, path); err != nil {
			return nil, err
		}
	}
	return one, nil
}

// distribute returns the union of each alternative joined with the other parts.
func (c *compiler) distribute(list *value, others []*value, path, keyword string) (*value, error) {
	if err := c.schemas(list, path, keyword); err != nil {
		return nil, err
	}
	union := &value{kind: '['}
	var first error
	for i, alternative := range list.values {
		at := fmt.Sprintf("%s/%s/%d", path, keyword, i)
		parts, err := c.parts(slices.Clone(others), alternative, at, nil)
		if err != nil {
			return nil, err
		}
		one := &value{kind: 't', text: "true"}
		if len(parts) > 0 {
			one, err = c.join(parts, at)
		}
		if _, ok := errors.AsType[*conflict](err); ok {
			first = cmp.Or(first, err)
			continue
		}
		if err != nil {
			return nil, err
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
func (c *compiler) spend(n int, path string) error {
	if c.spent += n + 1; c.spent > maxWork {
		return c.errorf(path, "", "to join the schemas that apply together takes more than %d steps", maxWork)
	}
	return nil
}

// merge joins two plain schemas.
func (c *compiler) merge(a, b *value, path string) (*value, error) {
	out := &value{kind: '{'}
	for _, s := range []*value{a, b} {
		for i, k := range s.keys {
			v, there := s.values[i], out.get(k)
			if slices.Contains(annotations, k) {
				continue
			}
			if there != nil && there != v {
				var err error
				if v, err = c.both(k, there, v, path); err != nil {
					return nil, err
				}
			}
			out.set(k, v)
		}
	}
	for _, x := range [][2]*value{{a, b}, {b, a}} {
		if x[0].get("prefixItems") != nil && (x[1].get("items") != nil || x[1].get("prefixItems") != nil) {
			return nil, c.errorf(path, "prefixItems", "it cannot be joined with another schema's items")
		}
	}
	if err := closed(a, b, out); err != nil {
		return nil, err
	}
	return out, c.narrow(out, a, b, path)
}

// narrow removes keywords about types that the joined schema excludes.
func (c *compiler) narrow(out, a, b *value, path string) error {
	kinds, err := c.declared(out, path)
	if err != nil || a.get("type") == nil && b.get("type") == nil {
		return err
	}
	for _, k := range slices.Clone(out.keys) {
		if about := typesOf(k); about != nil && !intersect(about, kinds) {
			out.remove(k)
		}
	}
	return nil
}

// closed removes properties from a joined schema that one of its two schemas neither declares nor allows.
func closed(a, b, out *value) error {
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
func (c *compiler) both(keyword string, v, w *value, path string) (*value, error) {
	if err := c.spend(len(v.values)*len(w.values), path); err != nil {
		return nil, err
	}
	switch keyword {
	case "properties":
		if v.kind != '{' || w.kind != '{' {
			return nil, c.errorf(path, keyword, "it is an object of at most %d schemas", maxList)
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
		if v.kind == 't' || v.kind == '{' && len(v.keys) == 0 {
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
	return c.bound(keyword, v, w, path)
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
func commonTypes(v, w *value) (*value, error) {
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

// contains reports whether an array has a value.
func contains(array, v *value) bool {
	return slices.ContainsFunc(array.values, func(x *value) bool { return equal(x, v) })
}

// bound returns the narrower of two bounds.
func (c *compiler) bound(keyword string, v, w *value, path string) (*value, error) {
	x, errX := rational(v)
	y, errY := rational(w)
	if v.kind == '0' && w.kind == '0' && errX == nil && errY == nil {
		least := slices.Contains([]string{"minimum", "exclusiveMinimum", "minLength", "minItems"}, keyword)
		most := slices.Contains([]string{"maximum", "exclusiveMaximum", "maxLength", "maxItems"}, keyword)
		multiple := keyword == "multipleOf"
		switch {
		case least && x.Cmp(y) < 0, most && x.Cmp(y) > 0:
			return w, nil
		case least, most,
			multiple && (x.Sign() <= 0 || y.Sign() <= 0), // an error where it is compiled
			multiple && new(big.Rat).Quo(x, y).IsInt():
			return v, nil
		case multiple && new(big.Rat).Quo(y, x).IsInt():
			return w, nil
		}
	}
	return nil, c.errorf(path, keyword, "%.40s and %.40s hold together, and cannot be joined", v.encode(), w.encode())
}
