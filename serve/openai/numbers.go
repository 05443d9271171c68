package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Each number of a request has its least and its greatest value in the tag of its field: `bounds:"0,1000"`. They are
// those of openapi.json, with which a test compares them.

// CheckNumbers is an error about the first number of a request that is out of its bounds.
func CheckNumbers(request any) *Error { return checkNumbers(reflect.ValueOf(request), "", "") }

func checkNumbers(v reflect.Value, param, bounds string) *Error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return checkNumbers(v.Elem(), param, bounds)
		}
	case reflect.Struct:
		for f, one := range v.Fields() {
			at := param
			if name, embedded := NameOf(f); !embedded {
				at = strings.TrimPrefix(param+"."+name, ".")
			}
			if err := checkNumbers(one, at, f.Tag.Get("bounds")); err != nil {
				return err
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Struct {
			return nil
		}
		for i := range v.Len() {
			if err := checkNumbers(v.Index(i), fmt.Sprintf("%s[%d]", param, i), ""); err != nil {
				return err
			}
		}
	default:
		if low, high, ok := strings.Cut(bounds, ","); ok && !within(v, low, high) {
			return invalid(param, "%v is not between %s and %s", v.Interface(), low, high)
		}
	}
	return nil
}

// within tells whether a number is one of those from low to high, in its own type.
func within(v reflect.Value, low, high string) bool {
	switch {
	case v.CanInt():
		a, errA := strconv.ParseInt(low, 10, 64)
		b, errB := strconv.ParseInt(high, 10, 64)
		return errors.Join(errA, errB) == nil && v.Int() >= a && v.Int() <= b
	case v.CanUint():
		a, errA := strconv.ParseUint(low, 10, 64)
		b, errB := strconv.ParseUint(high, 10, 64)
		return errors.Join(errA, errB) == nil && v.Uint() >= a && v.Uint() <= b
	case v.CanFloat():
		a, errA := strconv.ParseFloat(low, 64)
		b, errB := strconv.ParseFloat(high, 64)
		return errors.Join(errA, errB) == nil && v.Float() >= a && v.Float() <= b
	}
	return false
}

// NameOf is the name that a field has in JSON; embedded tells that it has none, since its own fields stand in its
// place.
func NameOf(f reflect.StructField) (name string, embedded bool) {
	name, _, _ = strings.Cut(f.Tag.Get("json"), ",")
	if name == "" && f.Anonymous {
		return "", true
	}
	if name == "" {
		name = f.Name
	}
	return name, false
}

// FieldOf is a field of a request by its name in JSON, written exactly so.
func FieldOf(t reflect.Type, name string) (reflect.StructField, bool) {
	for f := range t.Fields() {
		own, embedded := NameOf(f)
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

// OutOfType is an error about a number that the type of its field does not hold, as encoding/json has found; nil if
// that is not what err says.
func OutOfType(request any, err error) *Error {
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) || !strings.HasPrefix(mismatch.Value, "number ") {
		return nil
	}
	// encoding/json puts the names of embedded structs before those of their fields
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
		t, bounds, path = f.Type, f.Tag.Get("bounds"), path[1:]
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
