// Package settings derives everything that names an option from the one tagged field that has it: the key of the
// settings file, the variable, the flag with its help, the field of a request and its allowed values. The tags are:
//
//	doc      description for people; a field without it is not a setting
//	json     its name, also in requests
//	key      its name if requests may not set it; with a leading dot it is relative to the root of the settings
//	bounds   "LEAST,GREATEST" of a number, in its unit
//	request  the greatest value in a request, if it is less
//	go       bounds for callers in Go, if they are wider
//	oneof    the allowed words, separated by spaces; without it all are allowed
//	words    words that stand for numbers, as WORD=NUMBER separated by spaces
//	unit     MiB, GiB, s or h: the unit for people; the field has bytes or a time.Duration
//	flag     its name on the command line, if it is not the last part of the key; "-" if it has none
//	pairs    "true": a list of NAME=VALUE, which a file may write as a mapping
//	secret   "true": it is never shown
package settings

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Field is a setting of a struct.
type Field struct {
	Key    string // "ask.max_tokens"
	Flag   string // "max-tokens"
	Doc    string
	OneOf  []string // the words that are allowed; nil allows any
	Type   reflect.Type
	Secret bool // shown as "(set)" or "(not set)" only

	tag   reflect.StructTag
	index []int
}

// Fields lists the settings of a struct and of its named structs, in their order.
func Fields(t reflect.Type) []Field { return fields(t, "", nil) }

func fields(t reflect.Type, prefix string, index []int) (list []Field) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, doc, at := keyOf(f), f.Tag.Get("doc"), append(slices.Clone(index), i)
		key := prefix + name
		if root, ok := strings.CutPrefix(name, "."); ok {
			key = root
		}
		switch {
		case doc != "":
			flag := f.Tag.Get("flag")
			flag = cmp.Or(flag, strings.ReplaceAll(key[strings.LastIndexByte(key, '.')+1:], "_", "-"))
			list = append(list, Field{Key: key, Flag: flag, Doc: doc, OneOf: strings.Fields(f.Tag.Get("oneof")),
				Type: f.Type, Secret: f.Tag.Get("secret") != "", tag: f.Tag, index: at})
		case f.Type.Kind() == reflect.Struct && name != "":
			list = append(list, fields(f.Type, key+".", at)...)
		case f.Type.Kind() == reflect.Struct && f.Anonymous:
			list = append(list, fields(f.Type, prefix, at)...)
		}
	}
	return list
}

func keyOf(f reflect.StructField) string {
	if key := f.Tag.Get("key"); key != "" {
		return key
	}
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return strings.TrimPrefix(name, "-")
}

// Bounds returns the least and the greatest value; ok is false if there are no bounds.
func (f Field) Bounds() (least, greatest string, ok bool) {
	return strings.Cut(f.tag.Get("bounds"), ",")
}

// Limits describes what is allowed, as "one of a, b" or "0 to 2"; "" if anything is.
func (f Field) Limits() string {
	if len(f.OneOf) > 0 {
		return "one of " + strings.Join(f.OneOf, ", ")
	}
	if least, greatest, ok := f.Bounds(); ok {
		return least + " to " + greatest
	}
	return ""
}

// Pairs reports whether it is a comma-separated list of NAME=VALUE, which a file may write as a mapping.
func (f Field) Pairs() bool { return f.tag.Get("pairs") != "" }

// Switch reports whether it is true or false.
func (f Field) Switch() bool { return f.Type.Kind() == reflect.Bool }

// Value returns the field's value in a struct as people write it: a number in its unit, a list as words separated by
// commas.
func (f Field) Value(of reflect.Value) any {
	v := of.FieldByIndex(f.index)
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Slice:
		return strings.Join(v.Interface().([]string), ",")
	case reflect.Map:
		var pairs []string
		for name, value := range v.Interface().(map[string]string) {
			pairs = append(pairs, name+"="+value)
		}
		slices.Sort(pairs)
		return strings.Join(pairs, ",")
	}
	return inUnit(v, f.tag).Interface()
}

