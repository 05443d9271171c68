package calibrate_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/pairs"
)

// synced returns a base of a folder with 40 files, each one chunk.
func synced(t *testing.T) (w *world, sync func() ingest.Result, path func(i int) string) {
	t.Helper()
	w = &world{Base: doubles.NewBase(t, nil)}
	dir := filepath.Join(w.Dir, "docs")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path = func(i int) string { return filepath.Join(dir, fmt.Sprintf("%02d.md", i)) }
	for i := range 40 {
		write(t, path(i), fmt.Sprintf("The %s keeps %s in the harbour.", word(i), word(i+7)))
	}
	sync = func() ingest.Result {
		t.Helper()
		r, err := ingest.Run(t.Context(), w.Base.Base,
			ingest.Input{Paths: []string{dir}, Options: ingest.Options{Sync: true, Chunk: "60/0"}})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	sync()
	return w, sync, path
}

func word(i int) string {
	return strings.Repeat(string('a'+rune(i%26)), 3) + strings.Repeat("b", i/26+1)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// After a sync only new texts are asked about, and only pairs that have changed are counted; what comes of it is what a
// calibration that counts all pairs makes.
func TestFollowAsksAboutNewContextsOnly(t *testing.T) {
	w, sync, path := synced(t)
	w.Model.Answers = nil
	for i := range 60 {
		w.Model.Answers = append(w.Model.Answers, fmt.Sprintf(" keeps %s in the harbour?", word(i+7)))
	}
	follow := func(o calibrate.Options) (*calibrate.Result, error) {
		return calibrate.Follow(t.Context(), w.Base.Base,
			calibrate.Input{Options: o, Model: w.Generator, Templates: w.templates})
	}
	o := calibrate.Options{PerContext: 1, RankLimit: 1000, Resamples: 20, Policy: "maximum:p10", Threshold: .02,
		KeepQuestions: true, KeepBytes: new(int64(pairs.DefaultLimit))}
	if r, err := follow(o); err != nil || r.Name != "default" || r.InForce != "default" { // there was none
		t.Fatalf("%+v %v", r, err)
	}
	if r, err := follow(calibrate.Options{}); err != nil || r != nil {
		t.Fatalf("nothing has changed: %+v %v", r, err)
	}
	asked := len(w.Model.Requests())
	write(t, path(3), "The keeper knows of a fourth light now.")
	if err := errors.Join(os.Rename(path(5), path(77)), os.Remove(path(6))); err != nil {
		t.Fatal(err)
	}
	sync()
	r, err := follow(calibrate.Options{RankLimit: 1000, KeepBytes: new(int64(pairs.DefaultLimit))})
	if err != nil || r == nil {
		t.Fatal(err)
	}
	if n := len(w.Model.Requests()) - asked; n != 1 {
		t.Errorf("asked about %d contexts, one text is new", n)
	}
	if v, of := r.Questions(); v.Rows != r.Queries.Queries || len(of) != v.Rows {
		t.Errorf("%d of %d questions are kept", v.Rows, r.Queries.Queries)
	}
	if r.Policy != "maximum:p10" || r.Threshold != .02 || r.Corpus.Contexts != 39 || r.Counted.Pairs >= r.Counted.Of/2 {
		t.Errorf("%s − %g, %d contexts, %+v", r.Policy, r.Threshold, r.Corpus.Contexts, r.Counted)
	}
	if shown, err := calibrate.Show(t.Context(), w.Base.Base, ""); err != nil || shown.Stale != 0 || shown.Gone != 0 {
		t.Errorf("stale %v, gone %v: %v", shown.Stale, shown.Gone, err)
	}
	o.KeepBytes, o.Use = new(int64), true
	all, err := w.calibrate(t, o)
	if err != nil {
		t.Fatal(err)
	}
	nearly := cmpopts.EquateApprox(0, 1e-12) // means are summed in another order
	if diff := cmp.Diff([]any{all.Positive, all.Negative, all.Maximum, all.Cutoff, all.Score},
		[]any{r.Positive, r.Negative, r.Maximum, r.Cutoff, r.Score}, nearly); diff != "" {
		t.Errorf("-all pairs +changed pairs:\n%s", diff)
	}
}

// A calibration that rests on a sample keeps it, with a share of the new contexts.
func TestFollowKeepsTheSample(t *testing.T) {
	w, sync, path := synced(t)
	w.Model.Answers = []string{" keeps what in the harbour?"}
	o := calibrate.Options{PerContext: 1, RankLimit: 1000, Sample: 10, Resamples: -1}
	if _, err := w.calibrate(t, o); err != nil {
		t.Fatal(err)
	}
	asked := len(w.Model.Requests())
	for i := range 4 {
		write(t, path(50+i), fmt.Sprintf("A new keeper has come to tower %s.", word(i)))
	}
	sync()
	r, err := calibrate.Follow(t.Context(), w.Base.Base, calibrate.Input{Options: calibrate.Options{RankLimit: 1000},
		Model: w.Generator})
	if err != nil || r.Queries.Sample != 10 {
		t.Fatalf("%+v %v", r, err)
	}
	if n := len(w.Model.Requests()) - asked; n > 4 || r.Report.Contexts != 10+n {
		t.Errorf("asked about %d new contexts, %d in all", n, r.Report.Contexts)
	}
}

// Questions of a file are read again; without it, what is needed is said.
func TestFollowWithQuestionsOfAFile(t *testing.T) {
	w := newWorld(t)
	file := w.File(t, "q.jsonl", doubles.Questions)
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := w.calibrate(t, calibrate.Options{Queries: in, Source: file}); err != nil {
		t.Fatal(err)
	}
	more := w.File(t, "b.jsonl", `{"id":"gull","text":"The gull follows ships."}`)
	if _, err := ingest.Run(t.Context(), w.Base.Base,
		ingest.Input{Paths: []string{more}, Options: ingest.Options{NoChunk: true}}); err != nil {
		t.Fatal(err)
	}
	r, err := calibrate.Follow(t.Context(), w.Base.Base, calibrate.Input{})
	if err != nil || r.Corpus.Contexts != 5 || r.Queries.Queries != 4 {
		t.Fatalf("%+v %v", r, err)
	}
	st, err := w.Writer(t.Context(), nil)
	if err == nil {
		_, err = st.DeleteDocuments(t.Context(), []string{"gull"})
	}
	if err := errors.Join(err, os.Remove(file), w.Changed(nil)); err != nil {
		t.Fatal(err)
	}
	_, err = calibrate.Follow(t.Context(), w.Base.Base, calibrate.Input{})
	if !errors.Is(err, calibrate.ErrQuestions) || !strings.Contains(err.Error(), file) {
		t.Error(err)
	}
	if _, err := calibrate.Follow(t.Context(), w.Base.Base,
		calibrate.Input{Options: calibrate.Options{Name: "no name"}}); !errors.Is(err, knowledge.ErrOption) {
		t.Error(err)
	}
}
