package calibrate_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/ingest"
)

var kept = regexp.MustCompile(`keeps (\w+) in the harbour\.\n`)

// harbour returns a base of n contexts, with a model that asks about each what only it answers.
func harbour(t *testing.T, n int) (w *world, add func(from, n int)) {
	t.Helper()
	w = &world{Base: doubles.NewBase(t, nil)}
	add = func(from, n int) {
		t.Helper()
		var lines strings.Builder
		for i := from; i < from+n; i++ {
			fmt.Fprintf(&lines, `{"id":"c%d","text":"The %s keeps %s in the harbour."}`+"\n", i, word(i), word(3*i+7))
		}
		in := ingest.Input{Paths: []string{w.File(t, fmt.Sprintf("%d.jsonl", from), lines.String())},
			Options: ingest.Options{NoChunk: true}}
		if _, err := ingest.Run(t.Context(), w.Base.Base, in); err != nil {
			t.Fatal(err)
		}
	}
	add(0, n)
	w.Model.Say = func(r llm.Request) string {
		all := kept.FindAllStringSubmatch(r.Prompt, -1)
		return " keeps " + all[len(all)-1][1] + " in the harbour?"
	}
	return w, add
}

// Nobody has said how many contexts are to be asked about: as many as the interval takes are, all the others count in
// the distributions, and the next run asks nothing.
func TestCalibrateFindsTheSizeOfItsSample(t *testing.T) {
	w, add := harbour(t, 400)
	o := calibrate.Options{PerContext: 1, RankLimit: 1000}
	r, err := w.calibrate(t, o)
	if err != nil {
		t.Fatal(err)
	}
	asked := len(w.Model.Requests())
	if asked != 100 || r.Queries.Sample != asked || r.Queries.Ended != "interval" ||
		r.IntervalWidth() > gate.NarrowInterval ||
		r.Corpus.Contexts != 400 || r.Negative.N != r.Positive.N*399 {
		t.Errorf("asked about %d: %+v, %+v, %d negatives", asked, r.Queries, r.Bootstrap, r.Negative.N)
	}
	if text := r.SampleText(); !strings.Contains(text, "100 of 400 contexts") || !strings.Contains(text, "--sample") {
		t.Error(text)
	}
	if again, err := w.calibrate(t, o); err != nil || len(w.Model.Requests()) != asked || again.Cutoff != r.Cutoff {
		t.Errorf("%v: %d questions were written again", err, len(w.Model.Requests())-asked)
	}

	// what is new gets its share of the questions
	few := calibrate.Input{Options: calibrate.Options{RankLimit: 1000, Few: true}, Model: w.Generator}
	if r, err := calibrate.Follow(t.Context(), w.Base.Base, few); r != nil || err != nil {
		t.Errorf("nothing is new: %+v, %v", r, err)
	}
	add(400, 200)
	r, err = calibrate.Follow(t.Context(), w.Base.Base, few)
	if err != nil || r == nil {
		t.Fatal(err)
	}
	fresh := len(w.Model.Requests()) - asked
	if fresh < 15 || fresh > 55 || r.Queries.Sample != 100 || r.Corpus.Contexts != 600 {
		t.Errorf("%d of 200 new contexts, %+v", fresh, r.Queries)
	}
	if shown, err := calibrate.Show(t.Context(), w.Base.Base, ""); err != nil || shown.Stale != 0 {
		t.Errorf("stale %v: %v", shown.Stale, err)
	}

	// a calibration that was derived from it goes on with its questions
	asked = len(w.Model.Requests())
	strict := calibrate.Options{Name: "strict", Policy: "maximum:p10", Use: true}
	if _, err := calibrate.Repolicy(t.Context(), w.Base.Base, strict); err != nil {
		t.Fatal(err)
	}
	add(600, 60)
	r, err = calibrate.Follow(t.Context(), w.Base.Base, few)
	if err != nil || r == nil || r.Name != "strict" || r.Policy != "maximum:p10" {
		t.Fatalf("%+v, %v", r, err)
	}
	if n := len(w.Model.Requests()) - asked; n > 25 || r.Queries.Sample != 100 {
		t.Errorf("%d requests for 60 new contexts, %+v", n, r.Queries)
	}

	// all are asked about where that is said
	o.Name = "default"
	o.Sample = calibrate.All
	if r, err = w.calibrate(t, o); err != nil || r.Queries.Sampled != 660 || r.Queries.Sample != 0 ||
		r.Queries.Ended != "" || r.SampleText() != "" {
		t.Errorf("%+v, %v", r.Queries, err)
	}
}

// Few is few however much is new, and whatever the calibration rests on.
func TestFollowAsksFewQuestions(t *testing.T) {
	for _, sample := range []int{0, 150, calibrate.All} {
		w, add := harbour(t, 200)
		if _, err := w.calibrate(t, calibrate.Options{PerContext: 1, RankLimit: 5000, Sample: sample}); err != nil {
			t.Fatal(err)
		}
		add(200, 1800)
		asked := len(w.Model.Requests())
		few := calibrate.Input{Options: calibrate.Options{RankLimit: 5000, Few: true}, Model: w.Generator}
		r, err := calibrate.Follow(t.Context(), w.Base.Base, few)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(w.Model.Requests()) - asked; n == 0 || n > 96 || r.Corpus.Contexts != 2000 {
			t.Errorf("sample %d: asked about %d new contexts, %+v", sample, n, r.Queries)
		}
	}
}

// What another model has asked is not mixed with new questions unasked, and a base without a calibration stays one.
func TestFollowLeavesOtherQuestions(t *testing.T) {
	w, add := harbour(t, 120)
	few := calibrate.Input{Options: calibrate.Options{RankLimit: 1000, Few: true}, Model: w.Generator}
	none, err := calibrate.Follow(t.Context(), w.Base.Base, few)
	if none != nil || err != nil || len(w.Model.Requests()) > 0 {
		t.Errorf("%+v, %v", none, err)
	}
	r, err := w.calibrate(t, calibrate.Options{PerContext: 1, RankLimit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	add(120, 40)
	w.Model.Digest = strings.Repeat("1", 64)
	asked := len(w.Model.Requests())
	if _, err := calibrate.Follow(t.Context(), w.Base.Base, few); !errors.Is(err, calibrate.ErrQuestions) ||
		len(w.Model.Requests()) != asked {
		t.Errorf("%v", err)
	}
	few.Few = false // asked for, all are written anew
	again, err := calibrate.Follow(t.Context(), w.Base.Base, few)
	if err != nil || again.Queries.Sample != r.Queries.Sample || len(w.Model.Requests())-asked != 100 {
		t.Errorf("%d requests, %+v, %v", len(w.Model.Requests())-asked, again, err)
	}
}
