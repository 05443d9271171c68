package encode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/bench/limits"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/embed/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// letters embeds a text as the counts of its letters, and counts its words as tokens.
type letters struct {
	dir    string
	closed *int
	fails  bool
}

func (l letters) Embed(_ context.Context, texts []string, _ embed.Role) (*embed.Embeddings, error) {
	if l.fails {
		return nil, errors.New("no memory")
	}
	e := &embed.Embeddings{Dim: 26}
	for _, text := range texts {
		v := make([]float32, 26)
		for _, c := range strings.ToLower(text) {
			if 'a' <= c && c <= 'z' {
				v[c-'a']++
			}
		}
		e.Data = append(e.Data, v...)
	}
	return e, nil
}

func (letters) CountTokens(text string) (int, error) { return len(strings.Fields(text)) + 2, nil }

func (l letters) Info() embed.Info {
	return embed.Info{Encoder: identity.Encoder{Name: "letters", Dim: 26, Digest: "sha256:00"}, Dir: l.dir,
		MaxTokens: 256}
}

func (l letters) Close() error { *l.closed++; return nil }

// fixture returns a folder with a model's config.json and data in which every question has the letters of its context.
func fixture(t *testing.T) (model, data string) {
	t.Helper()
	model, data = t.TempDir(), t.TempDir()
	write := func(path string, lines ...any) {
		t.Helper()
		var b bytes.Buffer
		for _, l := range lines {
			raw, err := json.Marshal(l)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(append(raw, '\n'))
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(model, "config.json"), map[string]int{"num_hidden_layers": 2, "hidden_size": 8,
		"intermediate_size": 32})
	for _, set := range []string{squad, german} {
		var contexts, questions []any
		for i := range 12 {
			c := string(rune('a' + i))
			contexts = append(contexts,
				map[string]any{"id": c, "text": strings.Repeat(c, 9) + ". " + strings.Repeat(c, 4)})
			questions = append(questions, map[string]any{"context_id": c, "answerable": i != 3,
				"text": strings.TrimSpace(strings.Repeat(c+" ", 10))})
		}
		write(filepath.Join(data, set, "contexts.jsonl"), contexts...)
		write(filepath.Join(data, set, "queries.jsonl"), questions...)
	}
	for _, part := range []string{"test", "validation", "train"} {
		write(filepath.Join(data, "clinc150", part+".jsonl"), map[string]any{"text": "zz " + part, "intent": "oos"},
			map[string]any{"text": "inside", "intent": "other"})
	}
	return model, data
}

func TestRun(t *testing.T) {
	dir, data := fixture(t)
	closed := 0
	var rows []Row
	var notes []string
	o := Options{Short: true, Rounds: 2, Data: data, Cache: t.TempDir(),
		Precisions: []string{"f32", "int8", "none", "cuda"},
		Peers:      []string{"onnxruntime"}, Python: "/nowhere/python3",
		Open: func(_ context.Context, p string, _ int) (Encoder, error) {
			if p == "none" {
				return nil, errors.New("no such mode")
			}
			return letters{dir: dir, closed: &closed}, nil
		},
		Row: func(r Row) { rows = append(rows, r) }, Note: func(text string) { notes = append(notes, text) }}
	report, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if closed != 3 {
		t.Errorf("%d encoders are closed, 3 expected", closed)
	}
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprintf("%s %s %s %s %d", r.Workload, r.Impl, r.DType, r.Mode, r.Samples))
		if r.MedianMS <= 0 || r.TextsPerS <= 0 || r.MaxError != nil || r.NDCG == nil || math.Abs(*r.NDCG-1) > 1e-12 {
			t.Errorf("%+v", r)
		}
	}
	var want []string
	for _, workload := range []string{"mixed sluice %s batch 2", "contexts sluice %s batch 2",
		"question sluice %s one 6"} {
		for _, dtype := range []string{"f32", "i8", "f32 cuda"} {
			want = append(want, fmt.Sprintf(workload, dtype))
		}
	}
	if !slices.Equal(got, want) || len(report.Rows) != len(rows) {
		t.Errorf("rows %q, want %q", got, want)
	}
	for _, x := range report.Ratios { // there are no peers: a GPU is compared with the CPU
		if x.DType != "f32 cuda" || x.Peer != "sluice f32" || len(x.Rounds) == 0 {
			t.Errorf("%+v", x)
		}
	}
	if len(report.Ratios) != 3 || rows[2].LimitPct != 0 {
		t.Errorf("%d ratios, limit of a GPU's row %v", len(report.Ratios), rows[2].LimitPct)
	}
	if len(report.Quality) != 3 || report.Quality[0].AUROC != 1 || report.Quality[1].NDCGGermanChange != 0 {
		t.Errorf("quality %+v", report.Quality)
	}
	for _, says := range []string{"sluice none is left out: no such mode", "the peers are left out",
		"no errors to float64"} {
		if !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, says) }) {
			t.Errorf("notes %q do not say %q", notes, says)
		}
	}
	var text bytes.Buffer
	if err := report.Markdown(&text); err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{"## mixed, 24 texts", "| **sluice** |  | i8 |", "p99 ms", "## quality",
		"Model: letters"} {
		if !strings.Contains(text.String(), says) {
			t.Errorf("the report does not say %q:\n%s", says, text.String())
		}
	}
	if err := report.Write(t.TempDir()); err != nil {
		t.Error(err)
	}
}

