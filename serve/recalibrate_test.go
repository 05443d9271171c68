package serve

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/ingest"
)

var lastPassage = regexp.MustCompile(`Passage: ([^\n]*)\n`)

// asking makes the model write a question about each passage, and answer other prompts.
func asking(w *world) {
	w.model.Say = func(r llm.Request) string {
		if all := lastPassage.FindAllStringSubmatch(r.Prompt, -1); len(all) > 0 {
			words := strings.Fields(all[len(all)-1][1])
			return " of " + strings.Trim(strings.Join(words[len(words)-4:], " "), ".") + " is that?"
		}
		return "An answer [1]."
	}
}

// buoys returns an upload of a file that is larger than a base.
func buoys(name string, n int) *http.Request {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "# Buoy %s%d\n\nThe buoy %s%d of harbour %d carries a lamp with number %s%d.\n\n", name, i, name,
			i, i, name, i)
	}
	return form(name+".md", text.String())
}

// jobsOf waits for the existing jobs and lists them, the latest first.
func jobsOf(t *testing.T, w *world) []jobState {
	t.Helper()
	for {
		_, body := do(t, w, get("/v1/jobs"))
		list, over := as[jobList](t, body).Jobs, true
		for _, j := range list {
			if !j.over() {
				finished(t, w, j.ID)
				over = false
			}
		}
		if over {
			return list
		}
	}
}

// fifty asks fifty questions at once on three routes; none may be refused.
func fifty(t *testing.T, w *world) {
	t.Helper()
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			r := httptest.NewRecorder()
			switch i % 3 {
			case 0:
				w.ServeHTTP(r, post("/v1/gate", `{"query":"Why do lighthouses warn ships of rocks?"}`))
			case 1:
				w.ServeHTTP(r, post("/v1/retrieve", `{"query":"Which lamp has buoy a7?","gate":"auto"}`))
			default:
				w.ServeHTTP(r, post("/v1/chat/completions",
					`{"model":"sluice/sea","messages":[{"role":"user","content":"Which lamp has the buoy?"}]}`))
			}
			if r.Code != http.StatusOK {
				t.Errorf("question %d: %d %s", i, r.Code, r.Body)
			}
		})
	}
	all.Wait()
}

// staleOf returns the staleness of the calibration from a decision.
func staleOf(t *testing.T, w *world) float64 {
	t.Helper()
	status, body := do(t, w, post("/v1/gate", `{"query":"Which lamp has the buoy?"}`))
	if status != http.StatusOK {
		t.Fatal(status, body)
	}
	return as[gateAnswer](t, body).Decisions[0].Stale
}

// TestUploadsRefuseNoQuestion uploads files larger than the base during fifty questions, and checks that none is
// refused while the calibration is stale or automatically updated.
func TestUploadsRefuseNoQuestion(t *testing.T) {
	w := newWorld(t, nil)
	asking(w)
	if _, err := w.sluice.Calibrate(t.Context(), calibrate.Options{PerContext: 1}); err != nil {
		t.Fatal(err)
	}
	w.cfg.KeepCalibration = true
	working(t, w)
	if j := ended(t, w, buoys("a", 60)); j.State != jobDone {
		t.Fatalf("%+v %+v", j, j.Error)
	}
	fifty(t, w)
	if stale := staleOf(t, w); stale < .8 || len(jobsOf(t, w)) != 1 {
		t.Errorf("stale by %v, %d jobs", stale, len(jobsOf(t, w)))
	}
	w.cfg.KeepCalibration = false
	status, body := do(t, w, buoys("b", 60))
	if status != http.StatusAccepted {
		t.Fatal(status, body)
	}
	fifty(t, w)
	finished(t, w, as[jobAnswer](t, body).Job.ID)
	list := jobsOf(t, w)
	if last := list[0]; !last.Automatic || last.Kind != "calibration" || last.State != jobDone || last.Result == nil {
		t.Errorf("%+v %+v", last, last.Error)
	}
	if stale := staleOf(t, w); stale != 0 {
		t.Errorf("stale by %v after %d jobs", stale, len(list))
	}
	fifty(t, w)
}

// TestUploadsEndAutomaticCalibrations checks that an automatic calibration does not delay uploads.
func TestUploadsEndAutomaticCalibrations(t *testing.T) {
	w := newWorld(t, nil)
	asking(w)
	if _, err := w.sluice.Calibrate(t.Context(), calibrate.Options{PerContext: 1}); err != nil {
		t.Fatal(err)
	}
	began, once := make(chan struct{}), sync.Once{}
	var hold atomic.Bool
	w.model.Wait = func(ctx context.Context) error {
		if !hold.Load() {
			return nil
		}
		once.Do(func() { close(began) })
		<-ctx.Done()
		return ctx.Err()
	}
	hold.Store(true)
	working(t, w)
	if j := ended(t, w, buoys("a", 20)); j.State != jobDone {
		t.Fatalf("%+v %+v", j, j.Error)
	}
	<-began
	hold.Store(false)
	if j := ended(t, w, buoys("b", 20)); j.State != jobDone {
		t.Fatalf("%+v %+v", j, j.Error)
	}
	var states []string
	for _, j := range jobsOf(t, w) {
		states = append(states, j.Kind+" "+j.State)
	}
	if diff := cmp.Diff([]string{"calibration done", "ingest done", "calibration cancelled", "ingest done"},
		states); diff != "" {
		t.Error(diff)
	}
	if stale := staleOf(t, w); stale != 0 {
		t.Errorf("stale by %v", stale)
	}
}

// TestServerBeginsWithWhatIsNew checks that a server begins with the work that an earlier process has left.
func TestServerBeginsWithWhatIsNew(t *testing.T) {
	w := newWorld(t, nil)
	asking(w)
	if _, err := w.sluice.Calibrate(t.Context(), calibrate.Options{PerContext: 1}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(w.dir, "new.jsonl")
	line := `{"id":"fog","text":"The horn sounds every ninety seconds."}`
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.sluice.Ingest(t.Context(), []string{path}, ingest.Options{NoChunk: true}); err != nil {
		t.Fatal(err)
	}
	if stale := staleOf(t, w); stale != .2 {
		t.Fatalf("stale by %v", stale)
	}
	_, stop := listening(t, w)
	list := jobsOf(t, w)
	for len(list) == 0 {
		time.Sleep(time.Millisecond)
		list = jobsOf(t, w)
	}
	if len(list) != 1 || !list[0].Automatic || list[0].State != jobDone {
		t.Errorf("%+v", list)
	}
	if stale := staleOf(t, w); stale != 0 {
		t.Errorf("stale by %v", stale)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestCalibrationsThatCannotFollowStay checks that a calibration whose questions are missing stays unchanged, without a
// failure.
func TestCalibrationsThatCannotFollowStay(t *testing.T) {
	w := newWorld(t, nil) // calibrated with questions of a missing file
	working(t, w)
	ended(t, w, buoys("a", 3))
	list := jobsOf(t, w)
	if len(list) != 2 || list[0].State != jobDone || !strings.Contains(w.log.String(), "a calibration stays as it is") {
		t.Errorf("%+v", list)
	}
	if stale := staleOf(t, w); stale == 0 {
		t.Error("it has seen what was uploaded")
	}
}
