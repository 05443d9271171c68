package bench

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// quiet returns a session over an empty cache.
func quiet(t *testing.T, change ...func(*Options)) *session {
	t.Helper()
	o := Options{Workload: "all", Threads: 1, Short: true, Cache: t.TempDir(), Python: "no-python-here",
		GoPeers: "no-program-here", Data: t.TempDir()}
	for _, c := range change {
		c(&o)
	}
	s, err := newSession(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMixturePairs(t *testing.T) {
	s := quiet(t)
	const n, k, dim = 300, 3, 384
	p, err := s.mixturePairs(t.Context(), 7, n, k, dim)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	owner := p.owner()
	var own []float64
	for q := range p.queries.Rows {
		if l := ref.Norm(p.queries.row(q)); math.Abs(l-1) > 1e-6 {
			t.Fatalf("query %d has length %v", q, l)
		}
		if owner[q] != int32(q/k) {
			t.Fatalf("query %d belongs to %d", q, owner[q])
		}
		own = append(own, ref.Score(kernels.Cosine, p.queries.row(q), p.contexts.row(q/k)))
	}
	slices.Sort(own)
	// a·c + √(1−a²)·noise with a uniform in [.5, .9]; the noise of 384 dimensions leans to c by about ±.05.
	if m := mean(own); m < .68 || m > .72 || own[0] < .25 || own[len(own)-1] > 1 || ref.Quantile7(own, .05) < .45 ||
		ref.Quantile7(own, .95) > .93 {
		t.Errorf("own cosines: mean %v, from %v to %v", m, own[0], own[len(own)-1])
	}
	// Contexts are 0.6 of one of 64 centres: of one topic .36/(.36+.64), of two near 0.
	same, all := 0, 0
	for i := range n {
		for j := range i {
			s := ref.Score(kernels.Cosine, p.contexts.row(i), p.contexts.row(j))
			all++
			switch {
			case s > .2:
				same++
				if s < .2 || s > .56 {
					t.Errorf("contexts %d and %d have cosine %v", i, j, s)
				}
			case math.Abs(s) > .35:
				t.Errorf("contexts %d and %d have cosine %v", i, j, s)
			}
		}
	}
	if share := float64(same) / float64(all); share < 1./64*.6 || share > 1./64*1.5 {
		t.Errorf("%v of the pairs are of one topic, 1/64 expected", share)
	}
	// Golden: another Go, machine or number of threads must make the same vectors (to the last bits of a root).
	want := []float32{0.012034085, 0.050748058, -0.05415927}
	for i, x := range want {
		if got := p.contexts.row(0)[i]; math.Abs(float64(got-x)) > 1e-6 {
			t.Errorf("value %d of the first context is %v, want %v", i, got, x)
		}
	}
}

func mean(v []float64) (m float64) {
	for _, x := range v {
		m += x / float64(len(v))
	}
	return m
}

func TestThreadsAndCacheDoNotChangeData(t *testing.T) {
	var files [2][]byte
	for i, threads := range []int{1, 5} {
		s := quiet(t)
		s.o.Threads = threads
		d, err := s.mixtureSearch(t.Context(), 3, 5000, 10, 16)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(d.base.path)
		if err != nil {
			t.Fatal(err)
		}
		files[i] = text
		if err := os.Truncate(d.base.path, 1000); err != nil { // a damaged file is made again
			t.Fatal(err)
		}
		again, err := s.mixtureSearch(t.Context(), 3, 5000, 10, 16)
		if err != nil {
			t.Fatal(err)
		}
		if again.cutoff != d.cutoff || again.base.Rows != 5000 {
			t.Errorf("made again: cut-off %v, was %v", again.cutoff, d.cutoff)
		}
		if err := again.close(); err != nil {
			t.Error(err)
		}
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("one thread and five make different vectors")
	}
}

func TestSentences(t *testing.T) {
	got := sentences("A sentence that is long enough to be kept. Short one. And is this one, with 3.5 of them, " +
		"kept?\nIt is, says everybody who has counted!  Tail without an end that counts")
	want := []string{
		"A sentence that is long enough to be kept.", "And is this one, with 3.5 of them, kept?",
		"It is, says everybody who has counted!",
		"Tail without an end that counts",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := sentences(""); got != nil {
		t.Error(got)
	}
}

func rowsOf(s set) (out [][]float32) {
	for i := range s.Rows {
		out = append(out, s.row(i))
	}
	return out
}

// TestReference compares the reference with the naive algorithm, ties included.
func TestReference(t *testing.T) {
	s := quiet(t)
	p, err := s.mixturePairs(t.Context(), 5, 150, 2, 24)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	got, err := s.reference.table(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	contexts, queries := rowsOf(p.contexts), rowsOf(p.queries)
	naive := func(own bool) []float64 {
		pairs := ref.Pairs(kernels.Cosine, contexts, queries, func(q, c int) bool { return (q/2 == c) == own })
		return ref.Summarise(pairs, probabilities()).Quantiles
	}
	if diff := cmp.Diff(table{naive(true), naive(false)}, got); diff != "" {
		t.Error(diff)
	}

	base := setOf(slices.Concat(p.contexts.Data, p.contexts.Data[:100*24]), 24) // rows 150… repeat rows 0…
	d := &searchData{name: "x", base: base, queries: p.queries}
	best, err := s.reference.best(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	for q := range queries {
		for i, h := range ref.TopK(kernels.Cosine, queries[q], rowsOf(base), nil, topK) {
			if best.IDs[q][i] != h.Row || best.Scores[q][i] != h.Score {
				t.Fatalf("query %d, place %d: %d %v, want %+v", q, i, best.IDs[q][i], best.Scores[q][i], h)
			}
		}
	}
}

func setOf(data []float32, dim int) set {
	var s set
	s.Data, s.Rows, s.Dim = data, len(data)/dim, dim
	return s
}

func TestRealVectorsNeedTheirData(t *testing.T) {
	s := quiet(t)
	if _, err := s.realSearch(t.Context(), 100, 8); !errors.Is(err, ErrNoRealVectors) {
		t.Errorf("without an encoder: %v", err)
	}
	s = quiet(t, func(o *Options) { o.Embed = letters })
	if _, err := s.realSearch(t.Context(), 100, 8); !errors.Is(err, ErrNoRealVectors) ||
		!errors.Is(err, os.ErrNotExist) {
		t.Errorf("without data: %v", err)
	}
	writeQuestions(t, s.o.Data)
	if err := os.WriteFile(filepath.Join(s.o.Data, "squad16", "queries.jsonl"), []byte("{\"context_id\": 5}\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.realSearch(t.Context(), 100, 8); err == nil || errors.Is(err, ErrNoRealVectors) {
		t.Errorf("damaged data: %v", err)
	}
}

func TestRealSearch(t *testing.T) {
	s := quiet(t, func(o *Options) { o.Embed = letters })
	writeQuestions(t, s.o.Data)
	d, err := s.realSearch(t.Context(), 500, 8)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if d.base.Rows != 500 || d.queries.Rows != 8 || !(d.cutoff > 0.5 && d.cutoff < 1) {
		t.Errorf("%d vectors, %d queries, cut-off %v", d.base.Rows, d.queries.Rows, d.cutoff)
	}
	for i := range d.base.Rows {
		if l := ref.Norm(d.base.row(i)); math.Abs(l-1) > 1e-6 {
			t.Fatalf("vector %d has length %v", i, l)
		}
	}
	s.o.Embed = nil // the second time nothing is embedded
	again, err := s.realSearch(t.Context(), 500, 8)
	if err != nil || again.cutoff != d.cutoff {
		t.Fatalf("%v", err)
	}
	if err := again.close(); err != nil {
		t.Error(err)
	}
}
