package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/bench/limits"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/kernels"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv("SLUICE_BENCH_FAKE"); mode != "" {
		fakeSidecar(mode)
		return
	}
	goleak.VerifyTestMain(m)
}

// letters embeds a text as the counts of its letters: alike texts get alike vectors.
func letters(_ context.Context, texts []string, _ embed.Role) (*embed.Embeddings, error) {
	e := &embed.Embeddings{Dim: 26}
	for _, text := range texts {
		v := make([]float32, 26)
		for _, c := range strings.ToLower(text) {
			if 'a' <= c && c <= 'z' {
				v[c-'a']++
			}
		}
		normalise(v)
		e.Data = append(e.Data, v...)
	}
	return e, nil
}

// writeQuestions makes a small squad16 and clinc150.
func writeQuestions(t *testing.T, dir string) {
	t.Helper()
	var contexts, questions, utterances strings.Builder
	for i := range 40 {
		word := strings.Repeat(string(rune('a'+i%26)), 3+i/26)
		fmt.Fprintf(&contexts, "{\"id\":\"c%d\",\"text\":\"The %s of the river lies far behind the hills. Nobody who was at %s has ever seen it again.\"}\n", i, word, word)
		fmt.Fprintf(&questions, "{\"context_id\":\"c%d\",\"text\":\"Where does the %s of the river lie?\"}\n", i, word)
		fmt.Fprintf(&utterances, "{\"text\":\"set my alarm to %d %s\"}\n", i, word)
	}
	for name, text := range map[string]string{"squad16/contexts.jsonl": contexts.String(), "squad16/queries.jsonl": questions.String(), "clinc150/test.jsonl": utterances.String()} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		want error
		says string
	}{
		"workload": {Options{Workload: "w9"}, ErrWorkload, `"w9"`},
		"nothing":  {Options{}, ErrWorkload, "matrix"},
		"threads":  {Options{Workload: "w1", Threads: -1}, ErrOption, "-1"},
		"too many": {Options{Workload: "w1", Threads: 1 << 20}, ErrOption, "1048576 threads"},
		"rounds":   {Options{Workload: "w1", Rounds: -2}, ErrOption, "-2"},
		"peer":     {Options{Workload: "w1", Peers: []string{"numpy", "torch"}}, ErrOption, `"torch"`},
		"isa":      {Options{Workload: "w1", ISA: "mmx"}, kernels.ErrISA, "mmx"},
	} {
		if _, err := Compute(t.Context(), c.o); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestShort runs everything on tiny shapes, with peers that are missing.
func TestShort(t *testing.T) {
	o := Options{Workload: "all", Short: true, Peers: []string{"numpy", "gonum"}, Data: t.TempDir(), Cache: t.TempDir(), Python: "/nowhere/python3", GoPeers: "/nowhere/gopeers", Embed: letters}
	writeQuestions(t, o.Data)
	var rows []Row
	o.Row = func(r Row) { rows = append(rows, r) }
	report, err := Compute(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(report.Rows, rows); diff != "" {
		t.Error(diff)
	}
	seen := map[string]bool{}
	for _, r := range rows {
		if r.Impl != Own || r.MedianMS <= 0 || r.MinMS > r.MedianMS || r.PairsPerS <= 0 || r.Threads < 1 || r.ISA == "" {
			t.Errorf("%+v", r)
		}
		if r.Mode == "exact" && r.MaxError != 0 {
			t.Errorf("not exact: %+v", r)
		}
		if r.Mode == "bounded" && r.DType == "f32" && r.MaxError > sameScores {
			t.Errorf("%+v", r)
		}
		seen[r.Workload+" "+r.Mode] = true
		seen[strings.Join(strings.Fields(r.Shape)[1:], " ")] = true
	}
	for _, want := range []string{
		"w1 exact", "w1 interval", "w2 exact", "w2 interval", "w3 exact", "w4 exact", "matrix bounded", "mixture q=1 tau=0.55 in scope",
		"real q=1 tau=cut-off out of scope", "real q=4 tau=0.55", "mixture q=4 maximum", "real q=1", "mixture q=4",
	} {
		if !seen[want] {
			t.Errorf("no row of %q", want)
		}
	}
	notes := strings.Join(report.Notes, "\n")
	for _, want := range []string{"numpy: ", "gonum: ", "make bench-compute", "are above"} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q is not in the notes:\n%s", want, notes)
		}
	}
	if len(report.Ratios) > 0 {
		t.Errorf("ratios to no peer: %+v", report.Ratios)
	}
	checkReport(t, report)
}

