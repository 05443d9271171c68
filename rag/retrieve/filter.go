package retrieve

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Filter selects contexts by fields of their documents. All conditions must hold, except that conditions with "=" on
// the same field are alternatives. The zero value selects all.
type Filter []Condition

// Condition compares a field of a document with a value.
type Condition struct {
	Field string // topic, document, source, path, title, collection, added, meta.KEY or label.KIND
	// Op is =, !=, <, <=, >, >=, ~ or !~. Two numbers are compared as numbers and everything else as text, so dates are
	// written 2024-03-31, and a year alone sorts before its days. ~ matches a pattern, in which * matches anything but
	// a slash, ** anything, and ? one character. A pattern without a slash is matched against the part of the value
	// after the last slash.
	Op    string
	Value string
}

// Record holds the fields of a context that a filter compares.
type Record struct {
	Document, Topic, Source, Path, Title, Collection string
	Added                                            string // RFC 3339
	// Meta holds further fields of the document. Labels holds entities named in the context, such as people, by kind.
	// If a field has several values, a condition holds if it holds for one of them.
	Meta, Labels map[string][]string
}

// The fields of a Condition besides meta.KEY, and its operators; an operator precedes its own prefixes, so that the
// longest one matches.
var (
	fields    = [...]string{"topic", "document", "source", "path", "title", "collection", "added"}
	operators = [...]string{"!=", "!~", "<=", ">=", "=", "~", "<", ">"}
)

// maxCondition bounds the bytes of a condition, because patterns are compiled to regular expressions.
const maxCondition = 4096

const (
	metaPrefix  = "meta."
	labelPrefix = "label."
)

