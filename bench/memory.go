package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sluice-rag/sluice/bench/harness"
)

// memory measures distributions under limits of working memory, from plenty to little: 6,000 contexts and three
// pseudo-queries each, and the shape of w2. Nothing but the limit differs.
func (s *session) memory(ctx context.Context, _ []string) error {
	shapes := []struct{ n, rounds int }{{6000, 3}, {20_000, 1}}
	megabytes := []int64{1024, 256, 64, 44, 16, 8}
	if s.o.Short {
		shapes, megabytes = shapes[:1], []int64{1024, 8}
		shapes[0].n = 400
	}
	for _, x := range shapes {
		if err := s.memoryShape(ctx, x.n, s.rounds(x.rounds), megabytes); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) memoryShape(ctx context.Context, n, rounds int, megabytes []int64) (err error) {
	const dim = 384
	p, err := s.mixturePairs(ctx, seedW2, n, 3, dim)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	want, err := s.tableOf(ctx, p)
	if err != nil {
		return err
	}
	m := p.queries.Rows
	b := &benchmark{
		workload: memory, shape: shape(n, m, dim), pairs: float64(m) * float64(n-1), rounds: rounds, cold: true,
		operations: cosineWork * float64(m) * float64(n) * dim, bytes: floatBytes * float64(m+n) * dim,
	}
	isa := s.isas()[0]
	for _, mb := range megabytes {
		e, err := s.engine(isa, mb<<20)
		if err != nil {
			return err
		}
		c := variant{engine: e, isa: isa, free: true}.distribution(p, want, false)
		c.MemLimit, c.DType = mb<<20, "" // stated in the way
		b.competitors = append(b.competitors, c)
	}
	return s.run(ctx, b)
}

// memoryTable shows the times under each limit and their ratio to the first, which is the largest.
func memoryTable(w io.Writer, rows []Row) {
	fmt.Fprintf(w, "## %s\n\nDistributions on %s under limits of working memory, inputs and results excluded.\n\n",
		memory, rows[0].ISA)
	fmt.Fprint(w, harness.TableHead("shape", "limit MiB", "seconds", "× the first", "max error", "way"))
	first := rows[0]
	for _, x := range rows {
		if x.Shape != first.Shape {
			first = x
		}
		way, _, _ := strings.Cut(strings.TrimPrefix(x.Choice, "cpu "), "; best instruction set")
		fmt.Fprintf(w, "| %s | %d | %.4g | %.3g | %.2g | %s |\n", x.Shape, x.MemLimit>>20, x.MedianMS/1000,
			x.MedianMS/first.MedianMS, x.MaxError, way)
	}
	fmt.Fprintln(w)
}
