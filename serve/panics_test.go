package serve

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/ingest"
)

// broken is a language model that panics in goroutines of its callers.
type broken struct{ *doubles.Model }

func (broken) Generate(context.Context, llm.Request, func(string) error) (llm.Result, error) {
	var none []int
	return llm.Result{}, []error{nil}[none[0]]
}

// TestPanickingJob checks that a panic in a goroutine of a job ends the job, with its stack in the log but not in the
// response, and that the server goes on.
func TestPanickingJob(t *testing.T) {
	w := newWorldOf(t, broken{doubles.NewModel("")})
	working(t, w)
	j := ended(t, w, post("/v1/calibration", `{"per_context":1}`))
	if j.State != jobFailed || j.Error == nil || j.Error.Code != "internal" ||
		strings.Contains(j.Error.Message, "index out of range") {
		t.Errorf("%+v %+v", j, j.Error)
	}
	status, body := do(t, w, post("/v1/chat/completions",
		`{"model":"default","messages":[{"role":"user","content":"x"}]}`))
	if status != 500 || strings.Contains(body, "index out of range") {
		t.Errorf("%d %s", status, body)
	}
	log := w.log.String()
	for _, said := range []string{"index out of range [0] with length 0", "serve.broken.Generate", `"state":"failed"`} {
		if !strings.Contains(log, said) {
			t.Errorf("the log does not say %q:\n%s", said, log)
		}
	}
	if status, _ := do(t, w, post("/v1/gate", `{"query":"x"}`)); status != 200 {
		t.Errorf("the gate then answers %d", status)
	}
}

// TestPanickingUpload checks that an upload whose ingest panics fails, and is not repeated by the next server.
func TestPanickingUpload(t *testing.T) {
	w := newWorld(t, nil)
	stop := working(t, w)
	w.encoder.After = func(texts []string) {
		if strings.Contains(strings.Join(texts, " "), "fog") {
			panic("a bug")
		}
	}
	j := ended(t, w, form("fog.md", "The fog horn sounds."))
	if j.State != jobFailed || j.Error == nil || j.Error.Code != "internal" {
		t.Errorf("%+v %+v", j, j.Error)
	}
	w.encoder.After = nil
	if j := ended(t, w, form("tide.md", "Low water at noon.")); j.State != jobDone {
		t.Errorf("the next upload: %+v", j)
	}
	stop()
	if kept, err := os.ReadDir(w.folder()); err != nil || len(kept) > 0 {
		t.Errorf("%v %v", kept, err)
	}
	next, err := New(overlay.On(DefaultConfig(),
		Config{Bases: []Base{{"sea", w.sluice}}, Logger: w.Server.log, Ingest: ingest.Options{}}))
	if err != nil {
		t.Fatal(err)
	}
	w.leaveUploads()
	if err := next.takeUploads(next.first); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(next.leaveUploads)
	if len(next.jobs.order) != 0 {
		t.Errorf("%d jobs are resumed", len(next.jobs.order))
	}
}