// Labels splits a filter into conditions on documents and conditions on labels of contexts, and lists the kinds of the
// labels.
func (f Filter) Labels() (documents, labels Filter, kinds []string) {
	for _, c := range f {
		kind, label := strings.CutPrefix(c.Field, labelPrefix)
		if !label {
			documents = append(documents, c)
			continue
		}
		labels = append(labels, c)
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return documents, labels, kinds
}

// ParseFilter reads conditions such as "topic=physics", "source~docs/**" or "meta.year>=2020". The error for an invalid
// condition is ErrFilter.
func ParseFilter(conditions []string) (Filter, error) {
	var f Filter
	for _, text := range conditions {
		c, err := parseCondition(text)
		if err != nil {
			return nil, err
		}
		f = append(f, c)
	}
	return f, f.Check()
}

func parseCondition(text string) (c Condition, err error) {
	first := strings.IndexAny(text, "=!~<>")
	if first >= 0 {
		for _, op := range operators {
			if strings.HasPrefix(text[first:], op) {
				return Condition{strings.TrimSpace(text[:first]), op, strings.TrimSpace(text[first+len(op):])}, nil
			}
		}
	}
	return c, fmt.Errorf("%w: %q is not FIELD OPERATOR VALUE, such as topic=physics or meta.year>=2020 (operators: %s)",
		ErrFilter, text, strings.Join(operators[:], " "))
}

// UnmarshalText implements encoding.TextUnmarshaler, for requests.
func (c *Condition) UnmarshalText(text []byte) (err error) {
	if *c, err = parseCondition(string(text)); err != nil {
		return err
	}
	return Filter{*c}.Check()
}

// Check returns ErrFilter if a condition is invalid.
func (f Filter) Check() error {
	for _, c := range f {
		_, meta := strings.CutPrefix(c.Field, metaPrefix)
		_, label := strings.CutPrefix(c.Field, labelPrefix)
		switch {
		case len(c.Field)+len(c.Value) > maxCondition:
			return fmt.Errorf("%w: a condition is at most %d bytes long, given %d", ErrFilter, maxCondition,
				len(c.Field)+len(c.Value))
		case c.Field == metaPrefix || c.Field == labelPrefix:
			return fmt.Errorf("%w: %q names nothing behind %q", ErrFilter, c, c.Field)
		case !meta && !label && !slices.Contains(fields[:], c.Field):
			return fmt.Errorf("%w: %q has no field %q (known: %s, %sKEY, %sKIND)", ErrFilter, c, c.Field,
				strings.Join(fields[:], ", "), metaPrefix, labelPrefix)
		case !slices.Contains(operators[:], c.Op):
			return fmt.Errorf("%w: %q has no operator %q (known: %s)", ErrFilter, c, c.Op,
				strings.Join(operators[:], " "))
		case strings.ContainsRune(c.Field+c.Value, 0):
			return fmt.Errorf("%w: %q holds a NUL byte", ErrFilter, c)
		}
	}
	return nil
}

// Known returns ErrFilter if the filter compares a field meta.KEY that no document has. held contains the keys that
// documents have. Negated conditions may name unknown fields.
func (f Filter) Known(held map[string]bool) error {
	for _, c := range f {
		key, meta := strings.CutPrefix(c.Field, metaPrefix)
		if !meta || held[key] || len(held) == 0 || strings.HasPrefix(c.Op, "!") {
			continue
		}
		names := slices.Sorted(maps.Keys(held))
		return fmt.Errorf("%w: no document has the field %s (there are %s)", ErrFilter, c.Field,
			metaPrefix+strings.Join(names[:min(len(names), maxNamed)], ", "+metaPrefix))
	}
	return nil
}

// maxNamed is the number of fields that an error message lists.
const maxNamed = 20

// String formats the condition in the syntax of ParseFilter.
func (c Condition) String() string { return c.Field + c.Op + c.Value }

// String formats the filter for people, with alternatives next to each other.
func (f Filter) String() string {
	texts := make([]string, len(f))
	for i, c := range f {
		texts[i] = c.String()
	}
	return strings.Join(texts, ", ")
}

// Matcher compiles the filter into a predicate.
func (f Filter) Matcher() func(Record) bool {
	type group struct {
		field string
		any   []func(value string) bool
		not   bool // negated: holds if no value matches
	}
	var groups []*group
	alternatives := map[string]*group{}
	for _, c := range f {
		g := alternatives[c.Field]
		if c.Op != "=" || g == nil {
			g = &group{field: c.Field}
			groups = append(groups, g)
		}
		if c.Op == "=" {
			alternatives[c.Field] = g
		}
		op, negated := strings.CutPrefix(c.Op, "!")
		g.not = negated
		c.Op = op
		g.any = append(g.any, c.test())
	}
	return func(r Record) bool {
		for _, g := range groups {
			holds := slices.ContainsFunc(r.values(g.field), func(v string) bool {
				return slices.ContainsFunc(g.any, func(test func(string) bool) bool { return test(v) })
			})
			if holds == g.not {
				return false
			}
		}
		return true
	}
}

// values returns the values of a field.
func (r Record) values(field string) []string {
	if key, meta := strings.CutPrefix(field, metaPrefix); meta {
		return r.Meta[key]
	}
	if kind, label := strings.CutPrefix(field, labelPrefix); label {
		return r.Labels[kind]
	}
	value := map[string]string{"topic": r.Topic, "document": r.Document, "source": r.Source, "path": r.Path,
		"title": r.Title, "collection": r.Collection, "added": r.Added}[field]
	return []string{value}
}

// test returns the predicate of a condition for one value. The operator must not be a negated one.
func (c Condition) test() func(value string) bool {
	if c.Op == "~" {
		expression := Glob(c.Value)
		base := !strings.Contains(c.Value, "/")
		return func(v string) bool {
			if base {
				v = v[strings.LastIndexByte(v, '/')+1:]
			}
			return expression.MatchString(v)
		}
	}
	number, numeric := parseNumber(c.Value)
	return func(v string) bool {
		order := strings.Compare(v, c.Value)
		if x, ok := parseNumber(v); ok && numeric {
			order = cmp.Compare(x, number)
		} else if numeric && c.Op != "=" && !isDate(v) {
			return false // text is neither more nor less than a number
		}
		switch c.Op {
		case "=":
			return order == 0
		case "<":
			return order < 0
		case "<=":
			return order <= 0
		case ">":
			return order > 0
		}
		return order >= 0
	}
}

// isDate reports whether a text begins with a year and a month.
func isDate(s string) bool {
	if len(s) < 7 || s[4] != '-' {
		return false
	}
	for _, i := range [...]int{0, 1, 2, 3, 5, 6} {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

func parseNumber(s string) (x float64, ok bool) {
	x, err := strconv.ParseFloat(s, 64)
	return x, err == nil && !math.IsNaN(x)
}

// wildcards replaces the wildcards of a pattern that regexp.QuoteMeta has escaped; "**" comes before "*".
var wildcards = strings.NewReplacer(`\*\*`, `.*`, `\*`, `[^/]*`, `\?`, `[^/]`)

// Glob compiles a pattern into a regular expression. "*" and "?" match no slash, "**" does.
func Glob(pattern string) *regexp.Regexp {
	quoted := regexp.QuoteMeta(strings.ToValidUTF8(pattern, "\uFFFD"))
	return regexp.MustCompile(`(?s)\A` + wildcards.Replace(quoted) + `\z`)
}
