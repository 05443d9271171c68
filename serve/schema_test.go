package serve

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/internal/settings"
)

// schemas makes JSON Schemas of Go types as encoding/json writes them: omitempty fields are not required; other fields
// that may be nil may be null.
type schemas struct {
	made  map[string]any
	names map[reflect.Type]string
}

type object = map[string]any

func (s *schemas) of(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string"}
	case reflect.TypeFor[json.RawMessage]():
		return object{}
	}
	if t.Kind() != reflect.Pointer && (t.Implements(reflect.TypeFor[json.Marshaler]()) ||
		t.Implements(reflect.TypeFor[encoding.TextMarshaler]())) {
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Interface:
		return object{}
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Slice, reflect.Array:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		if t.Name() == "" {
			return s.object(t)
		}
		return object{"$ref": "#/components/schemas/" + s.named(t)}
	}
	return object{"type": "integer"}
}

// named makes the schema of a struct, unless it exists.
func (s *schemas) named(t reflect.Type) string {
	if name, there := s.names[t]; there {
		return name
	}
	from := strings.TrimPrefix(t.PkgPath(), "github.com/sluice-rag/sluice/") + "." + t.Name()
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	for n := range s.names {
		if s.names[n] == name { // another package's type with the same name
			parts := strings.Split(t.PkgPath(), "/")
			p := parts[len(parts)-1]
			name = strings.ToUpper(p[:1]) + p[1:] + name
			break
		}
	}
	s.names[t] = name
	made := s.object(t)
	made["x-from"] = from
	s.made[name] = made
	return name
}

func (s *schemas) object(t reflect.Type) object {
	properties, required := object{}, []any{}
	s.fields(t, properties, &required)
	made := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		made["required"] = required
	}
	return made
}

func (s *schemas) fields(t reflect.Type, properties object, required *[]any) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if f.Anonymous && name == "" && inner.Kind() == reflect.Struct {
			s.fields(inner, properties, required)
			continue
		}
		name = cmp.Or(name, f.Name)
		schema := s.of(f.Type)
		// a field of an embedded struct that this one hides
		*required = slices.DeleteFunc(*required, func(x any) bool { return x == name })
		if !strings.Contains(options, "omit") {
			*required = append(*required, name)
			switch f.Type.Kind() {
			case reflect.Pointer, reflect.Slice, reflect.Map:
				schema = nullable(schema)
			}
		}
		properties[name] = schema
	}
}

func nullable(schema object) object {
	if kind, ok := schema["type"].(string); ok {
		schema["type"] = []any{kind, "null"}
		return schema
	}
	return object{"anyOf": []any{schema, object{"type": "null"}}}
}

// made returns the schemas of types and their parts, as in openapi.json.
func made(types ...any) (map[string]any, error) {
	s := &schemas{made: object{}, names: map[reflect.Type]string{}}
	for _, x := range types {
		if t := reflect.TypeOf(x); t.Name() != "" {
			s.named(t)
		} else {
			return nil, fmt.Errorf("%v has no name", t)
		}
	}
	raw, err := json.Marshal(s.made)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return out, json.Unmarshal(raw, &out)
}

// fieldsOf returns the names that encoding/json reads into a struct.
func fieldsOf(v any) []string {
	s := &schemas{made: object{}, names: map[reflect.Type]string{}}
	properties := object{}
	s.fields(reflect.TypeOf(v), properties, &[]any{})
	return slices.Sorted(maps.Keys(properties))
}

// settingsOf returns the schemas of the settings that encoding/json reads into a struct, by their fields' tags. null
// stands for a missing value.
func settingsOf(v any) object {
	made := object{}
	settingFields(reflect.TypeOf(v), made)
	return made
}

func settingFields(t reflect.Type, made object) {
	for f := range t.Fields() {
		name, embedded := settings.NameOf(f)
		switch {
		case embedded:
			settingFields(f.Type, made)
		case f.Tag.Get("doc") != "" && f.Tag.Get("json") != "-":
			made[name] = settingSchema(f)
		}
	}
}

func settingSchema(f reflect.StructField) object {
	schema := nullable((&schemas{}).of(f.Type))
	schema["description"] = f.Tag.Get("doc")
	if words := strings.Fields(f.Tag.Get("oneof")); len(words) > 0 {
		list := make([]any, 0, len(words)+1)
		for _, w := range words {
			list = append(list, w)
		}
		schema["enum"] = append(list, nil)
	}
	if least, greatest, ok := strings.Cut(settings.RequestBounds(f.Tag), ","); ok {
		for name, text := range map[string]string{"minimum": least, "maximum": greatest} {
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				panic(err)
			}
			schema[name] = n
		}
	}
	return schema
}
