package knowledge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
)

// DuplicateOptions say what near-duplicates are: both must hold. Chunks of the same heading and text always are.
type DuplicateOptions struct {
	Cosine  float64 // of the vectors, at least; 0 is DefaultDuplicateCosine
	Overlap float64 // of the texts' words, at least: ShareOfWords; 0 is DefaultDuplicateOverlap
}

// The defaults of DuplicateOptions. docs/adr/0014-chunks.md has the figures.
const (
	DefaultDuplicateCosine  = 0.85
	DefaultDuplicateOverlap = 0.60
)

// WithDefaults fills in what is zero.
func (o DuplicateOptions) WithDefaults() DuplicateOptions {
	o.Cosine = cmp.Or(o.Cosine, DefaultDuplicateCosine)
	o.Overlap = cmp.Or(o.Overlap, DefaultDuplicateOverlap)
	return o
}

// Check refuses what is not within 0 and 1 as ErrOption.
func (o DuplicateOptions) Check() error {
	for _, x := range []float64{o.Cosine, o.Overlap} {
		if !(x >= 0 && x <= 1) {
			return fmt.Errorf("%w: cosine %g, share of words %g: both from 0 to 1", ErrOption, o.Cosine, o.Overlap)
		}
	}
	return nil
}

// DuplicateGroup are chunks of which each is a duplicate of another one of them, in the store's order.
type DuplicateGroup struct {
	Chunks []DuplicateChunk `json:"chunks"`
}

// DuplicateChunk is one of a group.
type DuplicateChunk struct {
	ID       string  `json:"id"`
	Document string  `json:"document"`
	Source   string  `json:"source"`
	Text     string  `json:"text"`
	Of       string  `json:"of,omitempty"` // the chunk before it that it is a duplicate of; "" for the first one
	Cosine   float64 `json:"cosine,omitempty"`
	Overlap  float64 `json:"overlap,omitempty"` // share of words
}

// Each block of so many chunks is compared with all before it, and of each so many nearest ones are looked at. Groups
// of more near-duplicates hang together by these.
const (
	duplicateBlock   = 2048
	duplicateNearest = 8
)

// link is a duplicate and an earlier chunk, by their rows.
type link struct {
	of              int
	cosine, overlap float64
}

// Duplicates finds the chunks that are in the store more than once, alike or nearly. Vectors are compared by the
// engine, a block with all before it at a time; the texts of those that are near enough are then compared by their
// words.
func (s *Snapshot) Duplicates(ctx context.Context, o DuplicateOptions) ([]DuplicateGroup, error) {
	o = o.WithDefaults()
	if err := o.Check(); err != nil {
		return nil, err
	}
	links := map[int]link{}
	first := map[[sha256.Size]byte]int{} // of each text, its first row
	var rows []int                       // without exact duplicates
	for i := range s.View.IDs {
		if s.View.Deleted(i) {
			continue
		}
		if at, again := first[s.View.Digests[i]]; again {
			links[i] = link{of: at, cosine: 1, overlap: 1}
			continue
		}
		first[s.View.Digests[i]] = i
		rows = append(rows, i)
	}
	if err := s.nearDuplicates(ctx, rows, o, links); err != nil {
		return nil, s.base.unlessClosed(err)
	}
	return s.duplicateGroups(ctx, links)
}

// nearDuplicates adds a link for each row that is a near-duplicate of one before it: the nearest such one.
func (s *Snapshot) nearDuplicates(ctx context.Context, rows []int, o DuplicateOptions, links map[int]link) error {
	v := compact(s.View.Vectors, rows)
	words := map[int][]uint64{}
	for from := 0; from < len(rows); from += duplicateBlock {
		to := min(from+duplicateBlock, len(rows))
		hits, err := s.base.cfg.Engine.TopK(ctx, part(v, from, to), part(v, 0, to), kernels.Cosine, duplicateNearest,
			nil)
		if err != nil {
			return err
		}
		pairs := map[int][]engine.Hit{} // by row, the nearer first
		var need []int
		for i, list := range hits {
			for _, h := range list {
				if h.Row < from+i && h.Score >= o.Cosine {
					pairs[from+i] = append(pairs[from+i], h)
					need = append(need, from+i, h.Row)
				}
			}
		}
		if err := s.wordsOf(ctx, rows, need, words); err != nil {
			return err
		}
		for i := from; i < to; i++ {
			for _, h := range pairs[i] {
				if share := jaccard(words[i], words[h.Row]); share >= o.Overlap {
					links[rows[i]] = link{rows[h.Row], h.Score, share}
					break
				}
			}
		}
	}
	return nil
}

