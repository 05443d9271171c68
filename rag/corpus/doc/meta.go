package doc

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	tags "golang.org/x/text/language"
)

// Meta is the metadata of a document's source, by name: strings, numbers (json.Number), booleans, and lists of these.
// Dates are strings.
type Meta map[string]any

// Limits of metadata: a larger value in bytes, or a longer list, is data and not kept.
const (
	maxMetaBytes  = 64 << 10
	maxMetaValues = 100
	maxMetaDepth  = 8
)

// AccessKey is the key of the groups that may read a document: a text or a list of texts. A document without it is for
// everybody. A value that names no group, or cannot be read, is kept as an empty list: nobody is meant, rather than
// everybody.
const AccessKey = "access"

// Groups returns the groups that a value of AccessKey names, none if it cannot be read.
func Groups(raw json.RawMessage) []string {
	var value any
	_ = json.Unmarshal(raw, &value) // text that is not JSON names no group
	return Meta{AccessKey: Access(value)}.Texts(AccessKey)
}

// Access returns a value of AccessKey as it is kept.
func Access(value any) any {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	groups := []any{}
	for _, g := range list {
		name, ok := g.(string)
		if name = strings.TrimSpace(Clean(name)); !ok || name == "" || len(list) > maxMetaValues {
			return []any{}
		}
		groups = append(groups, name)
	}
	return groups
}

// UnmarshalJSON keeps numbers as they are written.
func (m *Meta) UnmarshalJSON(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode((*map[string]any)(m))
}

// Texts returns the values of a key as texts.
func (m Meta) Texts(key string) []string {
	list, ok := m[key].([]any)
	if !ok {
		list = []any{m[key]}
	}
	var texts []string
	for _, v := range list {
		switch v := v.(type) {
		case string:
			texts = append(texts, v)
		case json.Number:
			texts = append(texts, v.String())
		case float64:
			texts = append(texts, strconv.FormatFloat(v, 'g', -1, 64))
		case bool:
			texts = append(texts, strconv.FormatBool(v))
		}
	}
	return texts
}

// Text returns the value of a key as a text, or "".
func (m Meta) Text(key string) string { return strings.Join(m.Texts(key), ", ") }

// mostWords bounds the words of metadata, and mostValue one of its values, in bytes.
const (
	mostWords = 1000
	mostValue = 200
)

// Words returns what metadata says of a document in words: texts, numbers, and the years of dates, each on a line, in
// the order of their keys. It leaves out how a document was made and who may read it.
func (m Meta) Words() string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(m)) {
		switch key {
		case AccessKey, CreatedKey, ModifiedKey, LanguageKey, PagesKey, OCRKey, EncodingKey, CodeKey, "date",
			"message-id", "chunking", "cleaning", "entities", "topic_by", "fetched", "expires", "page_title":
			continue
		}
		for _, value := range m.Texts(key) {
			if at, err := time.Parse(time.DateOnly, value[:min(len(value), len(time.DateOnly))]); err == nil {
				value = strconv.Itoa(at.Year())
			}
			if value == "true" || value == "false" || len(value) > mostValue || b.Len()+len(value) > mostWords {
				continue
			}
			b.WriteString(value + "\n")
		}
	}
	return b.String()
}

// Keep adds a value of JSON or YAML. A value in an object is named by its path ("author.name").
func (m Meta) Keep(key string, value any, inList bool, depth int) {
	if key == AccessKey {
		m[key] = Access(value)
		return
	}
	switch v := value.(type) {
	case nil:
	case map[string]any:
		if depth < maxMetaDepth {
			for _, name := range slices.Sorted(maps.Keys(v)) {
				m.Keep(key+"."+name, v[name], inList, depth+1)
			}
		}
	case []any:
		if len(v) <= maxMetaValues && depth < maxMetaDepth {
			for _, x := range v {
				m.Keep(key, x, true, depth+1)
			}
		}
	default:
		if s, ok := v.(string); ok {
			v = Clean(s)
		}
		if before := m[key]; before == nil && !inList {
			m[key] = v
		} else if list, ok := before.([]any); ok && len(list) < maxMetaValues {
			m[key] = append(list, v)
		} else if !ok && before == nil {
			m[key] = []any{v}
		}
	}
}

