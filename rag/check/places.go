package check

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/entities"
)

// place is a sentence of a passage.
type place struct {
	passage    int
	in         int // its number within the passage
	start, end int
	text       string
	words      map[string]float64
	*content        // nil before it is needed
	dated      bool // content has dates and units
}

// Bounds of the work for one sentence, so that it grows with the length of the answer and of the passages alone.
const (
	mostPlaces = 6   // that a sentence is compared with
	mostOf     = 256 // places that are looked at for one word
	backwards  = 6   // sentences before a place where a name may stand that a pronoun takes up
)

// checker is an index of the passages that one answer is checked against.
type checker struct {
	Options
	passages    []string
	conventions []convention // of each passage
	places      []place
	first       []int                // the passage's first place
	pairs       []map[[2]string]bool // of each passage: words that follow each other
	beside      map[[2]string]bool   // of all passages: words with a capital that do
	stops       map[string]bool      // words that say nothing, as far as they were met
	steps       int                  // facts and words that were compared
	with        map[string][]int     // places that have a word
	capital     map[string]bool      // words with a capital that do not begin a sentence
	small       map[string]bool      // words without one
}

func (o Options) checker(passages []string) (*checker, error) {
	x := &checker{Options: o, passages: passages, with: map[string][]int{},
		capital: map[string]bool{}, small: map[string]bool{}, beside: map[[2]string]bool{}, stops: map[string]bool{}}
	for i, text := range passages {
		x.conventions = append(x.conventions, conventionOf(text, o.Language))
		x.first = append(x.first, len(x.places))
		pairs := map[[2]string]bool{}
		x.pairs = append(x.pairs, pairs)
		for n, s := range stretches(text) {
			words, err := o.weights(s.Text)
			if err != nil {
				return nil, err
			}
			for w := range words {
				if len(x.with[w]) < mostOf {
					x.with[w] = append(x.with[w], len(x.places))
				}
			}
			var before token
			for k, t := range tokens(s.Text) {
				pairs[[2]string{before.key, t.key}], pairs[[2]string{"", t.key}] = true, true
				if before.upper && t.upper {
					x.beside[[2]string{before.key, t.key}] = true
				}
				before = t
				if !t.upper {
					x.small[t.key] = true
				} else if k > 0 {
					x.capital[t.key] = true
				}
			}
			x.places = append(x.places,
				place{passage: i, in: n, start: s.Start, end: s.End, text: s.Text, words: words})
		}
	}
	return x, nil
}

// weights returns a text's words, each once, with their weights.
func (o Options) weights(text string) (map[string]float64, error) {
	list, err := o.Words(text)
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	words := make(map[string]float64, len(list))
	for _, w := range list {
		words[w.Term] = w.Weight
	}
	return words, nil
}

// stop reports whether a word has no weight at all.
func (x *checker) stop(word string) bool {
	stop, known := x.stops[word]
	if !known {
		list, err := x.Words(word)
		stop = err == nil && len(list) == 0
		x.stops[word] = stop
	}
	return stop
}

// nearest returns the places that have the largest weight of the given words.
func (x *checker) nearest(words map[string]float64, most int) []int {
	has := map[int]float64{}
	for _, w := range sorted(words) {
		for _, p := range x.with[w] {
			x.steps++
			has[p] += words[w]
		}
	}
	list := slices.SortedFunc(maps.Keys(has), func(a, b int) int { return cmp.Or(cmp.Compare(has[b], has[a]), a-b) })
	return list[:min(len(list), most)]
}

// sorted returns a map's keys in order, so that sums have the same rounding each time.
func sorted(words map[string]float64) []string { return slices.Sorted(maps.Keys(words)) }

// open analyses places that were not analysed yet, with their dates and units if asked.
func (x *checker) open(ctx context.Context, ids []int, dated bool) error {
	if !dated {
		for _, id := range ids {
			x.read(id)
		}
		return nil
	}
	ids = slices.DeleteFunc(slices.Clone(ids), func(id int) bool { return x.places[id].dated })
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = x.places[id].text
	}
	found, err := x.find(ctx, texts)
	if err != nil {
		return err
	}
	for i, id := range ids {
		p := &x.places[id]
		p.content, p.dated = x.contentOf(p.text, found[i], x.conventions[p.passage]), true
	}
	return nil
}

// read returns a place with its content, which may lack dates and units.
func (x *checker) read(id int) *place {
	p := &x.places[id]
	if p.content == nil {
		p.content = x.contentOf(p.text, nil, x.conventions[p.passage])
	}
	return p
}

// find returns the entities of texts.
func (x *checker) find(ctx context.Context, texts []string) ([][]entities.Entity, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	languages := make([]string, len(texts))
	for i := range languages {
		languages[i] = x.Language
	}
	found, _, err := x.Entities(ctx, texts, languages)
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	if len(found) != len(texts) {
		return nil, fmt.Errorf("check: %w: entities of %d texts, given %d", kernels.ErrShape, len(found), len(texts))
	}
	return found, nil
}
