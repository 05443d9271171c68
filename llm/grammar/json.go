package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxDepth is how deep a schema's document may be.
const maxDepth = 200

// value is a JSON value whose objects keep the order of their keys.
type value struct {
	kind   byte // one of { [ " 0 t f n, what its text begins with
	text   string
	keys   []string
	values []*value // of an object, beside keys, or of an array
}

func (v *value) get(key string) *value {
	if i := slices.Index(v.keys, key); i >= 0 {
		return v.values[i]
	}
	return nil
}

// isTrue reports whether the value is the schema true or {}, which takes every value.
func (v *value) isTrue() bool { return v.kind == 't' || v.kind == '{' && len(v.keys) == 0 }

func (v *value) set(key string, to *value) {
	if i := slices.Index(v.keys, key); i >= 0 {
		v.values[i] = to
		return
	}
	v.keys, v.values = append(v.keys, key), append(v.values, to)
}

func (v *value) remove(key string) {
	if i := slices.Index(v.keys, key); i >= 0 {
		v.keys, v.values = slices.Delete(v.keys, i, i+1), slices.Delete(v.values, i, i+1)
	}
}

// encode writes the value without white space. Numbers keep the schema's notation.
func (v *value) encode() string {
	var parts []string
	switch v.kind {
	case '"':
		return quote(v.text)
	case '[':
		for _, e := range v.values {
			parts = append(parts, e.encode())
		}
		return "[" + strings.Join(parts, ",") + "]"
	case '{':
		for i, e := range v.values {
			parts = append(parts, quote(v.keys[i])+":"+e.encode())
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	return v.text
}

// quote writes a JSON string with as few escapes as possible.
func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil { // a string always encodes
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// decode reads a document; errors are *SchemaError with a position.
func decode(src []byte) (*value, error) {
	malformed := func(at int, reason string) error {
		line, column := position(string(src), at)
		return &SchemaError{Reason: fmt.Sprintf("line %d, column %d: %s", line, column, reason)}
	}
	if len(src) > maxSource {
		return nil, &SchemaError{Reason: fmt.Sprintf("it has %d bytes, at most %d are read", len(src), maxSource)}
	}
	if at := invalidUTF8(string(src)); at >= 0 {
		return nil, malformed(at, "invalid UTF-8")
	}
	var whole json.RawMessage
	if err := json.Unmarshal(src, &whole); err != nil {
		at := len(src)
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && syntax.Offset > 0 {
			at = int(syntax.Offset) - 1
			if strings.Contains(syntax.Error(), "unexpected end") {
				at = len(src)
			}
		}
		return nil, malformed(at, "not JSON: "+err.Error())
	}
	d := json.NewDecoder(bytes.NewReader(src))
	d.UseNumber()
	v, err := readValue(d, 0)
	if err != nil {
		return nil, malformed(int(d.InputOffset()), err.Error())
	}
	return v, nil
}

func readValue(d *json.Decoder, depth int) (*value, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("deeper than %d levels", maxDepth)
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case string:
		return &value{kind: '"', text: t}, nil
	case json.Number:
		return &value{kind: '0', text: string(t)}, nil
	case bool:
		text := strconv.FormatBool(t)
		return &value{kind: text[0], text: text}, nil
	case json.Delim:
		v := &value{kind: byte(t)}
		known := map[string]bool{}
		for d.More() {
			if v.kind == '{' {
				key, err := d.Token()
				if err != nil {
					return nil, err
				}
				name, _ := key.(string)
				if known[name] {
					return nil, fmt.Errorf("the key %q is there twice", name)
				}
				known[name] = true
				v.keys = append(v.keys, name)
			}
			e, err := readValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			v.values = append(v.values, e)
		}
		_, err := d.Token() // the closing bracket
		return v, err
	}
	return &value{kind: 'n', text: "null"}, nil
}

// pointer follows a JSON pointer from v; nil if it leads nowhere.
func (v *value) pointer(path string) *value {
	if path == "" {
		return v
	}
	for step := range strings.SplitSeq(path[1:], "/") {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		var next *value
		switch v.kind {
		case '{':
			next = v.get(step)
		case '[':
			if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(v.values) && strconv.Itoa(i) == step {
				next = v.values[i]
			}
		}
		if next == nil {
			return nil
		}
		v = next
	}
	return v
}

// escapePointer makes a key a step of a JSON pointer.
func escapePointer(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }
