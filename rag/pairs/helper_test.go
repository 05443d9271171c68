package pairs

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-rag/sluice/engine"
)

const dim = 16

// library is a base that contexts come to and go from; each has perContext queries. A context is named by its number.
type library struct {
	perContext       int
	groups           int
	contexts, vector [][]float32 // of contexts; of queries, perContext each
	text             []string
	live             []int
}

func newLibrary(contexts, perContext, groups int) *library {
	l := &library{perContext: perContext, groups: groups}
	rng := rand.New(rand.NewPCG(3, uint64(groups)))
	noise := func(scale float64) float32 { return float32(scale * rng.NormFloat64()) }
	for i := range contexts {
		c := make([]float32, dim)
		for k := range c {
			c[k] = noise(.4)
		}
		c[i%max(groups, 1)]++
		l.contexts, l.text = append(l.contexts, c), append(l.text, fmt.Sprint("text ", i))
		for range perContext {
			q := slices.Clone(c)
			for k := range q {
				q[k] += noise(.4)
			}
			l.vector = append(l.vector, q)
		}
	}
	return l
}

// input of the contexts that are live, in their order; counts are kept in file.
func (l *library) input(file string) Input {
	in := Input{Keep: Keep{File: file, Encoder: "e1", Gone: l.gone, Limit: 60_000}}
	in.Quantiles, in.Bins = []float64{.05, .25, .5, .75, .95}, 20
	in.Contexts.Dim, in.Queries.Dim = dim, dim
	numbers := map[int]int32{}
	for _, i := range l.live {
		row := int32(in.Contexts.Rows)
		in.Contexts.Data = append(in.Contexts.Data, l.contexts[i]...)
		in.Contexts.Rows++
		in.ContextNames, in.ContextRows = append(in.ContextNames, l.text[i]), append(in.ContextRows, int64(i))
		if l.groups > 0 {
			g, ok := numbers[i%l.groups]
			if !ok { // by the first row, as a store numbers them
				g = int32(len(numbers))
				numbers[i%l.groups] = g
			}
			in.Group = append(in.Group, g)
		}
		for k := range l.perContext {
			in.Queries.Data = append(in.Queries.Data, l.vector[i*l.perContext+k]...)
			in.Queries.Rows++
			in.Owner = append(in.Owner, row)
			in.QueryNames = append(in.QueryNames, questionName(i*l.perContext+k))
		}
	}
	return in
}

func questionName(i int) (name [32]byte) {
	copy(name[:], fmt.Sprint("question ", i))
	return name
}

// gone finds vectors again.
func (l *library) gone(_ context.Context, contexts []int64, queries [][32]byte) (c, q engine.Vectors, err error) {
	c.Dim, q.Dim = dim, dim
	for _, row := range contexts {
		c.Data, c.Rows = append(c.Data, l.contexts[row]...), c.Rows+1
	}
	for _, name := range queries {
		for i := range l.vector {
			if questionName(i) == name {
				q.Data, q.Rows = append(q.Data, l.vector[i]...), q.Rows+1
			}
		}
	}
	return c, q, nil
}

func upTo(n int) (rows []int) {
	for i := range n {
		rows = append(rows, i)
	}
	return rows
}

func newEngine(t testing.TB) *engine.Engine {
	t.Helper()
	e, err := engine.New(engine.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// count runs Count and compares the result with that of a count of all pairs that keeps nothing.
func count(t testing.TB, what string, in Input) Report {
	t.Helper()
	e := newEngine(t)
	want, err := e.Distribution(t.Context(), in.DistributionInput)
	if err != nil {
		t.Fatal(err)
	}
	got, report, err := Count(t.Context(), e, in)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	same(t, what, want, got)
	return report
}

// same compares what must have the same bits, and the rest by the errors that both state.
func same(t testing.TB, what string, want, got *engine.Distribution) {
	t.Helper()
	options := cmp.Options{
		cmpopts.IgnoreFields(engine.Distribution{}, "DType", "Kept", "Rechecked", "Way", "NegativeHistogram",
			"Separation",
			"SeparationError"),
		cmpopts.IgnoreFields(engine.Summary{}, "Mean", "Std", "MeanError", "StdError"), cmpopts.EquateEmpty(),
	}
	if diff := cmp.Diff(want, got, options); diff != "" {
		t.Errorf("%s (-all pairs +from kept counts):\n%s", what, diff)
	}
	a, b := want.NegativeSummary, got.NegativeSummary
	near := func(x, y, e float64) bool { return math.Abs(x-y) <= e+1e-12 }
	if !near(a.Mean, b.Mean, a.MeanError+b.MeanError) || !near(a.Std, b.Std, a.StdError+b.StdError) ||
		!near(want.Separation, got.Separation, want.SeparationError+got.SeparationError) {
		t.Errorf("%s: %+v and %+v, separation %v and %v", what, a, b, want.Separation, got.Separation)
	}
	sum := int64(0)
	for _, n := range got.NegativeHistogram {
		sum += n
	}
	if sum != b.N {
		t.Errorf("%s: %d in the histogram of %d", what, sum, b.N)
	}
}

func stateFile(t testing.TB) string { return filepath.Join(t.TempDir(), "default.state") }
