package settings

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Error names a field out of its limits, with the limit and the value given.
type Error struct {
	Name string // in JSON, of nested fields with dots between
	Says string
}

func (e *Error) Error() string { return e.Name + ": " + e.Says }

// Check returns an *Error about the first field of a struct that is out of its limits, also within structs, pointers
// and lists; nil where all are within.
func Check(options any) error {
	if e := check(reflect.ValueOf(options), "", "", false); e != nil {
		return e
	}
	return nil
}

// CheckRequest is Check with the limits of requests.
func CheckRequest(request any) *Error { return check(reflect.ValueOf(request), "", "", true) }

func check(v reflect.Value, name string, tag reflect.StructTag, request bool) *Error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return check(v.Elem(), name, tag, request)
		}
	case reflect.Struct:
		for f, one := range v.Fields() {
			if !f.IsExported() && !f.Anonymous || request && f.Tag.Get("json") == "-" {
				continue
			}
			at := name
			if own := shown(f); own != "" {
				at = strings.TrimPrefix(name+"."+own, ".")
			}
			if err := check(one, at, f.Tag, request); err != nil {
				return err
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct {
			for i := range v.Len() {
				if err := check(v.Index(i), fmt.Sprintf("%s[%d]", name, i), "", request); err != nil {
					return err
				}
			}
		}
	case reflect.String:
		if err := word(tag, v.String()); err != nil {
			return &Error{name, err.Error()}
		}
	default:
		bounds := cmp.Or(tag.Get("go"), tag.Get("bounds"))
		if bounds == "" {
			return nil
		}
		if request {
			bounds = RequestBounds(tag)
		}
		n := inUnit(v, tag)
		if err := numeric(n, bounds, fmt.Sprint(n)); err != nil {
			return &Error{name, err.Error()}
		}
	}
	return nil
}

// RequestBounds returns the bounds of a number in a request.
func RequestBounds(tag reflect.StructTag) string {
	bounds := tag.Get("bounds")
	if greatest := tag.Get("request"); greatest != "" {
		least, _, _ := strings.Cut(bounds, ",")
		return least + "," + greatest
	}
	return bounds
}

// word returns an error about a text that is not one of the allowed words.
func word(tag reflect.StructTag, text string) error {
	words, ok := tag.Lookup("oneof")
	if list := strings.Fields(words); ok && !slices.Contains(list, text) {
		return fmt.Errorf("must be one of %s, given %q", strings.Join(list, ", "), text)
	}
	return nil
}

// numeric returns an error about a number that is out of its bounds; given is how it was written.
func numeric(v reflect.Value, bounds, given string) error {
	if low, high, ok := strings.Cut(bounds, ","); ok && !within(v, low, high) {
		return fmt.Errorf("%s is not between %s and %s", given, low, high)
	}
	return nil
}

// within reports whether a number is between low and high, in its own type.
func within(v reflect.Value, low, high string) bool {
	switch {
	case v.CanInt():
		a, errA := strconv.ParseInt(low, 10, 64)
		b, errB := strconv.ParseInt(high, 10, 64)
		return errA == nil && errB == nil && v.Int() >= a && v.Int() <= b
	case v.CanUint():
		a, errA := strconv.ParseUint(low, 10, 64)
		b, errB := strconv.ParseUint(high, 10, 64)
		return errA == nil && errB == nil && v.Uint() >= a && v.Uint() <= b
	case v.CanFloat():
		a, errA := strconv.ParseFloat(low, 64)
		b, errB := strconv.ParseFloat(high, 64)
		return errA == nil && errB == nil && v.Float() >= a && v.Float() <= b
	}
	return false
}

// shown returns the name of a field in errors; "" for an embedded one, whose fields stand in its place.
func shown(f reflect.StructField) string {
	name, embedded := NameOf(f)
	if key := f.Tag.Get("key"); key != "" && (name == "-" || f.Tag.Get("json") == "") {
		return strings.TrimPrefix(key, ".")
	}
	if embedded {
		return ""
	}
	return name
}

// NameOf returns a field's name in JSON; embedded reports that it has none because its own fields take its place.
func NameOf(f reflect.StructField) (name string, embedded bool) {
	name, _, _ = strings.Cut(f.Tag.Get("json"), ",")
	if name == "" && f.Anonymous {
		return "", true
	}
	name = cmp.Or(name, f.Name)
	return name, false
}