// Text is Value as a file or a flag would give it.
func (f Field) Text(of reflect.Value) string { return fmt.Sprint(f.Value(of)) }

// inUnit returns a number in the unit of its tag.
func inUnit(v reflect.Value, tag reflect.StructTag) reflect.Value {
	unit := unitOf(tag)
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		return reflect.ValueOf(float64(v.Int()) / float64(unit))
	case unit > 1:
		return reflect.ValueOf(v.Int() / unit)
	}
	return v
}

func unitOf(tag reflect.StructTag) int64 {
	switch tag.Get("unit") {
	case "MiB":
		return 1 << 20
	case "GiB":
		return 1 << 30
	case "s":
		return int64(time.Second)
	case "h":
		return int64(time.Hour)
	}
	return 1
}

// Set parses a text into the field's value in a struct. The error has the limit and the text.
func (f Field) Set(of reflect.Value, text string) error {
	v, given := of.FieldByIndex(f.index), text
	if text = strings.TrimSpace(text); v.Kind() == reflect.String {
		text = given
	}
	if strings.ContainsRune(text, 0) {
		if f.Secret {
			text = "(the value)"
		}
		return fmt.Errorf("%q holds a NUL byte", text)
	}
	switch {
	case v.Kind() == reflect.Slice:
		v.Set(reflect.ValueOf(list(text)))
	case v.Kind() == reflect.Map:
		var pairs map[string]string
		for _, pair := range list(text) {
			name, value, ok := strings.Cut(pair, "=")
			if name, value = strings.TrimSpace(name), strings.TrimSpace(value); !ok || name == "" || value == "" {
				return fmt.Errorf("must be NAME=VALUE,NAME=VALUE, given %q", text)
			}
			if pairs == nil {
				pairs = map[string]string{}
			}
			pairs[name] = value
		}
		v.Set(reflect.ValueOf(pairs))
	case v.Kind() == reflect.String:
		if err := word(f.tag, text); err != nil {
			return err
		}
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		on, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is not true or false", given)
		}
		v.SetBool(on)
	default:
		return f.setNumber(v, f.number(text), given)
	}
	return nil
}

// setNumber parses a number in its unit, checks it, and only then multiplies it.
func (f Field) setNumber(v reflect.Value, text, given string) error {
	var err error
	unit, what := unitOf(f.tag), "a whole number"
	n := reflect.New(v.Type()).Elem()
	switch {
	case v.CanFloat() || v.Type() == reflect.TypeFor[time.Duration]():
		var x float64
		if x, err = strconv.ParseFloat(text, 64); err != nil {
			return fmt.Errorf("%q is not a number", given)
		}
		if err = numeric(reflect.ValueOf(x), f.tag.Get("bounds"), given); err == nil && v.CanFloat() {
			v.SetFloat(x)
		} else if err == nil {
			v.SetInt(int64(x * float64(unit)))
		}
		return err
	case v.CanUint():
		var x uint64
		what += " from 0"
		x, err = strconv.ParseUint(text, 10, 64)
		n.SetUint(x)
	default:
		var x int64
		x, err = strconv.ParseInt(text, 10, 64)
		n.SetInt(x)
	}
	if err != nil {
		return fmt.Errorf("%q is not %s", given, what)
	}
	if err := numeric(n, f.tag.Get("bounds"), given); err != nil {
		return err
	}
	if unit > 1 {
		n.SetInt(n.Int() * unit)
	}
	v.Set(n)
	return nil
}

// number returns the number that a word stands for; other texts are unchanged.
func (f Field) number(text string) string {
	for w := range strings.FieldsSeq(f.tag.Get("words")) {
		if word, number, _ := strings.Cut(w, "="); word == text {
			return number
		}
	}
	return text
}

// list returns the words between the commas.
func list(text string) (words []string) {
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, word)
		}
	}
	return words
}