// checkReport writes a report and looks at the files.
func checkReport(t *testing.T, r *Report) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new", "folder")
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"report.md": "| shape | impl |", "report.json": `"median_ms"`, "w1-90x270x384.svg": "</svg>", "w3-3000x384-mixture-q1.svg": "</svg>", "matrix-96x288x384.svg": "</svg>",
	} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: no %q, %v", name, want, err)
		}
	}
}

func TestComputeIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := Options{Workload: "w1", Short: true, Cache: t.TempDir(), Rounds: 1000}
	o.Log = func(text string) {
		if strings.Contains(text, "round 1 ") {
			cancel()
		}
	}
	if _, err := Compute(ctx, o); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestRace has an entrant that fails at once, one that fails later, one whose result is no number, and a
// slow one that must not hold up the others.
func TestRace(t *testing.T) {
	s := quiet(t)
	s.limits = limits.Limits{Read: 1e9, FMABase: 1e9}
	enter := func(name string, fault float64, run func(turn int) error) *entrant {
		return &entrant{Row: Row{Impl: name, DType: "f32"}, fault: func(context.Context) (float64, error) { return fault, nil },
			run: func(_ context.Context, turn int) ([]time.Duration, error) {
				return []time.Duration{time.Millisecond}, run(turn)
			}}
	}
	turns, nan := 0, 0.0
	broken := errors.New("out of order")
	r := &race{workload: "w", shape: "s", rounds: 4, pairs: 1000, operations: 5e5, entrants: []*entrant{
		enter("good", 0.5, func(int) error { turns++; return nil }),
		enter("broken", 0, func(int) error { return broken }),
		enter("tired", 0, func(turn int) error {
			if turn == 2 {
				return broken
			}
			return nil
		}),
		enter("odd", nan/nan, func(int) error { return nil }),
	}}
	if err := s.run(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	want := []Row{{Workload: "w", Shape: "s", Impl: "good", DType: "f32", Threads: 1, MedianMS: 1, MinMS: 1, PairsPerS: 1e6, LimitPct: 50, MaxError: .5}}
	if diff := cmp.Diff(want, s.report.Rows); diff != "" {
		t.Error(diff)
	}
	if turns != 5 { // one to warm up
		t.Errorf("%d turns", turns)
	}
	for i, name := range []string{"broken", "tired", "odd"} {
		if len(s.report.Notes) != 3 || !strings.Contains(s.report.Notes[i], name+" f32 is out: ") {
			t.Fatalf("%q", s.report.Notes)
		}
	}
}

func TestSlowEntrantStops(t *testing.T) {
	s := quiet(t)
	turns := 0
	e := &entrant{Row: Row{Impl: "slow"}, fault: func(context.Context) (float64, error) { return 0, nil }}
	e.run = func(context.Context, int) ([]time.Duration, error) {
		turns++
		e.spent = patience + 1
		return []time.Duration{time.Second}, nil
	}
	if err := s.run(t.Context(), &race{workload: "w", shape: "s", rounds: 50, pairs: 1, entrants: []*entrant{e}}); err != nil {
		t.Fatal(err)
	}
	if turns != 1+leastTurns {
		t.Errorf("%d turns", turns)
	}
}

// TestVariants: each type once, and float32 on AVX2, too.
func TestVariants(t *testing.T) {
	s := quiet(t)
	all, err := s.variants(kernels.F32, kernels.BF16x3, kernels.BF16, kernels.I8)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range all {
		if v.engine.Describe().ISA != v.isa {
			t.Errorf("%s runs on %s", v.isa, v.engine.Describe().ISA)
		}
		got = append(got, v.isa+" "+v.dtype.String())
	}
	if len(got) == 0 || !strings.HasSuffix(got[0], " f32") || len(slices.Compact(slices.Sorted(slices.Values(got)))) != len(got) {
		t.Error(got)
	}
	t.Log(got)
	s = quiet(t, func(o *Options) { o.ISA = "go" })
	if only, err := s.variants(kernels.F32, kernels.BF16); err != nil || len(only) != 1 || only[0].isa != "go" {
		t.Errorf("%v %v", only, err)
	}
}
