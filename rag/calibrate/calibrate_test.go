package calibrate_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/pairs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a base that holds the small library.
type world struct {
	*doubles.Base
	templates string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Base: doubles.NewBase(t, nil)}
	in := ingest.Input{Paths: []string{w.File(t, "a.jsonl", doubles.Contexts)}, Options: ingest.Options{NoChunk: true}}
	if _, err := ingest.Run(t.Context(), w.Base.Base, in); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) calibrate(t *testing.T, o calibrate.Options) (*calibrate.Result, error) {
	t.Helper()
	return calibrate.Run(t.Context(), w.Base.Base,
		calibrate.Input{Options: o, Model: w.Generator, Templates: w.templates})
}

func TestCalibrateHasTheModelWriteQuestions(t *testing.T) {
	w := newWorld(t)
	w.Model.Answers = []string{" does a deferred function run when the surrounding function returns?"}
	r, err := w.calibrate(t, calibrate.Options{PerContext: 1, RankLimit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if r.Queries.Kind != "generated" || r.Queries.Model != "script" || r.Report == nil || r.Report.Generated != 4 ||
		int64(r.Report.Kept) != r.Positive.N {
		t.Errorf("%+v %+v", r.Queries, r.Report)
	}
	var sum int
	for _, n := range r.Queries.Rejected {
		sum += n
	}
	if sum+r.Report.Kept != r.Report.Generated {
		t.Errorf("%d rejected and %d kept of %d", sum, r.Report.Kept, r.Report.Generated)
	}
	asked := len(w.Model.Requests())
	_, err = w.calibrate(t, calibrate.Options{PerContext: 1, RankLimit: 1, Policy: "min"})
	if err != nil || len(w.Model.Requests()) != asked {
		t.Errorf("%v: %d questions were written again", err, len(w.Model.Requests())-asked)
	}
}

// The user's template for pseudo-queries is used, not only read.
func TestCalibrateAsksWithTheUsersTemplate(t *testing.T) {
	templates := t.TempDir()
	const template = "=== user\nAsk {{.N}} times about: {{.Text}}\n"
	if err := os.WriteFile(filepath.Join(templates, "questions.tmpl"), []byte(template), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.templates = templates
	w.Model.Answers = []string{"When does a deferred function run, in which order?\n" +
		"Why do lighthouses warn ships of rocks?"}
	if _, err := w.calibrate(t, calibrate.Options{PerContext: 2}); err != nil {
		t.Fatal(err)
	}
	if len(w.Model.Requests()) != 4 {
		t.Fatalf("%d requests for 4 contexts", len(w.Model.Requests()))
	}
	for _, r := range w.Model.Requests() {
		if len(r.Messages) != 1 || !strings.HasPrefix(r.Messages[0].Content, "Ask 2 times about: ") {
			t.Errorf("%+v", r)
		}
	}
}

func TestCalibrationJSONHasNoBulk(t *testing.T) {
	w := newWorld(t)
	r, err := w.calibrate(t, calibrate.Options{Queries: strings.NewReader(doubles.Questions), Source: "questions"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	bulky := strings.Contains(string(text), "context_digests") || strings.Contains(string(text), "negative_histogram")
	if bulky || !strings.Contains(string(text), `"positive":{"n":4,`) {
		t.Errorf("%s", text)
	}
	var kept gate.Calibration
	file, err := os.ReadFile(filepath.Join(w.Dir, "store", "calibration", "default.cal.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(file, &kept); err != nil || len(kept.ContextDigests) != 4*8 {
		t.Errorf("the artifact lacks them: %v, %d bytes", err, len(kept.ContextDigests))
	}
}

// TestCalibrateIncrementally: after chunks and questions were added, changed and deleted, the artifact equals the
// artifact of a full run, only the changed pairs are counted, and only new questions are embedded.
func TestCalibrateIncrementally(t *testing.T) {
	w := newWorld(t)
	ingestText := func(name, text string) {
		in := ingest.Input{Paths: []string{w.File(t, name, text)}, Options: ingest.Options{NoChunk: true}}
		if _, err := ingest.Run(t.Context(), w.Base.Base, in); err != nil {
			t.Fatal(err)
		}
	}
	var lines, questions []string
	for i := range 40 {
		word := strings.Repeat(string(rune('a'+i%26)), 3+i/26)
		lines = append(lines,
			fmt.Sprintf(`{"id":"x%d","topic":"t%d","text":"the %s of chapter %s is a word of the sea and the ship"}`, i,
				i%3, word, word))
		questions = append(questions,
			fmt.Sprintf(`{"context_id":"x%d","text":"which %s is in the chapter of the sea"}`, i, word))
	}
	ingestText("b.jsonl", strings.Join(lines[:38], "\n"))
	asked := append(strings.Split(strings.TrimSpace(doubles.Questions), "\n"), questions[:38]...)
	run := func(what string, changed int64, texts int) {
		t.Helper()
		options := calibrate.Options{Source: "q", Holdout: .3, Resamples: 50, Policy: "p5"}
		read := func(keep int64, name string) *calibrate.Result {
			options.Queries, options.KeepBytes, options.Name = strings.NewReader(strings.Join(asked, "\n")), &keep, name
			r, err := w.calibrate(t, options)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			return r
		}
		want := read(-1, "full")
		embedded := 0
		w.Encoder.After = func(texts []string) { embedded += len(texts) }
		got := read(pairs.DefaultLimit, "default")
		w.Encoder.After = nil
		for _, name := range []*string{&want.PositiveFile, &want.MaximumFile, &want.OtherFile, &want.OwnerFile,
			&want.GeneralFile} {
			*name = strings.Replace(*name, "full", "default", 1) // what follows is the digest of the scores
		}
		equal := cmp.Options{
			cmpopts.IgnoreFields(gate.Calibration{}, "Created", "NegativeHistogram", "Separation"),
			cmpopts.IgnoreUnexported(gate.Calibration{}),
			cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Negative.Mean" },
				cmpopts.EquateApprox(0, 1e-12)),
		}
		if diff := cmp.Diff(want.Calibration, got.Calibration, equal); diff != "" {
			t.Errorf("%s (-full run +incremental):\n%s", what, diff)
		}
		if math.Abs(want.Separation-got.Separation) > .01 {
			t.Errorf("%s: separation %v and %v", what, want.Separation, got.Separation)
		}
		if got.Counted.Pairs != changed || embedded != texts || want.Counted.Pairs != want.Counted.Of ||
			want.Counted.StateBytes != 0 {
			t.Errorf("%s: %+v, want %d pairs; %d texts embedded, want %d", what, got.Counted, changed, embedded, texts)
		}
	}
	run("first", 42*42, 42+48) // and the general ones
	run("again", 0, 0)
	ingestText("c.jsonl", strings.Join(lines[38:], "\n"))
	asked = append(asked, questions[38:]...)
	run("two more", 2*44+42*2, 2)
	ingestText("a.jsonl", strings.Replace(doubles.Contexts, "plankton", "small shrimps", 1))
	run("a changed text", 1*44+43*1+1*44+43*1, 0) // the question stays, but it is another context's now
	asked = slices.Delete(asked, 5, 6)
	run("a question less", 44, 0)
	st, err := w.Writer(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.DeleteDocuments(t.Context(), []string{"x3", "defer"}); err != nil {
		t.Fatal(err)
	}
	if err := w.Changed(nil); err != nil {
		t.Fatal(err)
	}
	run("two documents less", 2*43+42*2, 0)
	if strings.Contains(w.Log.String(), "counted again") {
		t.Errorf("log: %s", w.Log)
	}
}

// TestCalibrateSaysWhyItCountsAll: another encoder's or a damaged state is not used, and the log says so.
func TestCalibrateSaysWhyItCountsAll(t *testing.T) {
	w := newWorld(t)
	run := func() *calibrate.Result {
		r, err := w.calibrate(t, calibrate.Options{Queries: strings.NewReader(doubles.Questions), Source: "questions",
			KeepBytes: new(int64(pairs.DefaultLimit))})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := run(); r.Counted.Reason != "nothing is kept yet" || r.Counted.StateBytes == 0 {
		t.Errorf("%+v", r.Counted)
	}
	if r := run(); r.Counted.Reason != "" || r.Counted.Pairs != 0 {
		t.Errorf("%+v", r.Counted)
	}
	state := filepath.Join(w.Dir, "store", "calibration", "default.state")
	if err := os.WriteFile(state, []byte("not a state"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := run(); !strings.Contains(r.Counted.Reason, "damaged") || r.Counted.Pairs != 16 {
		t.Errorf("%+v", r.Counted)
	}
	if !strings.Contains(w.Log.String(), "all pairs were counted: the kept counts are damaged") {
		t.Errorf("log: %s", w.Log)
	}
	vectors := filepath.Join(w.Dir, "store", "calibration", "default.vectors")
	data, err := os.ReadFile(vectors)
	if err != nil {
		t.Fatal(err)
	}
	for _, damaged := range [][]byte{data[:len(data)-5], append([]byte("x"), data[1:]...),
		append(slices.Clone(data), 1, 2, 3)} {
		if err := os.WriteFile(vectors, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if r := run(); r.Counted.Reason != "" || r.Counted.Pairs != 0 {
			t.Errorf("%d bytes of vectors: %+v", len(damaged), r.Counted)
		}
		run()
	}
}
