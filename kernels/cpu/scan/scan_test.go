package scan_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/kernels"
	. "github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/cputest"
	. "github.com/sluice-rag/sluice/kernels/cpu/scan"
)

// scanCase is a chunk of rows y, queries z in float64, terms of the rows, and biases of query × row.
type scanCase struct {
	chunk   *Chunk
	y       Rows
	z       [][]float64
	terms   []float64
	queries *Queries
	bias    *Bias
	lift    [][2]float64
}

// tens are the powers of ten from -25 on.
var tens = func() (p [50]float64) {
	for i := range p {
		p[i] = math.Pow(10, float64(i-25))
	}
	return p
}()

// newScanCase makes rows of decaying spread; kind 1 has extreme magnitudes, kind 2 equal rows, kind 3 zeros.
func newScanCase(t testing.TB, rng *rand.Rand, n, dim, queries, kind int, terms bool) *scanCase {
	t.Helper()
	panels, sections := (n+Lanes-1)/Lanes, (dim+Section-1)/Section
	c, err := NewChunk(Aligned(Bytes(panels, sections)), panels, sections, terms)
	if err != nil {
		t.Fatal(err)
	}
	s := &scanCase{chunk: c, y: Rows{Data: make([]float32, n*dim), N: n, Dim: dim, Stride: dim},
		terms: make([]float64, n)}
	for i := range n {
		for k := range dim {
			x := rng.NormFloat64() / math.Sqrt(float64(1+k))
			switch kind {
			case 1:
				x *= tens[rng.IntN(50)]
			case 3:
				x = 0
			}
			s.y.Data[i*dim+k] = float32(x)
		}
		if kind == 2 && i > 0 {
			copy(s.y.Row(i), s.y.Row(0))
		}
	}
	c.SetShape(s.y)
	for p := range panels {
		if _, err := c.Pack(p, s.y.Slice(p*Lanes, min(n, (p+1)*Lanes)), 0); err != nil {
			t.Fatal(err)
		}
	}
	if terms {
		for i := range n {
			s.terms[i] = -math.Abs(rng.NormFloat64())
			c.SetTerm(i, s.terms[i])
		}
	}
	s.bias, s.lift = NewBias(queries), make([][2]float64, queries)
	s.queries = NewQueries(queries, sections)
	s.queries.Reset(queries)
	for q := range queries {
		z := make([]float64, sections*Section)
		for k := range dim {
			z[k] = rng.NormFloat64()
			if kind == 1 {
				z[k] *= tens[rng.IntN(20)+15]
			}
			if q%3 == 0 { // along a row
				z[k] = float64(s.y.Row(q % n)[k])
			}
		}
		s.z = append(s.z, z)
		s.queries.Set(q, z, 0)
	}
	return s
}

// addBiases gives every other query a bias for a third of the rows.
func (s *scanCase) addBiases(rng *rand.Rand) {
	for q := range s.z {
		if rng.IntN(2) == 0 {
			continue
		}
		s.bias.Queries |= 1 << q
		s.lift[q] = [2]float64{rng.Float64(), float64(rng.IntN(2)) * rng.Float64()}
		s.bias.SetLift(q, s.chunk.Sections, s.lift[q][0], s.lift[q][1])
		for row := range s.y.N {
			if rng.IntN(3) == 0 {
				s.bias.Of(q)[row] = float32(rng.ExpFloat64())
			}
		}
	}
}

// score returns z·y + term + the bias's contribution, and a bound of its rounding error.
func (s *scanCase) score(q, row int) (score, off float64) {
	score, off = product(s.z[q], s.y.Row(row))
	b := float64(s.bias.Of(q)[row])
	return score + s.terms[row] + b*(s.lift[q][0]+s.lift[q][1]*b), off * 1e-12
}

// product returns z·y and the sum of the products' sizes. norace keeps the sanitizer's calls out of it, one for each
// number: they would be most of the test's time, and Go checks the bounds of slices itself.
//
//go:norace
//go:noinline
func product(z []float64, y []float32) (sum, sizes float64) {
	z = z[:len(y)]
	for k, v := range y {
		p := z[k] * float64(v)
		sum += p
		if p < 0 { // math.Abs allocates under the sanitizer
			p = -p
		}
		sizes += p
	}
	return sum, sizes
}

