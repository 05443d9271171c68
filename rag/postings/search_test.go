package postings

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu/bitsets"
)

// TestTopKOfManyRows: the texts span several windows and segments and their words range from rare to ubiquitous, so
// that lists with and without bit sets, filters, one-byte bounds and sums over whole windows all occur. Rows and scores
// must equal, bit for bit, the result of sorting all rows.
func TestTopKOfManyRows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	word := func() string { return fmt.Sprintf("w%d", int(60*r.ExpFloat64())) }
	var l library
	for row := range 9000 {
		var b strings.Builder
		for range 1 + r.IntN(60) {
			b.WriteString(word() + " ")
		}
		if row%1000 == 7 {
			b.WriteString(strings.Repeat("w3 ", 300))
		}
		l = append(l, Document{Text: b.String()})
	}
	deleted := func(row int) bool { return row%11 == 3 }
	x := index(t, l[:6000], deleted)
	for _, to := range []int{8800, 9000} {
		var err error
		if x, err = x.With(t.Context(), to, l.read, deleted, nil); err != nil {
			t.Fatal(err)
		}
	}
	if len(x.segments) < 3 {
		t.Fatalf("%d segments", len(x.segments))
	}
	ways := map[string]int{}
	for i := range 120 {
		var words []string
		for range []int{1, 2, 5, 12, 60}[i%5] {
			words = append(words, word())
		}
		q := query(t, x, strings.Join(words, " "), Scoring{Kind: []Kind{BM25, BM25, TFIDF, Cover}[i%4]})
		allowed := func(row int) bool { return i%3 > 0 || row%5 != 2 }
		var want []kernels.Hit
		for row := range l {
			if s := q.Score(row); s > 0 && !deleted(row) && allowed(row) {
				want = append(want, kernels.Hit{Row: row, Score: s})
			}
		}
		sort.SliceStable(want, func(i, j int) bool { return want[i].Score > want[j].Score })
		k := []int{1, 10, 500}[i/5%3]
		got, err := q.TopK(t.Context(), k, allowed)
		if want = want[:min(k, len(want))]; err != nil || !slices.Equal(got, want) {
			t.Fatalf("query %d %q, %v: %v, %v; want %v", i, words, q.scoring.Kind, got, err, want)
		}
		for i := range q.terms {
			for _, d := range x.denseLists(q, &q.terms[i]) {
				ways[fmt.Sprintf("list with bits: %v", d != nil)]++
			}
		}
	}
	if len(ways) != 2 {
		t.Errorf("not both kinds of lists: %v", ways)
	}
}

// TestFilter: it finds the rows whose bounds add up to more than the limit, for all sets of terms.
func TestFilter(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for round := range 300 {
		n := 1 + r.IntN(maxFiltered+2)
		cursors, rest := make([]cursor, n), make([]float64, n+1)
		for i := range cursors {
			cursors[i].weighted = &weighted{bound: float64(1 + r.IntN(9))}
		}
		slices.SortFunc(cursors, func(a, b cursor) int { return int(b.bound - a.bound) })
		for i := n - 1; i >= 0; i-- {
			rest[i] = rest[i+1] + cursors[i].bound
		}
		limit := r.Float64() * rest[0]
		var f filter
		f.build(cursors, rest, limit)
		known := min(n, maxFiltered)
		for i := range known {
			f.sets[i] = bitsets.Set{}
			for row := range window {
				f.sets[i][row/wordRows] |= uint64(row>>i&1) << (row % wordRows)
			}
		}
		if _, err := bitsets.Run(New().kernels, f.sets, f.steps); err != nil {
			t.Fatal(err)
		}
		chosen := &f.sets[f.root]
		for row := range window {
			sum := rest[known]
			for i := range known {
				sum += cursors[i].bound * float64(row>>i&1)
			}
			if got, want := chosen[row/wordRows]>>(row%wordRows)&1 != 0, sum > limit; got != want {
				t.Fatalf("round %d: terms %b of %d: %v, sum %v, limit %v", round, row, n, got, sum, limit)
			}
		}
		if len(f.steps) > 100 {
			t.Errorf("round %d: %d steps", round, len(f.steps))
		}
	}
}

// TestSearchIsCancelled: no more than a window is read after the context has ended.
func TestSearchIsCancelled(t *testing.T) {
	x := index(t, slices.Repeat(inEnglish("zebra crossing", "crossing"), 3*window), never)
	ctx, cancel := context.WithCancel(t.Context())
	looked := 0
	_, err := query(t, x, "zebra", Scoring{Kind: BM25}).TopK(ctx, 10, func(int) bool {
		looked++
		cancel()
		return false
	})
	if err == nil || looked > window {
		t.Errorf("%v after %d rows", err, looked)
	}
}
