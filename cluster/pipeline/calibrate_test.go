package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gocloud.dev/blob"

	"github.com/sluice-rag/sluice/cluster/calibrate"
	"github.com/sluice-rag/sluice/cluster/objects"
	"github.com/sluice-rag/sluice/cluster/worker"
	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/postings"
)

// all are the storages of this package's tests.
var all = func() *storages {
	s := &storages{of: map[string]*faulty{}}
	blob.DefaultURLMux().RegisterBucket(scheme, s)
	return s
}()

const dim = 24

// input returns a base of contexts whose words and vectors say something of their topics, with questions about some of
// them. Every seventh row of its index is of a deleted chunk.
func input(t *testing.T, contexts, questions, topics int) gate.Input {
	t.Helper()
	rng := rand.New(rand.NewPCG(47, 13))
	vector := func(topic int) (v []float32) {
		for i := range dim {
			x := rng.NormFloat64()
			if i == topic%dim {
				x += 2
			}
			v = append(v, float32(x))
		}
		return v
	}
	in := gate.Input{Encoder: identity.Encoder{Name: "e", Digest: "d", TokenizerDigest: "t", Dim: dim}, Tool: "test",
		Topics: topics > 0, CorpusDigest: "c", Seed: 3, Resamples: 50, Holdout: .2, Words: &gate.Words{},
		Contexts: engine.Vectors{Dim: dim}, Queries: engine.Vectors{Dim: dim}, General: engine.Vectors{Dim: dim},
		Provenance: gate.Provenance{Kind: "file"}}
	var documents []postings.Document
	of := max(topics, 6)
	for row := range contexts {
		if len(documents)%7 == 3 {
			documents = append(documents, postings.Document{})
		}
		in.Words.Rows = append(in.Words.Rows, len(documents))
		documents = append(documents, postings.Document{Language: []string{"en", "en", "de"}[row%3],
			Text: fmt.Sprintf("subject%dx%d of word%d and common words", row%of, row%31, rng.IntN(60))})
		in.Contexts.Rows++
		in.Contexts.Data = append(in.Contexts.Data, vector(row%of)...)
		in.ContextIDs, in.TextDigests = append(in.ContextIDs, fmt.Sprintf("c%d", row)),
			append(in.TextDigests, fmt.Sprintf("%064x", row))
		if topics > 0 {
			in.Groups = append(in.Groups, int32(row%of))
		}
	}
	for range questions {
		row := rng.IntN(contexts)
		in.Queries.Rows++
		in.Queries.Data = append(in.Queries.Data, vector(row%of)...)
		in.Owner = append(in.Owner, int32(row))
		in.Words.Queries = append(in.Words.Queries, fmt.Sprintf("what of subject%dx%d, word%d", row%of, row%31,
			rng.IntN(60)))
	}
	for i := range 3 {
		in.General.Rows++
		in.General.Data = append(in.General.Data, vector(i)...)
		in.Words.General = append(in.Words.General, fmt.Sprintf("who knows word%d", i))
	}
	source := func(_ context.Context, from, to int) ([]postings.Document, error) { return documents[from:to], nil }
	var err error
	in.Words.Index, err = postings.New().With(t.Context(), len(documents), source,
		func(row int) bool { return documents[row].Text == "" }, nil)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func newEngine(t *testing.T) *engine.Engine {
	t.Helper()
	p, err := worker.Shared()
	if err != nil {
		t.Fatal(err)
	}
	return p.Engine
}

// same compares artifacts: all bits but the time.
func same(t *testing.T, what string, want, got *gate.Calibration) {
	t.Helper()
	a, b := *want, *got
	a.Created, b.Created = time.Time{}, time.Time{}
	if diff := cmp.Diff(&a, &b, cmpopts.IgnoreUnexported(gate.Calibration{}, gate.Scored{}),
		cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-local +workers):\n%s", what, diff)
	}
	if !slices.Equal(want.MaximumScores(), got.MaximumScores()) {
		t.Errorf("%s: other maxima", what)
	}
}

