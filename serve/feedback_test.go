package serve

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/rag/decisions"
)

// TestFeedback checks that a decision over HTTP has the id that feedback needs, and that both are missing without a
// log.
func TestFeedback(t *testing.T) {
	w := newWorld(t, nil)
	if status, body := do(t, w, post("/v1/feedback", `{"id":"daaaaaaaaaaaaaaaa","thumb":"up"}`)); status != 409 ||
		!strings.Contains(body, `"no_log"`) {
		t.Errorf("without a log: %d %s", status, body)
	}
	file := filepath.Join(t.TempDir(), "decisions.jsonl")
	w = newWorldWith(t, func(c *sluice.Config) { c.Decisions.File = file })
	_, body := do(t, w, post("/v1/gate", `{"queries":["Which plankton does the herring feed on?","tax"]}`))
	var answer gateAnswer
	if err := json.Unmarshal([]byte(body), &answer); err != nil || len(answer.Decisions) != 2 {
		t.Fatalf("%v: %s", err, body)
	}
	for _, c := range []struct {
		body   string
		status int
		says   string
	}{
		{`{"id":"` + answer.Decisions[1].LogID + `","thumb":"up"}`, 200, `"thumb":"up"`},
		{`{"id":"` + answer.Decisions[0].LogID + `","thumb":"sideways"}`, 400, `"param":"thumb"`},
		{`{"thumb":"up"}`, 400, `"param":"id"`},
		{`{"id":"daaaaaaaaaaaaaaaa","thumb":"up"}`, 404, "unknown_decision"},
		{`{"id":"../../etc/passwd","thumb":"up"}`, 404, "unknown_decision"},
		{`{"id":"x","thumb":"up","more":1}`, 400, ""},
	} {
		status, body := do(t, w, post("/v1/feedback", c.body))
		if status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s: %d %s, want %d with %s", c.body, status, body, c.status, c.says)
		}
	}
	log, err := decisions.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if r := log.Report(); r.Decisions != 2 || r.Up != 1 {
		t.Errorf("%+v: the health checks and the answers of others are no decisions", r)
	}
	if _, body := do(t, w, get("/info")); !strings.Contains(body, `"feedback":true`) {
		t.Errorf("%s", body)
	}
}
