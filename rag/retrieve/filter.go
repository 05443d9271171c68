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

// Filter selects contexts by what is known of their documents. All conditions must hold; those with "=" that name the
// same field are alternatives. The zero value selects all.
type Filter []Condition

// Condition compares a field of a document with a value.
type Condition struct {
	Field string // topic, document, source, path, title, collection, added, meta.KEY or label.KIND
	// Op is =, !=, <, <=, >, >=, ~ or !~. Two numbers are compared as numbers, anything else as text, so that dates go
	// as 2024-03-31; a year alone comes before its days. ~ takes a pattern: * is anything but a slash, ** anything, ?
	// one character; one without a slash is compared with what stands behind the last one.
	Op    string
	Value string
}

// Record is what a filter knows of a context.
type Record struct {
	Document, Topic, Source, Path, Title, Collection string
	Added                                            string // RFC 3339
	// Meta are further fields of the document, Labels what is said in the context, such as the people that it names,
	// by kind. There may be several values: a condition holds if it does for one.
	Meta, Labels map[string][]string
}

// The fields of a Condition besides meta.KEY, and its operators; those that begin with another one come first.
var (
	fields    = [...]string{"topic", "document", "source", "path", "title", "collection", "added"}
	operators = [...]string{"!=", "!~", "<=", ">=", "=", "~", "<", ">"}
)

// maxCondition bounds a condition: patterns become regular expressions.
const maxCondition = 4096

const (
	metaPrefix  = "meta."
	labelPrefix = "label."
)

// Labels splits a filter into what it says of documents and what of the labels of contexts, and lists the kinds of
// these.
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

// ParseFilter reads conditions such as "topic=physics", "source~docs/**" or "meta.year>=2020"; ErrFilter says what is
// wrong with one.
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

// Check says what is wrong with a filter: ErrFilter.
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

// Known says which fields of a filter no document has, of those whose names documents have: ErrFilter. What a condition
// denies may be missing everywhere.
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

// maxNamed is how many fields a message names.
const maxNamed = 20

// String is the condition as ParseFilter reads it.
func (c Condition) String() string { return c.Field + c.Op + c.Value }

// String is the filter for a reader: conditions that are alternatives stand together.
func (f Filter) String() string {
	texts := make([]string, len(f))
	for i, c := range f {
		texts[i] = c.String()
	}
	return strings.Join(texts, ", ")
}

// Matcher makes the filter ready for many records.
func (f Filter) Matcher() func(Record) bool {
	type group struct {
		field string
		any   []func(value string) bool
		not   bool // holds where no value does
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

// test is the condition for one value; its operator is not negated.
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

// isDate tells whether a text begins with a year and a month.
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

// Glob is a pattern of ids as a regular expression: "*" and "?" stay between slashes, "**" does not.
func Glob(pattern string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for i := 0; i < len(pattern); {
		switch {
		case strings.HasPrefix(pattern[i:], "**"):
			b.WriteString(`.*`)
			i += 2
			continue
		case pattern[i] == '*':
			b.WriteString(`[^/]*`)
		case pattern[i] == '?':
			b.WriteString(`[^/]`)
		default:
			end := i + 1
			for end < len(pattern) && pattern[end] != '*' && pattern[end] != '?' {
				end++
			}
			b.WriteString(regexp.QuoteMeta(strings.ToValidUTF8(pattern[i:end], "\uFFFD")))
			i = end
			continue
		}
		i++
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String())
}