// calibrated exports a base and calibrates it on prism.
func calibrated(t *testing.T, f *faulty, name string, in gate.Input, rows, step int, keep int64,
	fails func(string, string) error) (*gate.Calibration, []float64) {
	t.Helper()
	address := scheme + "://" + name
	s, err := objects.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	of, questions, err := calibrate.Export(t.Context(), s, in, rows)
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	f.fails = fails
	f.mu.Unlock()
	c, positive, err := Calibrate(t.Context(), newEngine(t), address, of, questions,
		CalibrateOptions{Runner: "prism", Step: step, Exact: true, Keep: keep})
	if err != nil {
		t.Fatal(err)
	}
	return c, positive
}

// TestCalibrationOfManyWorkers: on prism, segments and blocks of any size give the artifact of one machine, by topics
// and by clusters.
func TestCalibrationOfManyWorkers(t *testing.T) {
	for _, topics := range []int{5, 0} {
		in := input(t, 700, 400, topics)
		want, positive, err := gate.Calibrate(t.Context(), newEngine(t), in)
		if err != nil {
			t.Fatal(err)
		}
		if want.Score != "cosine+cover" {
			t.Errorf("the score is %s: words say nothing in this test", want.Score)
		}
		for i, size := range [][2]int{{150, 400}, {700, 130}} {
			name := fmt.Sprintf("sizes%dx%d", topics, i)
			got, scores := calibrated(t, all.add(name), name, in, size[0], size[1], 0, nil)
			same(t, name, want, got)
			if !slices.Equal(positive, scores) {
				t.Errorf("%s: another D+", name)
			}
		}
	}
}

// TestAFurtherPass: a second pass finds the quantiles, in what the blocks of the first one kept aside, or by the first
// one's histogram where they may keep nothing.
func TestAFurtherPass(t *testing.T) {
	in := input(t, 700, 400, 5)
	want, _, err := gate.Calibrate(t.Context(), newEngine(t), in)
	if err != nil {
		t.Fatal(err)
	}
	for name, keep := range map[string]int64{"nothing": 1, "kept": 0} {
		f := all.add(name)
		got, _ := calibrated(t, f, name, in, 150, 400, keep, nil)
		same(t, name, want, got)
		// Five blocks and their sum in each pass. A third one is right only where the second one read what was kept, in
		// the ranges that likely have the quantiles.
		if n := len(f.list("done/pairs")); n != 2*6 && (keep > 0 || n != 3*6) {
			t.Errorf("%s: %d records of two passes", name, n)
		}
		if n := len(f.list("done/kept")); n != 5*int(1-keep) {
			t.Errorf("%s: %d blocks have kept pairs", name, n)
		}
	}
}

