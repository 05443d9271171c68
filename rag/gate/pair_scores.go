package gate

import (
	"cmp"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
	"github.com/sluice-rag/sluice/rag/postings"
)

// pairScores scores one pseudo-query: nearly, from its cosines and covers, and exactly, as a decision does.
type pairScores struct {
	in              *Input
	query           []float32
	cosines, covers []float32 // of the contexts
	asked           []float32 // cosines with all pseudo-queries, where a candidate goes by them
	off             float64   // of the cosines at most
	askedSlack      float32   // at least twice what these are off by
	words           *words
	weight          float64
	bias            *postings.Biases // nil without weight

	own  pairScore
	near []pairScore // the contexts that can be the best at some weight

	contexts normed    // without norms where nothing needs them
	norm     float64   // of the query, beside them
	ranks    []float64 // BM25 ÷ ideal of the contexts, −1 where it is not known
	rows     []int     // memory
}

// pairScore is a context's similarity.
type pairScore struct {
	context    int
	other      bool // it is of another group than the query's own context
	known      bool
	similarity float64 // canonical, once it is known
}

// slack is at least twice what a cosine plus a weight times a cover is off by: a cover is a sum of float32 numbers that
// is at most 1, an exact score has one with the weight in each.
func (s *pairScores) slack(weight float64) float32 {
	terms := 0
	if s.words != nil {
		terms = len(s.words.cover.Terms())
	}
	return float32(2*s.off + max(weight, 1)*float64(terms+8)*0x1p-23)
}

// find looks for the contexts that can be the best ones, of all or of those of other groups, at any weight up to a
// largest one: covers are not negative, so that a context whose similarity with the largest weight's cover is below the
// best similarity alone is best at none.
func (s *pairScores) find(own int, groups []int32, largest float64) {
	s.own, s.near = pairScore{context: own}, s.near[:0]
	nearest, all, covers := float32(-2), float32(-2), s.covers[:len(s.cosines)]
	for i, c := range s.cosines {
		if c <= nearest {
			continue
		}
		if all = max(all, c); groups == nil || groups[i] != groups[own] { // the query's own group may be nearer, or not
			nearest = c
		}
	}
	weight, less := float32(largest), s.slack(largest)
	enough := nearest - less
	for i, c := range s.cosines {
		v := c + weight*covers[i]
		if v < enough {
			continue
		}
		if other := groups != nil && groups[i] != groups[own]; other || v >= all-less {
			s.near = append(s.near, pairScore{context: i, other: other})
		}
	}
}

// read reads the words of pseudo-query j.
func (s *pairScores) read(j int) (err error) {
	if s.in.Words == nil {
		return nil
	}
	clear(s.covers)
	for i := range s.ranks {
		s.ranks[i] = -1
	}
	if s.words, err = wordsOf(s.in.Words.Index, s.in.Words.Queries[j]); err != nil {
		return err
	}
	return s.in.biases(s.words.cover, 1).Read(kernels.RowBlock{Number: -1, Len: len(s.cosines)}, s.covers)
}

func (s *pairScores) weigh(weight float64) {
	if s.weight, s.bias = weight, nil; weight > 0 {
		s.bias = s.words.cover.Biases(weight)
	}
}

func (s *pairScores) similarity(context int) float64 {
	if s.in.Metric == kernels.Cosine && s.contexts.norms != nil {
		return s.contexts.cosine(context, s.query, s.norm)
	}
	return ref.Score(s.in.Metric, s.query, row(s.in.Contexts, context))
}

// exact is the score of a context, with the bits of engine.TopK.
func (s *pairScores) exact(p *pairScore) float64 {
	if !p.known {
		p.known, p.similarity = true, s.similarity(p.context)
	}
	if s.bias == nil {
		return p.similarity
	}
	return s.in.Metric.Biased(p.similarity, float64(s.bias.At(s.in.indexRow(p.context))))
}

// best is the largest exact score of all contexts, or of those of other groups; −1 without any.
func (s *pairScores) best(other bool) float64 {
	near, weight, less := float32(-2), float32(s.weight), s.slack(s.weight)
	for i := range s.near {
		if p := &s.near[i]; p.other || !other {
			near = max(near, s.cosines[p.context]+weight*s.covers[p.context])
		}
	}
	best := -1.
	for i := range s.near {
		p := &s.near[i]
		if (p.other || !other) && s.cosines[p.context]+weight*s.covers[p.context] >= near-less {
			best = max(best, s.exact(p))
		}
	}
	return best
}

// bm25 is a context's BM25 ÷ ideal.
func (s *pairScores) bm25(context int) float64 {
	if v := s.ranks[context]; v >= 0 {
		return v
	}
	s.ranks[context] = s.words.rank(s.in.indexRow(context))
	return s.ranks[context]
}

// ranked are the largest values so far, descending.
type ranked struct {
	values [featureRows]float32
	count  int
}

// limit is what a value must be above to be among them.
func (n *ranked) limit() float32 {
	if n.count < featureRows {
		return float32(math.Inf(-1))
	}
	return n.values[featureRows-1]
}

// put puts a value that is above the limit in.
func (n *ranked) put(v float32) {
	at := min(n.count, featureRows-1)
	for ; at > 0 && n.values[at-1] < v; at-- {
		n.values[at] = n.values[at-1]
	}
	n.values[at] = v
	n.count = min(n.count+1, featureRows)
}

// top are the featureRows contexts with the largest exact scores, of all and of those that are not in a group, ties to
// the lower row; in no order.
func (s *pairScores) top(groups []int32, without int32) (all, others []int) {
	var near, other ranked // of nearly exact scores
	weight, slack, covers := float32(s.weight), s.slack(s.weight), s.covers[:len(s.cosines)]
	low, limit, limitOther := near.limit(), near.limit(), near.limit()
	s.rows = s.rows[:0] // those that can be one of both
	for i, c := range s.cosines {
		v := c + weight*covers[i]
		if v < low {
			continue
		}
		if s.rows = append(s.rows, i); v > limit {
			near.put(v)
			limit = near.limit()
		}
		if v > limitOther && groups[i] != without {
			other.put(v)
			limitOther = other.limit()
			low = limitOther - slack
		}
	}
	return s.chosen(near, func(int) bool { return true }),
		s.chosen(other, func(i int) bool { return groups[i] != without })
}

// chosen are those of s.rows that have the exact scores of the ranked ones.
func (s *pairScores) chosen(near ranked, among func(i int) bool) []int {
	if near.count == 0 {
		return nil
	}
	rows, enough := make([]int, 0, featureRows+8), near.values[near.count-1]-s.slack(s.weight)
	for _, i := range s.rows {
		if s.cosines[i]+float32(s.weight)*s.covers[i] >= enough && among(i) {
			rows = append(rows, i)
		}
	}
	if len(rows) <= featureRows {
		return rows
	}
	exact := make(map[int]float64, len(rows))
	for _, i := range rows {
		exact[i] = s.exact(&pairScore{context: i})
	}
	slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(exact[b], exact[a]) })
	return rows[:featureRows]
}