func TestRunRefuses(t *testing.T) {
	dir, data := fixture(t)
	closed := 0
	good := Options{Short: true, Data: data, Precisions: []string{"f32"},
		Open: func(context.Context, string, int) (Encoder, error) { return letters{dir: dir, closed: &closed}, nil }}
	for name, c := range map[string]struct {
		change func(*Options)
		want   error
	}{
		"workload":  {func(o *Options) { o.Workloads = []string{"w1"} }, ErrOption},
		"peer":      {func(o *Options) { o.Peers = []string{"numpy"} }, ErrOption},
		"threads":   {func(o *Options) { o.Threads = 1 << 20 }, ErrOption},
		"precision": {func(o *Options) { o.Precisions = nil }, ErrOption},
		"data":      {func(o *Options) { o.Data = t.TempDir() }, ErrData},
	} {
		o := good
		c.change(&o)
		if _, err := Run(t.Context(), o); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFailingMode checks that a mode that fails while it runs is left out, and that the others go on.
func TestFailingMode(t *testing.T) {
	dir, data := fixture(t)
	closed := 0
	report, err := Run(t.Context(), Options{Short: true, Data: data, Workloads: []string{Mixed}, Cache: t.TempDir(),
		Python: "/nowhere/python3", Precisions: []string{"f32", "int8"},
		Open: func(_ context.Context, p string, _ int) (Encoder, error) {
			return letters{dir: dir, closed: &closed, fails: p == "int8"}, nil
		}})
	if err != nil || len(report.Rows) != 1 || report.Rows[0].DType != "f32" {
		t.Fatal(err, report.Rows)
	}
	if !slices.ContainsFunc(report.Notes, func(n string) bool { return strings.Contains(n, "no memory") }) {
		t.Error(report.Notes)
	}
}

func TestAUROC(t *testing.T) {
	for _, c := range []struct {
		inside, outside []float64
		want            float64
	}{
		{[]float64{.9, .8}, []float64{.1, .2}, 1}, {[]float64{.1}, []float64{.9}, 0},
		{[]float64{.5}, []float64{.5}, .5},
		{[]float64{.9, .5, .3}, []float64{.5, .4, .2}, (3 + 2.5 + 1) / 9.},
	} {
		if got := auroc(c.inside, c.outside); math.Abs(got-c.want) > 1e-15 {
			t.Errorf("%v against %v: %v, want %v", c.inside, c.outside, got, c.want)
		}
	}
}

func TestRanked(t *testing.T) {
	s := &session{o: Options{Threads: 2}}
	contexts := [][]float32{{1, 0}, {0, 2}, {3, 3}}
	gains, best := s.ranked([][]float32{{1, 0}, {1, 0.1}, {1, 1}}, contexts, []int{0, 1, 2})
	want := []float64{1, 1 / math.Log2(4), 1} // the second's own context is the third
	for i := range want {
		if math.Abs(gains[i]-want[i]) > 1e-12 {
			t.Errorf("gain %d: %v, want %v", i, gains[i], want[i])
		}
	}
	if math.Abs(best[2]-1) > 1e-7 || math.Abs(best[1]-1/math.Sqrt(1.01)) > 1e-7 {
		t.Errorf("best %v", best)
	}
}

func TestLimits(t *testing.T) {
	z := size{6, 384, 1536} // all-MiniLM-L6-v2: 21 MFLOP a token
	if got := z.operations(1) / 1e6; math.Abs(got-21.24) > .1 {
		t.Errorf("%v MFLOP a token", got)
	}
	l := limits.Limits{Read: 10e9, FMAAVX512: 100e9, VNNI: 400e9}
	if got := shortest(l, z, []int{12}, true, "f32"); got.Round(10*time.Microsecond) != 4250*time.Microsecond {
		t.Errorf("42.5 MB take %v", got)
	}
	if f32, i8 := shortest(l, z, []int{9, 9}, false, "f32"), shortest(l, z, []int{9, 9}, false, "i8"); f32 < 4*i8-3 ||
		f32 > 4*i8+3 {
		t.Errorf("%v in float32, %v in 8 bits", f32, i8)
	}
}

func TestRatioOfRounds(t *testing.T) {
	ms := func(n ...int) (out [][]time.Duration) {
		for _, x := range n {
			out = append(out, []time.Duration{time.Duration(x) * time.Millisecond})
		}
		return out
	}
	r, ok := ratio(ms(10, 20, 10), ms(20, 20, 40, 80))
	if !ok || r.Ratio != 2 || r.Min != 1 || r.Max != 4 || len(r.Rounds) != 3 {
		t.Errorf("%+v, %v", r, ok)
	}
	if _, ok := ratio(nil, ms(1)); ok {
		t.Error("no rounds in common have a ratio")
	}
	one, two := 1e-3, 3e-3
	tiny, small := 1e-7, 3e-6
	if asExact(&two, &one) || !asExact(&one, &two) || !asExact(&small, &tiny) || asExact(nil, &one) {
		t.Error("accuracy classes")
	}
}

func TestTexts(t *testing.T) {
	texts := texts{places: map[string]int{}}
	if got := texts.add([]string{"a", "b", "a"}); !slices.Equal(got, []int{0, 1, 0}) || len(texts.all) != 2 {
		t.Errorf("%v, %q", got, texts.all)
	}
	if got := spread([]int{1, 2, 3, 4, 5, 6}, 3); !slices.Equal(got, []int{1, 3, 5}) {
		t.Error(got)
	}
	l := load{places: []int{7, 8, 9}, single: true, perRound: 2}
	if got := l.batches(1); len(got) != 2 || got[0][0] != 9 || got[1][0] != 7 {
		t.Errorf("the second round is %v", got)
	}
	if _, err := ofTokens([]line{{Text: "x"}}, 12, 1, letters{}.CountTokens); !errors.Is(err, ErrData) {
		t.Error(err)
	}
}