// TestMissedBrackets: where the quantiles are not in the pairs that the blocks kept, a pass with a histogram tells
// where they are, and one more finds them. Where they are not in the likely ranges, one more pass finds them in what
// was kept.
func TestMissedBrackets(t *testing.T) {
	in, ctx, e := input(t, 300, 200, 0), t.Context(), newEngine(t)
	want, _, err := gate.Calibrate(ctx, e, in)
	if err != nil {
		t.Fatal(err)
	}
	all.add("missed")
	address := scheme + "://missed"
	s, err := objects.Open(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	of, questions, err := calibrate.Export(ctx, s, in, 100)
	if err != nil {
		t.Fatal(err)
	}
	c, job, err := calibrate.Begin(ctx, s, e, of, questions)
	if err != nil {
		t.Fatal(err)
	}
	run := func(kind string) string {
		t.Helper()
		sum, err := Run(ctx, "prism", Of{address, kind, job})
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	if job, err = c.Pairs(ctx, s, run(Words), 200, 1<<30); err != nil {
		t.Fatal(err)
	}
	first, sum := job, run(Pairs)
	counts, likely, err := c.Counts(ctx, s, sum, "")
	if err != nil || likely == nil || len(likely.Sure) == 0 {
		t.Fatalf("%+v, %v", likely, err)
	}
	far, near := *likely, *likely
	far.Ranges, far.Sure, near.Ranges = [][2]float64{{-.9, .9}}, nil, nil
	for _, r := range near.Sure {
		near.Ranges = append(near.Ranges, [2]float64{r[0], r[0]})
	}
	for name, next := range map[string]*engine.Brackets{"far": &far, "near": &near} {
		job = first
		for passes := 0; next != nil; passes++ {
			if passes == 2 {
				t.Fatalf("%s: after two further passes %+v are wanted", name, next)
			}
			if job, err = c.Again(ctx, s, next, job); err != nil {
				t.Fatal(err)
			}
			var of calibrate.Job
			if err := s.GetJSON(ctx, job, &of); err != nil || (of.Pairs.From == first) != (name == "near") {
				t.Errorf("%s: a pass over what %q kept, %v", name, of.Pairs.From, err)
			}
			if counts, next, err = c.Counts(ctx, s, sum, run(Pairs)); err != nil {
				t.Fatal(err)
			}
		}
		got, _, err := c.Artifact(ctx, s, counts)
		if err != nil {
			t.Fatal(err)
		}
		same(t, name, want, got)
	}
}

// TestFailures: a storage that fails for a while, a function that panics once in each step, and a worker that dies
// between writing a part and recording it leave no trace in the artifact, and no part is written twice.
func TestFailures(t *testing.T) {
	in := input(t, 500, 200, 5)
	want, _, err := gate.Calibrate(t.Context(), newEngine(t), in)
	if err != nil {
		t.Fatal(err)
	}
	once := func(what, kind string, how func() error) func(string, string) error {
		var done atomic.Bool
		return func(op, name string) error {
			if op == what && strings.HasPrefix(name, kind) && done.CompareAndSwap(false, true) {
				return how()
			}
			return nil
		}
	}
	var outages atomic.Int64
	for name, fails := range map[string]func(string, string) error{
		"outage": func(string, string) error {
			if outages.Add(1)%11 == 0 {
				return errOutage
			}
			return nil
		},
		"reading words":          once("read", "words/", func() error { panic("a worker dies") }),
		"writing a count":        once("write", "counted/", func() error { panic("a worker dies") }),
		"writing a part":         once("write", "parts/", func() error { panic("a worker dies") }),
		"recording":              once("write", "done/pairs", func() error { panic("a worker dies") }),
		"writing what is kept":   once("write", "kept/", func() error { panic("a worker dies") }),
		"recording what is kept": once("write", "done/kept", func() error { panic("a worker dies") }),
	} {
		host := strings.ReplaceAll(name, " ", "-")
		got, _ := calibrated(t, all.add(host), host, in, 120, 90, 0, fails)
		same(t, name, want, got)
	}
}

// TestABundleTwice: a task that is done twice, recorded or not, gives the same object, and changes nothing; a part that
// is summed twice, or is missing, is an error that names the range.
func TestABundleTwice(t *testing.T) {
	in, ctx := input(t, 300, 100, 5), t.Context()
	f, address := all.add("twice"), scheme+"://twice"
	calibrated(t, f, "twice", in, 100, 100, 0, nil)
	before := f.list("parts")
	records := f.list("done/pairs")
	job := "job/" + strings.Split(records[0], "/")[2]
	of := Of{address, Pairs, job}
	s, step, err := of.open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var names []string
	for task := range step.Tasks() {
		first, err := s.Recorded(ctx, of.record(task))
		if err != nil {
			t.Fatal(err)
		}
		for _, do := range []func() (string, error){
			func() (string, error) { return step.Do(ctx, s, task) },
			func() (string, error) { return of.do(ctx, s, step, task) },
		} {
			if again, err := do(); err != nil || again != first {
				t.Errorf("task %d gives %s, and then %s: %v", task, first, again, err)
			}
		}
		names = append(names, first)
	}
	if after := f.list("parts"); !slices.Equal(before, after) {
		t.Errorf("%d objects, and then %d", len(before), len(after))
	}
	if _, err := step.Sum(ctx, s, append(slices.Clone(names), names[1])); !errors.Is(err, engine.ErrPart) ||
		!strings.Contains(err.Error(), "contexts 100 to 199 are counted twice") {
		t.Errorf("a part twice: %v", err)
	}
	half, err := step.Sum(ctx, s, names[:2])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := step.Sum(ctx, s, []string{half, "parts/none"}); !errors.Is(err, objects.ErrNotFound) {
		t.Errorf("a part that is gone: %v", err)
	}
}
