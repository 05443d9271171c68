package encode

import (
	"context"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"
)

// QualityRow has the quality of a competitor's vectors. Errors and cosines are against the float64 reference, on
// squad16's contexts; null without one. NDCG@10 is of questions against the contexts by cosine. AUROC is of the gate's
// score, the largest cosine with a context: squad16's questions, in scope, against clinc150's utterances out of scope.
type QualityRow struct {
	Workload    string   `json:"workload"`
	Impl        string   `json:"impl"`
	DType       string   `json:"dtype"`
	MaxError    *float64 `json:"max_error"`
	CosineMean  *float64 `json:"cosine_mean"`
	CosineWorst *float64 `json:"cosine_worst"`
	NDCG        float64  `json:"ndcg10"`
	NDCGGerman  float64  `json:"ndcg10_xquad_de"`
	AUROC       float64  `json:"auroc"`
	// Differences to the first row's NDCG@10 and AUROC.
	NDCGChange       float64 `json:"ndcg10_change"`
	NDCGGermanChange float64 `json:"ndcg10_xquad_de_change"`
	AUROCChange      float64 `json:"auroc_change"`
}

// quality makes a row for each of Sluice's modes and for the peers, of their vectors of many texts.
func (s *session) quality(ctx context.Context) error {
	contexts := s.texts.sets[squad].contexts
	references, err := s.reference(ctx, contexts)
	if err != nil {
		return err
	}
	var first *QualityRow
	for _, c := range s.competitors {
		if c.Mode != modeBatch || c.run == nil {
			continue
		}
		s.log("%s: %s", Quality, c.label())
		r, err := s.qualityOf(ctx, c, references)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			s.note("%s: %s is left out: %v", Quality, c.label(), err)
			continue
		}
		if first == nil {
			first = &r
		}
		r.NDCGChange, r.NDCGGermanChange = r.NDCG-first.NDCG, r.NDCGGerman-first.NDCGGerman
		r.AUROCChange = r.AUROC - first.AUROC
		s.report.Quality = append(s.report.Quality, r)
		if s.o.Quality != nil {
			s.o.Quality(r)
		}
	}
	return nil
}

func (s *session) qualityOf(ctx context.Context, c *competitor, references map[int][]float64) (r QualityRow,
	err error) {
	r = QualityRow{Workload: Quality, Impl: c.Impl, DType: c.DType}
	known := s.texts.sets[squad]
	contexts, err := s.vectors(ctx, c, known.contexts)
	if err != nil {
		return r, err
	}
	if r.MaxError, err = s.largestError(ctx, c, references); err != nil {
		return r, err
	}
	if len(references) > 0 {
		mean, worst := cosines(contexts, known.contexts, references)
		r.CosineMean, r.CosineWorst = &mean, &worst
	}
	questions, err := s.vectors(ctx, c, known.questions)
	if err != nil {
		return r, err
	}
	foreign, err := s.vectors(ctx, c, known.foreign)
	if err != nil {
		return r, err
	}
	gains, inside := s.ranked(questions, contexts, known.own)
	_, outside := s.ranked(foreign, contexts, nil)
	r.NDCG, r.AUROC = mean(gains), auroc(inside, outside)
	r.NDCGGerman, err = s.ndcg(ctx, c, s.texts.sets[german])
	return r, err
}

// ndcg embeds contexts and questions and ranks them.
func (s *session) ndcg(ctx context.Context, c *competitor, of *set) (float64, error) {
	contexts, err := s.vectors(ctx, c, of.contexts)
	if err != nil {
		return 0, err
	}
	questions, err := s.vectors(ctx, c, of.questions)
	if err != nil {
		return 0, err
	}
	gains, _ := s.ranked(questions, contexts, of.own)
	return mean(gains), nil
}

// cosines with the reference: their mean, and the smallest.
func cosines(rows [][]float32, places []int, references map[int][]float64) (mean, worst float64) {
	worst = 1
	for i, at := range places {
		var ab, aa, bb float64
		for j, x := range references[at] {
			y := float64(rows[i][j])
			ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
		}
		cosine := ab / math.Sqrt(aa*bb)
		mean, worst = mean+cosine, min(worst, cosine)
	}
	return mean / float64(len(places)), worst
}

// ranked compares queries with contexts: the gain of each, 1/log2(1 + rank) of its own context among the first ten and
// 0 after them (one context is relevant, so that this is NDCG@10), and the largest cosine.
func (s *session) ranked(queries, contexts [][]float32, own []int) (gains, best []float64) {
	gains, best = make([]float64, len(queries)), make([]float64, len(queries))
	norms := make([]float64, len(contexts))
	for i, c := range contexts {
		norms[i] = math.Sqrt(dot(c, c))
	}
	var g errgroup.Group
	g.SetLimit(s.o.Threads)
	const grain = 128
	for from := 0; from < len(queries); from += grain {
		g.Go(func() error {
			scores := make([]float64, len(contexts))
			for q := from; q < min(from+grain, len(queries)); q++ {
				norm := math.Sqrt(dot(queries[q], queries[q]))
				for i, c := range contexts {
					scores[i] = dot(queries[q], c) / max(norm*norms[i], math.SmallestNonzeroFloat64)
				}
				best[q] = slices.Max(scores)
				if own == nil {
					continue
				}
				rank := 1
				for i, x := range scores { // of equal scores, the first context is ahead
					if x > scores[own[q]] || x == scores[own[q]] && i < own[q] {
						rank++
					}
				}
				if rank <= 10 {
					gains[q] = 1 / math.Log2(1+float64(rank))
				}
			}
			return nil
		})
	}
	_ = g.Wait() // nothing fails
	return gains, best
}

// dot is summed in float64 by four lanes, which is much faster than by one.
func dot(a, b []float32) float64 {
	var s0, s1, s2, s3 float64
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += float64(a[i]) * float64(b[i])
		s1 += float64(a[i+1]) * float64(b[i+1])
		s2 += float64(a[i+2]) * float64(b[i+2])
		s3 += float64(a[i+3]) * float64(b[i+3])
	}
	for ; i < len(a); i++ {
		s0 += float64(a[i]) * float64(b[i])
	}
	return s0 + s1 + s2 + s3
}

func mean(values []float64) float64 {
	sum := 0.
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// auroc returns the probability that a score of the first list is above one of the second, ties counted half.
func auroc(inside, outside []float64) float64 {
	outside = slices.Sorted(slices.Values(outside))
	sum := 0.
	for _, x := range inside {
		below, _ := slices.BinarySearch(outside, x)
		to, _ := slices.BinarySearch(outside, math.Nextafter(x, math.Inf(1)))
		sum += float64(below) + float64(to-below)/2
	}
	return sum / float64(len(inside)) / float64(len(outside))
}
