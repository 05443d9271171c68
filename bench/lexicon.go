package bench

import (
	"math"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"

	"github.com/sluice-rag/sluice/engine"
)

// lexicon holds the stems of a base's texts: which rows have which.
type lexicon struct {
	number  map[string]int32 // of each stem
	idf     []float64        // of each stem, as in BM25: ln(1 + (n − df + ½)/(df + ½))
	unknown float64          // idf of a word that no text has
	of      [][]int32        // stems of each text, ascending
	origin  []int32          // the text of each row
	blocks  []engine.RowBlock
	byRow   postings // rows
	byBlock postings // block number·blockRoom + place
}

// blockRoom is at least the length of a block of an index.
const blockRoom = 1024

// postings are ascending lists, one a stem.
type postings struct {
	begin []int
	at    []uint32
}

func (p *postings) list(stem int32) []uint32 { return p.at[p.begin[stem]:p.begin[stem+1]] }

var (
	words = regexp.MustCompile(`[\p{L}\p{N}_]+`)
	// stopWords are Lucene's.
	stopWords = strings.Fields("a an and are as at be but by for if in into is it no not of on or such that the " +
		"their then " +
		"there these they this to was will with")
)

// stems are the different stems of a text's words without the stop words, in order.
func stems(text string) (out []string) {
	for _, w := range words.FindAllString(strings.ToLower(text), -1) {
		if slices.Contains(stopWords, w) {
			continue
		}
		env := snowballstem.NewEnv(w)
		english.Stem(env)
		if s := env.Current(); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// newLexicon indexes rows that each have the words of one of the texts.
func newLexicon(texts []string, origin []int32, blocks []engine.RowBlock) *lexicon {
	l := &lexicon{number: map[string]int32{}, of: make([][]int32, len(texts)), origin: origin, blocks: blocks}
	for i, text := range texts {
		for _, s := range stems(text) {
			n, ok := l.number[s]
			if !ok {
				n = int32(len(l.number))
				l.number[s] = n
			}
			l.of[i] = append(l.of[i], n)
		}
		slices.Sort(l.of[i])
	}
	l.byRow = l.postings(func(visit func(row int, at uint32)) {
		for row := range origin {
			visit(row, uint32(row))
		}
	})
	l.byBlock = l.postings(func(visit func(row int, at uint32)) {
		for _, b := range blocks {
			for i := 0; b.Number >= 0 && i < b.Len; i++ {
				visit(b.Row(i), uint32(b.Number*blockRoom+i))
			}
		}
	})
	rows := float64(len(origin))
	idf := func(df float64) float64 { return math.Log(1 + (rows-df+.5)/(df+.5)) }
	l.unknown = idf(0)
	for s := range int32(len(l.number)) {
		l.idf = append(l.idf, idf(float64(len(l.byRow.list(s)))))
	}
	return l
}

// postings collects what each visits, in that order.
func (l *lexicon) postings(each func(visit func(row int, at uint32))) postings {
	p := postings{begin: make([]int, len(l.number)+1)}
	each(func(row int, _ uint32) {
		for _, s := range l.of[l.origin[row]] {
			p.begin[s+1]++
		}
	})
	for s := range len(l.number) {
		p.begin[s+1] += p.begin[s]
	}
	next := slices.Clone(p.begin)
	p.at = make([]uint32, p.begin[len(l.number)])
	each(func(row int, at uint32) {
		for _, s := range l.of[l.origin[row]] {
			p.at[next[s]] = at
			next[s]++
		}
	})
	return p
}

// coverQuery are the cover terms of one query: for each of its stems that some text has, what it counts.
type coverQuery struct {
	*lexicon
	stems  []int32
	counts []float32
}

func (l *lexicon) query(text string, weight float64) *coverQuery {
	q, mass := &coverQuery{lexicon: l}, 0.0
	for _, s := range stems(text) {
		if n, ok := l.number[s]; ok {
			q.stems = append(q.stems, n)
			mass += l.idf[n]
		} else {
			mass += l.unknown
		}
	}
	for _, s := range q.stems {
		q.counts = append(q.counts, float32(weight*l.idf[s]/mass))
	}
	return q
}

// Read implements engine.Biases.
func (q *coverQuery) Read(b engine.RowBlock, out []float32) error {
	for i, s := range q.stems {
		count := q.counts[i]
		if b.Number < 0 {
			for j := range b.Len {
				if _, has := slices.BinarySearch(q.of[q.origin[b.Row(j)]], s); has {
					out[j] += count
				}
			}
			continue
		}
		list, from := q.byBlock.list(s), uint32(b.Number)*blockRoom
		for _, at := range list[sort.Search(len(list), func(j int) bool { return list[j] >= from }):] {
			if at >= from+blockRoom {
				break
			}
			out[at-from] += count
		}
	}
	return nil
}

// readAll reads the biases of all blocks.
func (l *lexicon) readAll(biases engine.Biases) error {
	var out [blockRoom]float32
	for _, b := range l.blocks {
		clear(out[:])
		if err := biases.Read(b, out[:b.Len]); err != nil {
			return err
		}
	}
	return nil
}

// listWriter writes cover terms as lists, one after another in the same memory.
type listWriter struct {
	sums []float32 // zero between calls
	list engine.BiasList
}

func newListWriter(l *lexicon) *listWriter { return &listWriter{sums: make([]float32, len(l.origin))} }

func (w *listWriter) write(q *coverQuery) engine.BiasList {
	w.list = w.list[:0]
	for i, s := range q.stems {
		for _, row := range q.byRow.list(s) {
			w.sums[row] += q.counts[i]
		}
	}
	for row, sum := range w.sums {
		if sum > 0 {
			w.list = append(w.list, engine.Bias{Row: row, Value: float64(sum)})
			w.sums[row] = 0
		}
	}
	return w.list
}
