package bench

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// sameScores is the tolerance of inner products in float32, for any order of summation.
const sameScores = 2e-6

// matrix stores all inner products of 4,096 contexts and 12,288 queries of length 1.
func (s *session) matrix(ctx context.Context, _ []string) (err error) {
	m, n, dim := 4096, 12288, 384
	if s.o.Short {
		m, n = 96, 288
	}
	p, err := s.mixturePairs(ctx, seedW2, m, n/m, dim)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	b := &benchmark{
		workload: "matrix", shape: shape(m, n, dim), pairs: float64(m) * float64(n), rounds: s.rounds(9),
		tolerance:  sameScores,
		operations: cosineWork * float64(m) * float64(n) * float64(dim),
		// what is written counts like what is read
		bytes: floatBytes * (float64(m+n)*float64(dim) + float64(m)*float64(n)),
	}
	sample := s.sampled(p)
	variants, err := s.variants(kernels.F32, kernels.BF16x3, kernels.BF16, kernels.I8)
	if err != nil {
		return err
	}
	out := make([]float32, m*n)
	for _, v := range variants {
		b.competitors = append(b.competitors, v.bounded(p, out, sample))
	}
	peers, err := s.matrixPeers(ctx, b, p, sample)
	defer func() { err = errors.Join(err, peers.close()) }()
	if err != nil {
		return err
	}
	return s.run(ctx, b)
}

// bounded is Sluice's competitor. Errors are computed after every run, because the competitors share the
// output; an error above the bound that came with the result fails it.
func (v variant) bounded(p *pairs, out []float32, sample sample) *competitor {
	var worst float64
	a, b := p.contexts.Vectors, p.queries.Vectors
	return &competitor{
		Row: v.own("bounded"), kind: v.dtype, choice: func() string {
			return v.describe(v.dtype.String() +
				" asked for")
		},
		run: func(ctx context.Context, _ int) ([]time.Duration, error) {
			var bound float64
			t, err := timeIt(func() (err error) {
				bound, err = v.engine.BoundedMatrix(ctx, out, b.Rows, a, b, kernels.IP, v.dtype)
				return err
			})
			if err != nil {
				return nil, err
			}
			for i := range sample.scores {
				d := math.Abs(float64(out[sample.Rows[i]*b.Rows+sample.Columns[i]]) - sample.scores[i])
				if worst = maxAbs(worst, d); worst > bound {
					return nil, errors.New("a score is off by more than its bound")
				}
			}
			return t, nil
		},
		check: func(context.Context) (float64, error) { return worst, nil },
	}
}

// sample are seeded pairs and their canonical scores.
type sample struct {
	Rows, Columns []int
	scores        []float64
}

func (s *session) sampled(p *pairs) sample {
	const size = 4096
	rng := stream(seedW2, "sample", 0)
	out := sample{make([]int, size), make([]int, size), make([]float64, size)}
	for i := range size {
		out.Rows[i], out.Columns[i] = rng.IntN(p.contexts.Rows), rng.IntN(p.queries.Rows)
		out.scores[i] = ref.Score(kernels.IP, p.contexts.row(out.Rows[i]), p.queries.row(out.Columns[i]))
	}
	return out
}

func (s *session) matrixPeers(ctx context.Context, b *benchmark, p *pairs, sample sample) (processes, error) {
	params := p.params()
	params["rows"], params["columns"] = sample.Rows, sample.Columns
	return s.addOffers(ctx, b, params, func(ctx context.Context, o peerOffer) (worst float64, err error) {
		var got []float64
		if err := o.result(ctx, &got); err != nil {
			return 0, err
		}
		if len(got) != len(sample.scores) {
			return 0, errNotNumber
		}
		for i, x := range got {
			worst = maxAbs(worst, x-sample.scores[i])
		}
		return worst, nil
	})
}
