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
	"github.com/sluice-rag/sluice/kernels/cpu"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
		fmt.Fprintf(&contexts,
			"{\"id\":\"c%d\",\"text\":\"The %s of the river lies far behind the hills. "+
				"Nobody who was at %s has ever seen it again.\"}\n", i, word, word)
		fmt.Fprintf(&questions, "{\"context_id\":\"c%d\",\"text\":\"Where does the %s of the river lie?\"}\n", i, word)
		fmt.Fprintf(&utterances, "{\"text\":\"set my alarm to %d %s\"}\n", i, word)
	}
	for name, text := range map[string]string{"squad16/contexts.jsonl": contexts.String(),
		"squad16/queries.jsonl": questions.String(), "clinc150/test.jsonl": utterances.String()} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o644)); err != nil {
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
	o := Options{Workload: "all", Short: true, Peers: []string{"numpy", "gonum"}, Data: t.TempDir(), Cache: t.TempDir(),
		Python: "/nowhere/python3", GoPeers: "/nowhere/gopeers", Embed: letters}
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
		if r.Impl != Own || r.MedianMS <= 0 || r.MinMS > r.MedianMS || r.PairsPerS <= 0 || r.Threads < 1 ||
			r.ISA == "" {
			t.Errorf("%+v", r)
		}
		if r.Choice == "" || !strings.HasPrefix(r.Choice, "cpu ") {
			t.Errorf("what the engine chose is not said: %+v", r)
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
		"w1 exact", "w1 interval", "w2 exact", "w2 interval", "w3 exact", "w4 exact", "cover exact", "matrix bounded",
		"real q=1 cover tau=none above out of scope", "real q=4 cover tau=cover's cut-off",
		"mixture q=1 tau=0.55 in scope",
		"real q=1 tau=cut-off out of scope", "real q=4 tau=0.55", "mixture q=4 maximum", "real q=1", "mixture q=4",
	} {
		if !seen[want] {
			t.Errorf("no row of %q", want)
		}
	}
	if seen[memory+" exact"] {
		t.Error("all includes the workload that takes long")
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
		"report.md": "| % of limit |", "report.json": `"median_ms"`, "w1-90x270x384.svg": "</svg>",
		"w3-3000x384-mixture-q1.svg": "</svg>", "matrix-96x288x384.svg": "</svg>",
	} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: no %q, %v", name, want, err)
		}
	}
}

