package mcp

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/sluice-rag/sluice/internal/settings"
)

// inputSchema returns the schema of a tool's arguments: the type's, with what the settings of the same names in other
// types say about values.
func inputSchema[T any](settingsOf ...any) (*jsonschema.Schema, error) {
	schema, err := jsonschema.For[T](nil)
	if err != nil {
		return nil, err
	}
	for name, property := range schema.Properties {
		plain(property)
		if err := describe(property, reflect.TypeFor[T](), name); err != nil {
			return nil, err
		}
		for _, from := range settingsOf {
			if err := describe(property, reflect.TypeOf(from), name); err != nil {
				return nil, err
			}
		}
	}
	return schema, nil
}

// plain removes null, which the language models of some clients are told of and then send.
func plain(s *jsonschema.Schema) {
	if len(s.Types) == 2 && s.Types[0] == "null" {
		s.Type, s.Types = s.Types[1], nil
	}
	if s.Items != nil {
		plain(s.Items)
		for _, property := range s.Items.Properties {
			plain(property)
		}
	}
}

// describe adds the doc, the bounds and the choices of a type's field to a property.
func describe(property *jsonschema.Schema, t reflect.Type, name string) error {
	for f := range t.Fields() {
		if field, _, _ := strings.Cut(f.Tag.Get("json"), ","); field != name {
			continue
		}
		if doc := f.Tag.Get("doc"); doc != "" && property.Description == "" {
			property.Description = doc
		}
		for word := range strings.FieldsSeq(f.Tag.Get("oneof")) {
			property.Enum = append(property.Enum, word)
		}
		least, greatest, ok := strings.Cut(settings.RequestBounds(f.Tag), ",")
		if !ok || property.Minimum != nil { // the tool's own bounds, which keep its result short
			return nil
		}
		low, err := strconv.ParseFloat(least, 64)
		if err != nil {
			return fmt.Errorf("bounds of %s: %w", name, err)
		}
		high, err := strconv.ParseFloat(greatest, 64)
		if err != nil {
			return fmt.Errorf("bounds of %s: %w", name, err)
		}
		property.Minimum, property.Maximum = &low, &high
		return nil
	}
	return nil
}

// outputSchema returns the schema of a type as encoding/json writes it.
func outputSchema[T any]() (*jsonschema.Schema, error) {
	written := map[reflect.Type]*jsonschema.Schema{}
	writtenAsText(reflect.TypeFor[T](), written, map[reflect.Type]bool{})
	return jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: written})
}

// writtenAsText adds the types that are written as strings, within a type.
func writtenAsText(t reflect.Type, to map[reflect.Type]*jsonschema.Schema, seen map[reflect.Type]bool) {
	if seen[t] || t == reflect.TypeFor[time.Time]() {
		return
	}
	seen[t] = true
	switch {
	case t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface &&
		(t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) || t.Implements(reflect.TypeFor[json.Marshaler]())):
		to[t] = &jsonschema.Schema{Type: "string"}
	case t.Kind() == reflect.Struct:
		for f := range t.Fields() {
			writtenAsText(f.Type, to, seen)
		}
	case t.Kind() == reflect.Pointer, t.Kind() == reflect.Slice, t.Kind() == reflect.Array, t.Kind() == reflect.Map:
		writtenAsText(t.Elem(), to, seen)
	}
}
