package entities

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/embed"
)

// The kinds of entities.
const (
	Person       = "person"
	Place        = "place"
	Organisation = "organisation"
	Date         = "date"
	Quantity     = "quantity"
)

// Entity is a part of a text.
type Entity struct {
	Kind       string
	Text       string // text[Start:End]
	Start, End int    // bytes
	// Value is what entities are compared by: of a date 1867-11-07, 1867-11, 1867, --11-07 (no year) or 19th century;
	// of a quantity a number and a unit, as "2500000000 USD"; of a country its English name; else Text.
	Value string
}

// version changes when other entities come of the same text.
const version = 1

// Finder finds entities. Its methods may be called from any goroutine.
type Finder struct {
	names  embed.Tagger // nil: rules
	places gazetteer
	first  map[string]bool // first names
}

// New makes a Finder. names finds people, places and organisations; nil takes rules for that, which find fewer.
func New(names embed.Tagger) *Finder {
	return &Finder{names: names, places: newGazetteer(), first: firstNames()}
}

// Name says what finds the entities; texts have the same ones under the same name.
func (f *Finder) Name() string {
	if f.names == nil {
		return fmt.Sprintf("rules/%d", version)
	}
	info := f.names.Info()
	return fmt.Sprintf("rules/%d %s %s", version, info.Name, info.Digest)
}

// Find returns the entities of each text; languages has the ISO 639-1 code of each, or "". truncated counts the texts
// that the token classifier did not read to their end.
func (f *Finder) Find(
	ctx context.Context, texts, languages []string,
) (found [][]Entity, truncated int, err error) {
	found = make([][]Entity, len(texts))
	if f.names != nil && len(texts) > 0 {
		spans, err := f.names.Spans(ctx, texts)
		if err != nil {
			return nil, 0, fmt.Errorf("entities: %w", err)
		}
		truncated = spans.Truncated
		for i, list := range spans.Texts {
			for _, s := range list {
				if kind := kindOf(s.Label); kind != "" {
					found[i] = append(found[i], f.named(kind, texts[i], s.Start, s.End))
				}
			}
		}
	}
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		german := languages[i] == "de"
		all := append(dates(text, german), quantities(text, german)...)
		if f.names == nil {
			all = append(all, f.rules(text)...)
		}
		found[i] = apart(append(all, found[i]...))
	}
	return found, truncated, nil
}

// kindOf returns the kind of a token classifier's label: those of CoNLL 2003 and of OntoNotes.
func kindOf(label string) string {
	switch strings.ToUpper(label) {
	case "PER", "PERSON":
		return Person
	case "LOC", "GPE", "FAC", "LOCATION":
		return Place
	case "ORG", "ORGANIZATION", "ORGANISATION":
		return Organisation
	}
	return ""
}

// named returns an entity with its value.
func (f *Finder) named(kind, text string, start, end int) Entity {
	e := Entity{Kind: kind, Text: text[start:end], Start: start, End: end}
	e.Value = strings.Join(strings.Fields(e.Text), " ")
	if kind == Place {
		e.Value = cmp.Or(f.places.country[strings.ToLower(e.Value)], e.Value)
	}
	return e
}

// apart sorts entities by their place and leaves out what overlaps a longer one, or one before it in the list.
func apart(all []Entity) []Entity {
	slices.SortStableFunc(all, func(a, b Entity) int { return cmp.Compare(b.End-b.Start, a.End-a.Start) })
	var out []Entity
	taken := map[int]bool{} // bytes of out
	for _, e := range all {
		if e.Start >= e.End || taken[e.Start] || taken[e.End-1] { // those of out are no shorter
			continue
		}
		for i := e.Start; i < e.End; i++ {
			taken[i] = true
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b Entity) int { return cmp.Compare(a.Start, b.Start) })
	return out
}
