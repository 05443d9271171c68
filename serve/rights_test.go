package serve

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice"
)

// The keys of servers with two of them.
const (
	firstKey  = "key-of-the-first-base"
	secondKey = "key-of-the-other-base"
	everyKey  = "key-of-all-the-bases"
)

// with adds a key to a request.
func with(r *http.Request, key string) *http.Request {
	r.Header.Set("Authorization", "Bearer "+key)
	return r
}

// twoBases returns a server over the base "sea" and a copy, "moon", with a key for each and one for both.
func twoBases(t *testing.T, change func(*sluice.Config)) *world {
	t.Helper()
	keys, err := ReadKeys(strings.NewReader(firstKey + " sea\n" + secondKey + " moon\n" + everyKey + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldWith(t, change)
	moon := w.sluice.With(filepath.Join(t.TempDir(), "moon"))
	t.Cleanup(func() { _ = moon.Close() })
	w.fill(t, moon)
	c := w.cfg
	c.Keys, c.Bases = keys, []Base{{"sea", w.sluice}, {"moon", moon}}
	if w.Server, err = New(c); err != nil {
		t.Fatal(err)
	}
	if err := w.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestMetricsOfAKey checks that a key for some bases sees nothing of other bases or of other keys' requests.
func TestMetricsOfAKey(t *testing.T) {
	w := twoBases(t, nil)
	for key, n := range map[string]int{firstKey: 2, secondKey: 3} {
		for range n {
			if status, body := do(t, w, with(post("/v1/gate", `{"query":"tax"}`), key)); status != http.StatusOK {
				t.Fatal(body)
			}
		}
	}
	metrics := func(key string) (lines []string) {
		status, body := do(t, w, with(get("/metrics"), key))
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		for line := range strings.Lines(body) {
			if !strings.HasPrefix(line, "#") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		return lines
	}
	const sea, moon = `sluice_gate_decisions_total{decision="closed",store="sea"} 2`,
		`sluice_gate_decisions_total{decision="closed",store="moon"} 3`
	all := metrics(everyKey)
	for _, want := range []string{sea, moon, `sluice_http_requests_total{route="/v1/gate",status="200"} 5`} {
		if !slices.Contains(all, want) {
			t.Errorf("%s is missing in %s", want, strings.Join(all, "\n"))
		}
	}
	of := metrics(firstKey)
	if !slices.Contains(of, sea) || !slices.Contains(of, "sluice_ready 1") ||
		!slices.Contains(of, "sluice_model_reused_tokens_total 0") {
		t.Errorf("%s", strings.Join(of, "\n"))
	}
	for _, line := range of {
		name, _, _ := strings.Cut(strings.Fields(line)[0], "{")
		if strings.Contains(line, "moon") || !slices.Contains([]string{"sluice_build_info", "sluice_ready",
			"sluice_http_requests_in_flight", "sluice_http_requests_limit", "sluice_gate_decisions_total",
			"sluice_gate_stale_ratio", "sluice_gate_drift_statistic", "sluice_gate_drift_alarm",
			"sluice_gate_drift_scores", "sluice_gate_martingale_log10", "sluice_gate_martingale_alarm",
			"sluice_gate_martingale_questions", "sluice_model_tokens_total",
			"sluice_model_reused_tokens_total"}, name) {
			t.Errorf("a key for one base sees %s", line)
		}
	}
}

// TestFeedbackOfAnotherBase checks that a decision of another base is as unknown as one that does not exist, whichever
// base the request names.
func TestFeedbackOfAnotherBase(t *testing.T) {
	file := filepath.Join(t.TempDir(), "decisions.jsonl")
	w := twoBases(t, func(c *sluice.Config) { c.Decisions.File = file })
	status, body := do(t, w, with(post("/v1/gate", `{"query":"Which plankton does the herring feed on?"}`), firstKey))
	var answer gateAnswer
	if err := json.Unmarshal([]byte(body), &answer); status != http.StatusOK || err != nil {
		t.Fatalf("%d %s", status, body)
	}
	thumb := `{"thumb":"down","id":"` + answer.Decisions[0].LogID + `"`
	for _, c := range []struct {
		key, store, code string
		status           int
	}{
		{secondKey, "", "unknown_decision", 404}, {secondKey, "moon", "unknown_decision", 404},
		{secondKey, "sea", "unknown_store", 404}, {everyKey, "moon", "unknown_decision", 404},
		{everyKey, "sea", "", 200}, {firstKey, "", "", 200},
	} {
		status, body := do(t, w, with(post("/v1/feedback", thumb+`,"store":"`+c.store+`"}`), c.key))
		if status != c.status || status != 200 && failure(t, body).Code != c.code {
			t.Errorf("%s, store %q: %d %s", c.key, c.store, status, body)
		}
	}
}