// KeepMeta keeps a field of a JSON line that is not a string.
func (d *Document) KeepMeta(key string, raw []byte) {
	if key == AccessKey {
		d.SetMeta(key, []any{}) // unless it is read
	}
	if len(raw) > maxMetaBytes {
		return
	}
	var value map[string]any
	in := json.NewDecoder(bytes.NewReader(slices.Concat([]byte(`{"":`), raw, []byte("}"))))
	in.UseNumber()
	if in.Decode(&value) != nil {
		return
	}
	if d.Meta == nil {
		d.Meta = Meta{}
	}
	d.Meta.Keep(key, value[""], false, 0)
}

// YAMLValue returns the value of a node. Aliases are resolved, so that a few lines may have any number of values: left
// counts down those that are read.
func YAMLValue(n *yaml.Node, depth int, left *int) any {
	if *left--; *left < 0 || depth > maxMetaDepth {
		return nil
	}
	switch n.Kind {
	case yaml.AliasNode:
		return YAMLValue(n.Alias, depth+1, left)
	case yaml.SequenceNode:
		if len(n.Content) > maxMetaValues {
			return nil
		}
		var list []any
		for _, x := range n.Content {
			list = append(list, YAMLValue(x, depth+1, left))
		}
		return list
	case yaml.MappingNode:
		values := map[string]any{}
		for i := 0; i+1 < len(n.Content) && *left >= 0; i += 2 {
			if key := n.Content[i]; key.Kind == yaml.ScalarNode {
				values[key.Value] = YAMLValue(n.Content[i+1], depth+1, left)
			}
		}
		return values
	case yaml.ScalarNode:
		return yamlScalar(n)
	}
	return nil
}

func yamlScalar(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return b
		}
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return json.Number(n.Value)
		}
		var x any
		if n.Decode(&x) == nil {
			if raw, err := json.Marshal(x); err == nil { // not an infinite number
				return json.Number(raw)
			}
		}
	}
	return n.Value
}

// SetMeta sets a value of the metadata.
func (d *Document) SetMeta(key string, value any) {
	if d.Meta == nil {
		d.Meta = Meta{}
	}
	d.Meta[key] = value
}

// EncodingKey is the metadata key of the encoding of a document's source, unless that is UTF-8.
const EncodingKey = "encoding"

// CodeKey is the metadata key of a document's programming language.
const CodeKey = "code"

// OCRKey is the metadata key of the mean confidence of text that was read in pictures, 0 to 1.
const OCRKey = "ocr"

// The keys of the metadata that a source has about itself. Dates are in RFC 3339, in UTC if the source gives a time
// zone, and days as 2006-01-02.
const (
	AuthorKey   = "author"
	CreatedKey  = "created"
	ModifiedKey = "modified" // from the source; else when its file was changed
	LanguageKey = "language" // ISO 639-1
	PagesKey    = "pages"
)

// Property keeps a property of a source under a key, unless it is empty or the key is set.
func (d *Document) Property(key, value string) {
	value = strings.Join(strings.Fields(Clean(value)), " ")
	switch key {
	case CreatedKey, ModifiedKey:
		value = dateSaid(value)
	case LanguageKey:
		value = languageSaid(value)
	case AuthorKey:
		if lower := strings.ToLower(value); lower == "anonymous" || lower == "unknown" { // programs' placeholders
			return
		}
	}
	if value == "" || d.Meta[key] != nil || len(value) > MaxProperty {
		return
	}
	d.SetMeta(key, value)
}

// MaxProperty bounds a property, in bytes.
const MaxProperty = 1000

// dateSaid returns a date in the form of the metadata, or "" for an invalid one.
func dateSaid(text string) string {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05",
		"2006-01-02", "2006-01", "2006", time.RFC1123Z, time.RFC1123, "Mon, _2 Jan 2006 15:04:05 -0700",
		"_2 Jan 2006 15:04:05 -0700", "Mon, _2 Jan 2006 15:04:05 MST"} {
		at, err := time.Parse(layout, text)
		if err != nil || at.Year() < 1000 || at.Year() > 9999 {
			continue
		}
		if len(layout) <= len("2006-01-02") {
			return at.Format(layout)
		}
		return at.UTC().Format(time.RFC3339)
	}
	return ""
}

// languageSaid returns the language of a tag such as "en-US" in ISO 639-1; "" if it is invalid or has no such code.
func languageSaid(tag string) string {
	t, err := tags.Parse(tag)
	if err != nil {
		return ""
	}
	base, sure := t.Base()
	if code := base.String(); len(code) == 2 && sure == tags.Exact {
		return code
	}
	return ""
}