func (s *scanCase) steps(rng *rand.Rand) []uint8 {
	var steps []uint8
	high, both := 0, make([]bool, s.chunk.Sections)
	for count := 1 + rng.IntN(2*s.chunk.Sections); len(steps) < count; {
		if section := rng.IntN(high + 1); section < high && !both[section] {
			both[section] = true
			steps = append(steps, uint8(2*section+1))
		} else if high < s.chunk.Sections {
			steps = append(steps, uint8(2*high))
			high++
		}
	}
	return steps
}

// TestScanBounds checks that no row that reaches the limit is missing, and that bounds are above the scores.
func TestScanBounds(t *testing.T) {
	cputest.ForEachISA(t, func(t *testing.T, k Kernels) {
		if !Has(k) {
			t.Skip("SKIP: no scan without C")
		}
		rng, scratch := rand.New(rand.NewPCG(31, 1)), NewScratch(MaxQueries)
		for round := range 240 {
			n, dim, queries := 1+rng.IntN(200), []int{1, 5, 63, 64, 65, 130, 384}[rng.IntN(7)],
				[]int{1, 2, 3, 4, 5, 16, 17, 40, 64}[rng.IntN(9)]
			s := newScanCase(t, rng, n, dim, queries, rng.IntN(4), round%3 == 0)
			if round%2 == 0 {
				s.addBiases(rng)
			}
			steps := s.steps(rng)
			need := make([]float32, MaxQueries)
			for q := range queries {
				score, _ := s.score(q, rng.IntN(n))
				need[q] = float32(score)
				if rng.IntN(5) == 0 {
					need[q] = []float32{float32(math.Inf(1)), -math.MaxFloat32, 0}[rng.IntN(3)]
				}
			}
			found, bounds, err := Scan(k, s.chunk, s.queries, steps, 1+rng.IntN(len(steps)), need, s.bias, scratch)
			if err != nil {
				t.Fatal(err)
			}
			at := make(map[uint32]float64)
			for i, f := range found {
				if i > 0 && found[i-1] >= f {
					t.Fatalf("round %d: %x after %x", round, f, found[i-1])
				}
				at[f] = float64(bounds[i])
			}
			for q := range queries {
				for row := range n {
					score, off := s.score(q, row)
					bound, there := at[uint32(q<<16|row)]
					if !there && score-off >= float64(need[q]) {
						t.Fatalf("round %d, %d×%d, query %d: row %d of score %v is missing, limit %v, steps %v", round,
							n, dim, q, row, score, need[q], steps)
					}
					if there && bound < score-off {
						t.Fatalf("round %d: bound %v below score %v", round, bound, score)
					}
				}
			}
		}
	})
}

// TestScanIsTight checks that with all planes, bounds of typical vectors are within 6 % of the lengths' product.
func TestScanIsTight(t *testing.T) {
	cputest.ForEachISA(t, func(t *testing.T, k Kernels) {
		if !Has(k) {
			t.Skip("SKIP: no scan without C")
		}
		rng := rand.New(rand.NewPCG(37, 1))
		s := newScanCase(t, rng, 160, 384, 5, 0, false)
		steps, need := make([]uint8, 0, 12), make([]float32, MaxQueries)
		for section := range s.chunk.Sections {
			steps = append(steps, uint8(2*section), uint8(2*section+1))
		}
		for i := range need {
			need[i] = -math.MaxFloat32
		}
		found, bounds, err := Scan(k, s.chunk, s.queries, steps, 12, need, s.bias, NewScratch(MaxQueries))
		if err != nil || len(found) != 160*5 {
			t.Fatalf("%d found, %v", len(found), err)
		}
		worst := 0.0
		for i, f := range found {
			q, row := int(f>>16), int(f&0xffff)
			score, _ := s.score(q, row)
			var zz, yy float64
			for k, y := range s.y.Row(row) {
				zz, yy = zz+s.z[q][k]*s.z[q][k], yy+float64(y)*float64(y)
			}
			worst = max(worst, (float64(bounds[i])-score)/math.Sqrt(zz*yy))
		}
		t.Logf("bounds at most %.4f of the lengths' product above the score", worst)
		if worst > .06 {
			t.Error("loose")
		}
	})
}

