package calibrate_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/ingest"
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