// compact returns the rows of v without the others: v itself if these are all.
func compact(v engine.Vectors, rows []int) engine.Vectors {
	if len(rows) == v.Rows {
		return v
	}
	out := engine.Vectors{Rows: len(rows), Dim: v.Dim, Stride: v.Dim, Data: make([]float32, 0, len(rows)*v.Dim)}
	stride := max(v.Stride, v.Dim)
	for _, r := range rows {
		out.Data = append(out.Data, v.Data[r*stride:][:v.Dim]...)
	}
	return out
}

// part returns the rows from … to-1 of v.
func part(v engine.Vectors, from, to int) engine.Vectors {
	return engine.Vectors{Rows: to - from, Dim: v.Dim, Stride: v.Stride,
		Data: v.Data[from*v.Stride : (to-1)*v.Stride+v.Dim]}
}

// wordsOf reads the texts of rows and keeps their words, by their place in rows.
func (s *Snapshot) wordsOf(ctx context.Context, rows, need []int, words map[int][]uint64) error {
	slices.Sort(need)
	need = slices.DeleteFunc(slices.Compact(need), func(i int) bool { return words[i] != nil })
	for chunk := range slices.Chunk(need, 512) {
		ids := make([]string, len(chunk))
		for i, at := range chunk {
			ids[i] = s.View.IDs[rows[at]]
		}
		texts, err := s.View.Chunks(ctx, ids)
		if err != nil {
			return err
		}
		for i, at := range chunk {
			words[at] = shingles(texts[i].Text)
		}
	}
	return nil
}

// duplicateGroups joins what is linked.
func (s *Snapshot) duplicateGroups(ctx context.Context, links map[int]link) ([]DuplicateGroup, error) {
	root := map[int]int{}
	var find func(int) int
	find = func(i int) int { // links lead to earlier rows only, and paths are shortened as rows ascend
		if l, ok := links[i]; ok {
			if r, known := root[l.of]; known {
				return r
			}
			return find(l.of)
		}
		return i
	}
	members := map[int][]int{}
	for _, i := range slices.Sorted(maps.Keys(links)) {
		r := find(i)
		root[i] = r
		members[r] = append(members[r], i)
	}
	groups := make([]DuplicateGroup, 0, len(members))
	for _, i := range slices.Sorted(maps.Keys(members)) {
		list := append([]int{i}, members[i]...)
		ids := make([]string, len(list))
		for k, r := range list {
			ids[k] = s.View.IDs[r]
		}
		chunks, err := s.View.Chunks(ctx, ids)
		if err != nil {
			return nil, s.base.unlessClosed(err)
		}
		group := make([]DuplicateChunk, len(chunks))
		for k, c := range chunks {
			group[k] = DuplicateChunk{ID: c.ID, Document: c.Document, Source: c.Source, Text: c.Text}
			if l, ok := links[list[k]]; ok {
				group[k].Of, group[k].Cosine, group[k].Overlap = s.View.IDs[l.of], l.cosine, l.overlap
			}
		}
		groups = append(groups, DuplicateGroup{group})
	}
	return groups, nil
}

// ShareOfWords returns how much of the words of two texts is in both: the share of the pairs of neighbouring words,
// without case and punctuation, that both have, of those that any has.
func ShareOfWords(a, b string) float64 { return jaccard(shingles(a), shingles(b)) }

// shingles returns the pairs of neighbouring words of a text as sorted numbers; of a text of one word, that.
func shingles(text string) []uint64 {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r)
	})
	out := make([]uint64, 0, len(words))
	for i, w := range words {
		if i+1 < len(words) {
			out = append(out, maphash.String(shingleSeed, w+" "+words[i+1]))
		} else if i == 0 {
			out = append(out, maphash.String(shingleSeed, w))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// shingleSeed is of this process: the numbers are compared with each other only.
var shingleSeed = maphash.MakeSeed()

// jaccard returns the share of what any of two sorted lists has that both have; 1 of two empty ones.
func jaccard(a, b []uint64) float64 {
	both, i, j := 0, 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			both, i, j = both+1, i+1, j+1
		case a[i] < b[j]:
			i++
		default:
			j++
		}
	}
	if any := len(a) + len(b) - both; any > 0 {
		return float64(both) / float64(any)
	}
	return 1
}