func TestScanErrors(t *testing.T) {
	cputest.ForEachISA(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(41, 1))
		s := newScanCase(t, rng, 20, 70, 3, 0, false)
		need, scratch := make([]float32, 16), NewScratch(3)
		scan := func(q *Queries, steps []uint8, first int, need []float32, w *Scratch) error {
			_, _, err := Scan(k, s.chunk, q, steps, first, need, s.bias, w)
			return err
		}
		want := kernels.ErrShape
		if !Has(k) {
			if err := scan(s.queries, []uint8{0}, 1, need, scratch); !errors.Is(err, kernels.ErrISA) {
				t.Errorf("scan without C: %v", err)
			}
			return
		}
		biased := func(b *Bias) error {
			_, _, err := Scan(k, s.chunk, s.queries, []uint8{0}, 1, need, b, scratch)
			return err
		}
		wide := NewQueries(3, 5)
		wide.Reset(3)
		for name, err := range map[string]error{
			"sections":        scan(wide, []uint8{0}, 1, need, scratch),
			"limits":          scan(s.queries, []uint8{0}, 1, need[:3], scratch),
			"room":            scan(s.queries, []uint8{0}, 1, need, &Scratch{}),
			"no steps":        scan(s.queries, nil, 1, need, scratch),
			"first":           scan(s.queries, []uint8{0, 2}, 3, need, scratch),
			"low before high": scan(s.queries, []uint8{1}, 1, need, scratch),
			"out of order":    scan(s.queries, []uint8{2, 0}, 1, need, scratch),
			"twice":           scan(s.queries, []uint8{0, 1, 1}, 1, need, scratch),
			"few biases":      biased(&Bias{Rows: make([]float32, MaxRows+31), Queries: 2}),
			"no such query":   biased(&Bias{Rows: make([]float32, 4*MaxRows), Queries: 8}),
			"no such section": scan(s.queries, []uint8{0, 2, 4}, 1, need, scratch),
		} {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := NewChunk(make([]byte, 5), 1, 1, false); !errors.Is(err, want) {
			t.Errorf("chunk: %v", err)
		}
		if _, err := s.chunk.Pack(9, s.y.Slice(0, 1), 0); !errors.Is(err, want) {
			t.Errorf("pack: %v", err)
		}
	})
}

// BenchmarkScan rules out all rows of a cached chunk after the first planes; the figure is per panel and query.
func BenchmarkScan(b *testing.B) {
	rng := rand.New(rand.NewPCG(47, 1))
	for _, isa := range Available() {
		k := cputest.KernelsOf(isa)
		if !Has(k) {
			continue
		}
		for _, queries := range []int{1, 16, 64} {
			s := newScanCase(b, rng, MaxPanels*Lanes, 384, queries, 0, false)
			need, scratch := make([]float32, MaxQueries), NewScratch(queries)
			for i := range need {
				need[i] = 1e6
			}
			steps := []uint8{0, 2, 4, 6, 1, 8, 3, 5, 7, 10, 9, 11}
			for _, first := range []int{2, 4, 8} {
				b.Run(fmt.Sprintf("%s/%d/%d", isa, queries, first), func(b *testing.B) {
					best := math.Inf(1)
					for b.Loop() {
						start := time.Now()
						if _, _, err := Scan(k, s.chunk, s.queries, steps, first, need, s.bias, scratch); err != nil {
							b.Fatal(err)
						}
						best = min(best, float64(time.Since(start).Nanoseconds()))
					}
					b.ReportMetric(best/MaxPanels, "ns/panel")
					b.ReportMetric(best/MaxPanels/float64(queries), "ns/panel/query")
				})
			}
		}
	}
}
