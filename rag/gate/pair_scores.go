package gate

import (
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
	"github.com/sluice-rag/sluice/rag/postings"
)

// pairScores scores one pseudo-query: nearly, from its cosines and covers, and exactly, as a decision does.
type pairScores struct {
	in              *Input
	query           []float32
	cosines, covers []float32       // of the contexts
	asked           []float32       // cosines with all pseudo-queries, where a candidate goes by them
	off             float64         // of the cosines at most
	askedSlack      float32         // at least twice what these are off by
	words           *postings.Query // as cover
	weight          float64
	bias            *postings.Biases // nil without weight

	own  pairScore
	near []pairScore // the contexts that can be the best at some weight

	contexts normed  // without norms where nothing needs them
	norm     float64 // of the query, beside them
	rows     []int   // memory
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
		terms = len(s.words.Terms())
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
	s.words, err = s.in.Words.Index.Query(s.in.Words.Queries[j], postings.Scoring{Kind: postings.Cover})
	if err != nil {
		return err
	}
	return s.in.biases(s.words, 1).Read(kernels.RowBlock{Number: -1, Len: len(s.cosines)}, s.covers)
}

func (s *pairScores) weigh(weight float64) {
	if s.weight, s.bias = weight, nil; weight > 0 {
		s.bias = s.words.Biases(weight)
	}
}

func (s *pairScores) similarity(context int) float64 {
	if s.in.Metric == kernels.Cosine && s.contexts.norms != nil {
		return s.contexts.cosine(context, s.query, s.norm)
	}
	return ref.Score(s.in.Metric, s.query, row(s.in.Contexts, context))
}

// exact returns the score of a context, with the bits of engine.TopK.
func (s *pairScores) exact(p *pairScore) float64 {
	if !p.known {
		p.known, p.similarity = true, s.similarity(p.context)
	}
	if s.bias == nil {
		return p.similarity
	}
	return s.in.Metric.Biased(p.similarity, float64(s.bias.At(s.in.indexRow(p.context))))
}

// best returns the largest exact score of all contexts, or of those of other groups; −1 without any.
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
