package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Field is one setting as the table has it.
type Field struct {
	Key     string // "ask.max_tokens"
	Env     string // "SLUICE_ASK_MAX_TOKENS"
	Default string
	Doc     string
	OneOf   []string // the words that are allowed; nil allows any
	Kind    reflect.Kind
	Secret  bool // shown as "(set)" or "(not set)" only

	pairs    bool // NAME=VALUE with commas between them, which a file may write as a mapping
	min, max string
	words    string
}

// Fields returns the table in the order of Config.
func Fields() []Field {
	documented := map[string]row{}
	for _, r := range table() {
		documented[r.key] = r
	}
	return walk(reflect.TypeFor[Config](), "", documented)
}

func walk(t reflect.Type, prefix string, documented map[string]row) (fields []Field) {
	for i := range t.NumField() {
		f := t.Field(i)
		key := prefix + f.Tag.Get("koanf")
		if f.Type.Kind() == reflect.Struct {
			fields = append(fields, walk(f.Type, key+".", documented)...)
			continue
		}
		fields = append(fields, documented[key].field(key, f.Type))
	}
	return fields
}

// field is what a row says of the field of that key and type.
func (r row) field(key string, t reflect.Type) Field {
	return Field{
		Key: key, Env: envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_")),
		Default: r.text(t), Doc: r.doc, OneOf: strings.Fields(r.oneOf), Kind: t.Kind(),
		Secret: r.secret, pairs: r.pairs, min: r.min, max: r.max, words: r.words,
	}
}

// text is the default as a file or flag would give it.
func (r row) text(t reflect.Type) string {
	if r.initial == nil {
		return fmt.Sprint(reflect.Zero(t))
	}
	return fmt.Sprint(r.initial)
}

// Lookup returns the field of a key. It makes that one only: a command line asks for hundreds at every start.
func Lookup(key string) (Field, bool) {
	t, names := reflect.TypeFor[Config](), strings.Split(key, ".")
	for _, name := range names {
		if t.Kind() != reflect.Struct {
			return Field{}, false
		}
		inside := t
		t = nil
		for i := range inside.NumField() {
			if f := inside.Field(i); f.Tag.Get("koanf") == name {
				t = f.Type
			}
		}
		if t == nil {
			return Field{}, false
		}
	}
	if t.Kind() == reflect.Struct {
		return Field{}, false
	}
	for _, r := range table() {
		if r.key == key {
			return r.field(key, t), true
		}
	}
	return row{}.field(key, t), true
}

// parse turns a value's text into the field's type and checks its limits. The error says the limit and the value.
func (f Field) parse(text string) (v any, err error) {
	switch f.Kind {
	case reflect.String:
		if strings.ContainsRune(text, 0) {
			if f.Secret {
				text = "(the value)"
			}
			return nil, fmt.Errorf("%q holds a NUL byte", text)
		}
		if len(f.OneOf) > 0 && !slices.Contains(f.OneOf, text) {
			return nil, fmt.Errorf("must be one of %s, given %q", strings.Join(f.OneOf, ", "), text)
		}
		return text, nil
	case reflect.Int:
		v, err = strconv.Atoi(f.number(strings.TrimSpace(text)))
	case reflect.Uint64:
		v, err = strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	case reflect.Float64:
		v, err = strconv.ParseFloat(strings.TrimSpace(text), 64)
	case reflect.Bool:
		v, err = strconv.ParseBool(strings.TrimSpace(text))
	}
	if err != nil {
		return nil, fmt.Errorf("must be %s, given %q", article(f.Kind), text)
	}
	return v, f.limits(v, text)
}

// number is what a word stands for; another text stays.
func (f Field) number(text string) string {
	for _, w := range strings.Fields(f.words) {
		if word, number, _ := strings.Cut(w, "="); word == text {
			return number
		}
	}
	return text
}

func (f Field) limits(v any, text string) error {
	x := reflect.ValueOf(v)
	var n float64
	switch {
	case x.CanInt():
		n = float64(x.Int())
	case x.CanUint():
		n = float64(x.Uint())
	case x.CanFloat():
		n = x.Float()
	default:
		return nil
	}
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return fmt.Errorf("must be a finite number, given %s", text)
	}
	low, errLow := strconv.ParseFloat(f.min, 64)
	high, errHigh := strconv.ParseFloat(f.max, 64)
	if errLow == nil && n < low {
		return fmt.Errorf("must be at least %s, given %s", f.min, text)
	}
	if errHigh == nil && n > high {
		return fmt.Errorf("must be at most %s, given %s", f.max, text)
	}
	return nil
}

func article(k reflect.Kind) string {
	switch k {
	case reflect.Int:
		return "a whole number"
	case reflect.Uint64:
		return "a whole number from 0"
	case reflect.Float64:
		return "a number"
	}
	return "true or false"
}

// Nearest returns the candidate with the smallest edit distance, and that distance.
func Nearest(word string, candidates []string) (best string, distance int) {
	distance = len(word) + 1
	for _, c := range candidates {
		if d := editDistance(word, c); d < distance {
			best, distance = c, d
		}
	}
	return best, distance
}

// editDistance is Levenshtein's, over bytes: the names are ASCII.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