// TestMemory: the limits come one after the other with the same exact result, and the report has their ratios.
func TestMemory(t *testing.T) {
	report, err := Compute(t.Context(), Options{Workload: memory, Short: true, Cache: t.TempDir(), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Rows) != 2 || report.Rows[0].MemLimit != 1<<30 || report.Rows[1].MemLimit != 8<<20 {
		t.Fatalf("%+v", report.Rows)
	}
	for _, r := range report.Rows {
		if r.MaxError != 0 || r.Workload != memory || r.Shape != "400x1200x384" ||
			!strings.Contains(r.Choice, "passes 1") {
			t.Errorf("%+v", r)
		}
	}
	var text strings.Builder
	if err := report.Markdown(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| shape | limit MiB |", "| 400x1200x384 | 1024 |", " | 1 | 0 | ",
		"| 400x1200x384 | 8 |"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}

// TestIncremental: after every change the artifact has the bits of a full run, and only the changed pairs are counted.
func TestIncremental(t *testing.T) {
	report, err := Compute(t.Context(), Options{Workload: incremental, Short: true, Rounds: 1, Cache: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"1020100 of 1020100 pairs", "20100 of 1020100 pairs", "10000 of 1010000 pairs", "19900 of 980100 pairs",
		"1040200 of 1020100 pairs counted, state 1",
	}
	if len(report.Rows) != len(want) {
		t.Fatalf("%+v\n%v", report.Rows, report.Notes)
	}
	for i, r := range report.Rows {
		if r.MaxError != 0 || !strings.Contains(r.Choice, want[i]) {
			t.Errorf("%+v, want %q", r, want[i])
		}
	}
	if last := report.Rows[4].Choice; !strings.Contains(last, "have left what was kept") {
		t.Errorf("brackets that were shifted: %s", last)
	}
	var text strings.Builder
	if err := report.Markdown(&text); err != nil || !strings.Contains(text.String(), "| full | ") {
		t.Errorf("%v: %s", err, text.String())
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

// TestRun checks with a competitor that fails at once, one that fails later and one whose result is not a number that
// each is noted and left out, and that the others go on.
func TestRun(t *testing.T) {
	s := quiet(t)
	s.limits = limits.Limits{Read: 1e9, FMABase: 1e9}
	compete := func(name string, worst float64, run func(round int) error) *competitor {
		return &competitor{Row: Row{Impl: name, DType: "f32"},
			check: func(context.Context) (float64, error) { return worst, nil },
			run: func(_ context.Context, round int) ([]time.Duration, error) {
				return []time.Duration{time.Millisecond}, run(round)
			}}
	}
	runs, nan := 0, 0.0
	broken := errors.New("out of order")
	b := &benchmark{workload: "w", shape: "s", rounds: 4, pairs: 1000, operations: 5e5, competitors: []*competitor{
		compete("good", 0.5, func(int) error { runs++; return nil }),
		compete("broken", 0, func(int) error { return broken }),
		compete("tired", 0, func(round int) error {
			if round == 2 {
				return broken
			}
			return nil
		}),
		compete("odd", nan/nan, func(int) error { return nil }),
	}}
	if err := s.run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	want := []Row{{Workload: "w", Shape: "s", Impl: "good", DType: "f32", Threads: 1, MedianMS: 1, MinMS: 1,
		RoundsMS: []float64{1, 1, 1, 1}, PairsPerS: 1e6, LimitPct: 50, MaxError: .5}}
	if diff := cmp.Diff(want, s.report.Rows); diff != "" {
		t.Error(diff)
	}
	if runs != 5 { // one to warm up
		t.Errorf("%d runs", runs)
	}
	for i, name := range []string{"broken", "tired", "odd"} {
		if len(s.report.Notes) != 3 || !strings.Contains(s.report.Notes[i], name+" f32 left out: ") {
			t.Fatalf("%q", s.report.Notes)
		}
	}
}

func TestSlowCompetitorStops(t *testing.T) {
	s := quiet(t)
	runs := 0
	c := &competitor{Row: Row{Impl: "slow"}, check: func(context.Context) (float64, error) { return 0, nil }}
	c.run = func(context.Context, int) ([]time.Duration, error) {
		runs++
		c.spent = maxSpent + 1
		return []time.Duration{time.Second}, nil
	}
	if err := s.run(t.Context(), &benchmark{workload: "w", shape: "s", rounds: 50, pairs: 1,
		competitors: []*competitor{c}}); err != nil {
		t.Fatal(err)
	}
	if runs != 1+minRounds {
		t.Errorf("%d runs", runs)
	}
}

// TestVariants checks that each type occurs once, and float32 also on AVX2.
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
	if len(got) == 0 || !strings.HasSuffix(got[0], " f32") ||
		len(slices.Compact(slices.Sorted(slices.Values(got)))) != len(got) {
		t.Error(got)
	}
	t.Log(got)
	s = quiet(t, func(o *Options) { o.ISA = "go" })
	if only, err := s.variants(kernels.F32, kernels.BF16); err != nil || len(only) != 1 || only[0].isa != "go" {
		t.Errorf("%v %v", only, err)
	}
}

// TestAlsoMeasured: float32 has the same kernels with and without VNNI; 8 bits differ.
func TestAlsoMeasured(t *testing.T) {
	for _, c := range []struct {
		dtype     kernels.DType
		best, isa cpu.ISA
		want      bool
	}{
		{kernels.F32, cpu.AMX, cpu.AVX512VNNI, false}, {kernels.F32, cpu.AMX, cpu.AVX512, true},
		{kernels.F32, cpu.AVX512VNNI, cpu.AVX512, false},
		{kernels.F32, cpu.AVX512VNNI, cpu.AVX2, true}, {kernels.I8, cpu.AMX, cpu.AVX512VNNI, true},
		{kernels.BF16, cpu.AMX, cpu.AVX2, false}, {kernels.I16, cpu.AVX512VNNI, cpu.AVXVNNI, true},
		{kernels.F32, cpu.AVX2, cpu.Scalar, false},
	} {
		if got := alsoMeasured(c.dtype, c.best, c.isa); got != c.want {
			t.Errorf("%s: %s beside %s: %v", c.dtype, c.isa, c.best, got)
		}
	}
}
