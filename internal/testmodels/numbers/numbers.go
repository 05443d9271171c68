// Package numbers makes requests of an OpenAPI document, each with one number at, below or above its bounds.
package numbers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/url"
	"slices"
	"strings"
)

// Case is a request with one number.
type Case struct {
	Method, URL string // with the parameters of the address
	Body        string // "": none
	Param       string // the number's name: "/v1/retrieve k"
	Value       string
	Legal       bool // the document allows the value
}

// Operation is an operation of a document without its paths' parameters.
type Operation struct {
	Method, Path string
	Body         map[string]any // schema of its JSON body; nil: none
	Query        []map[string]any
}

// Document is an OpenAPI document.
type Document struct {
	Operations []Operation
	schemas    map[string]any
}

// Parse reads a document.
func Parse(text []byte) (*Document, error) {
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters  []map[string]any
			RequestBody struct {
				Content map[string]struct{ Schema map[string]any }
			}
		}
		Components struct{ Schemas map[string]any }
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&doc); err != nil {
		return nil, err
	}
	out := &Document{schemas: doc.Components.Schemas}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			op := doc.Paths[path][method]
			one := Operation{Method: strings.ToUpper(method), Path: path,
				Body: op.RequestBody.Content["application/json"].Schema}
			for _, p := range op.Parameters {
				if p["in"] == "query" {
					one.Query = append(one.Query, p)
				}
			}
			out.Operations = append(out.Operations, one)
		}
	}
	return out, nil
}

// Number is one that a request may have.
type Number struct {
	Path             []string // of its names; "[]" is an element of a list
	Minimum, Maximum *big.Float
	Whole            bool
}

// Numbers returns the numbers of a schema with the names that lead to them.
func (d *Document) Numbers(schema map[string]any) (list []Number) {
	d.walk(schema, nil, &list)
	return list
}

func (d *Document) walk(schema map[string]any, path []string, list *[]Number) {
	if ref, ok := schema["$ref"].(string); ok {
		schema = d.schemas[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any)
	}
	whole, number := has(schema["type"], "integer"), has(schema["type"], "number")
	if whole || number {
		*list = append(*list, Number{slices.Clone(path), bound(schema["minimum"]), bound(schema["maximum"]), whole})
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		d.walk(properties[name].(map[string]any), append(path, name), list)
	}
	if items, ok := schema["items"].(map[string]any); ok {
		d.walk(items, append(path, "[]"), list)
	}
	if len(properties) > 0 {
		return // the rest are conditions on the same fields
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		some, _ := schema[key].([]any)
		for _, one := range some {
			d.walk(one.(map[string]any), path, list)
		}
	}
}

func has(kind any, name string) bool {
	list, ok := kind.([]any)
	return kind == name || ok && slices.Contains(list, any(name))
}

func bound(v any) *big.Float {
	n, ok := v.(json.Number)
	if !ok {
		return nil
	}
	f, _, err := big.ParseFloat(n.String(), 10, 200, big.ToNearestEven)
	if err != nil {
		return nil
	}
	return f
}

func (n Number) values() (texts []string) {
	texts = []string{"0", "-1", "9223372036854775807", "9223372036854775808", "1e400"}
	one := big.NewFloat(1)
	for _, x := range []*big.Float{n.Minimum, new(big.Float).Sub(n.Minimum, one), n.Maximum,
		new(big.Float).Add(n.Maximum, one)} {
		if n.Whole {
			texts = append(texts, x.Text('f', 0))
		} else {
			texts = append(texts, x.Text('g', 17))
		}
	}
	if !n.Whole {
		texts = append(texts, "1e308", "-1e308")
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

func (n Number) legal(text string) bool {
	x, _, err := big.ParseFloat(text, 10, 200, big.ToNearestEven)
	return err == nil && x.Cmp(n.Minimum) >= 0 && x.Cmp(n.Maximum) <= 0
}

// Cases are requests with each number of the document, in bodies that are otherwise as the examples have them, by path.
// A number without bounds is an error.
func (d *Document) Cases(bodies map[string]string) (cases []Case, err error) {
	for _, op := range d.Operations {
		where := strings.NewReplacer("{id}", "x", "{model}", "x", "{file}", "x").Replace(op.Path)
		for _, n := range d.Numbers(op.Body) {
			name := op.Path + " " + strings.Join(n.Path, ".")
			if n.Minimum == nil || n.Maximum == nil {
				return nil, fmt.Errorf("%s has no minimum or no maximum", name)
			}
			for _, text := range n.values() {
				body, err := with(bodies[op.Path], n.Path, text)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
				cases = append(cases, Case{op.Method, where, body, name, text, n.legal(text)})
			}
		}
		for _, p := range op.Query {
			schema, _ := p["schema"].(map[string]any)
			for _, n := range d.Numbers(schema) {
				name := op.Path + " ?" + p["name"].(string)
				if n.Minimum == nil || n.Maximum == nil {
					return nil, fmt.Errorf("%s has no minimum or no maximum", name)
				}
				for _, text := range n.values() {
					at := where + "?" + url.Values{p["name"].(string): {text}}.Encode()
					cases = append(cases, Case{op.Method, at, "", name, text, n.legal(text)})
				}
			}
		}
	}
	return cases, nil
}

func with(body string, path []string, value string) (string, error) {
	var v any
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return "", err
	}
	out, err := json.Marshal(set(v, path, json.RawMessage(value)))
	return string(out), err
}

func set(v any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	if path[0] == "[]" {
		list, _ := v.([]any)
		if len(list) == 0 {
			list = []any{nil}
		}
		list[0] = set(list[0], path[1:], value)
		return list
	}
	o, _ := v.(map[string]any)
	if o == nil {
		o = map[string]any{}
	}
	o[path[0]] = set(o[path[0]], path[1:], value)
	return o
}
