package openai

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"github.com/sluice-rag/sluice/internal/settings"
)

// Each number of a request has its bounds in its field's tag: `bounds:"0,1000"`. A test compares them with
// openapi.json.

// CheckNumbers returns an error about the first value of a request that is out of its bounds.
func CheckNumbers(request any) *Error {
	if e := settings.CheckRequest(request); e != nil {
		return invalid(e.Name, "%s", e.Says)
	}
	return nil
}

// FieldOf returns a field of a request by its exact name in JSON.
func FieldOf(t reflect.Type, name string) (reflect.StructField, bool) {
	for f := range t.Fields() {
		own, embedded := settings.NameOf(f)
		if embedded {
			if inner, ok := FieldOf(f.Type, name); ok {
				return inner, true
			}
		} else if own == name && own != "-" {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// OutOfType converts encoding/json's error about a number that its field's type cannot hold; nil for other errors.
func OutOfType(request any, err error) *Error {
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) || !strings.HasPrefix(mismatch.Value, "number ") {
		return nil
	}
	// encoding/json puts the names of embedded structs before the names of their fields
	path := strings.Split(mismatch.Field, ".")
	t, bounds := reflect.TypeOf(request).Elem(), ""
	for len(path) > 0 {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return nil
		}
		if f, ok := t.FieldByName(path[0]); ok && f.Anonymous {
			t, path = f.Type, path[1:]
			continue
		}
		f, ok := FieldOf(t, path[0])
		if !ok {
			return nil
		}
		t, bounds, path = f.Type, settings.RequestBounds(f.Tag), path[1:]
	}
	low, high, ok := strings.Cut(bounds, ",")
	if !ok {
		return nil
	}
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	what := "a whole number "
	if t.Kind() == reflect.Float64 || t.Kind() == reflect.Float32 {
		what = ""
	}
	name := mismatch.Field[strings.LastIndexByte(mismatch.Field, '.')+1:]
	return invalid(name, "%.40s is not %sbetween %s and %s", strings.TrimPrefix(mismatch.Value, "number "), what, low,
		high)
}
