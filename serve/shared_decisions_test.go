package serve

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/test/postgres"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/decisions"
	"github.com/sluice-rag/sluice/rag/store"
)

// logging is a machine whose decisions are in the database; fill: it brings documents and a calibration.
func logging(t *testing.T, url, cache string, fill bool) *machine {
	t.Helper()
	t.Setenv("SLUICE_CACHE", cache)
	m := &machine{world: &world{encoder: doubles.NewEncoder(), dir: t.TempDir()}}
	c := sluice.Config{Store: url, Embedder: m.encoder, Generator: doubles.NewModel(""),
		Logger: slog.New(slog.DiscardHandler), Decisions: decisions.DefaultOptions()}
	c.Decisions.File = decisions.Database
	var err error
	if m.sluice, err = sluice.Open(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.sluice.Close() })
	if fill {
		m.fill(t, m.sluice)
	}
	m.Server, err = New(overlay.On(DefaultConfig(), Config{Bases: []Base{{"sea", m.sluice}}, Logger: c.Logger}))
	if err == nil {
		err = m.Warm(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	m.address, m.stop = listening(t, m.world)
	return m
}

func (m *machine) post(t *testing.T, path, body string, out any) (status int) {
	t.Helper()
	r, err := client(t).Post("http://"+m.address+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(out); err != nil {
		t.Fatal(err)
	}
	return r.StatusCode
}

// decide asks the gate, and returns the decision's id in the log.
func (m *machine) decide(t *testing.T, question string) string {
	t.Helper()
	var out struct {
		Decisions []struct {
			LogID string `json:"log_id"`
		}
	}
	if status := m.post(t, "/v1/gate", `{"queries":["`+question+`"]}`, &out); status != 200 ||
		len(out.Decisions) != 1 || out.Decisions[0].LogID == "" {
		t.Fatalf("%d %+v", status, out)
	}
	return out.Decisions[0].LogID
}

// The decisions of all servers of a shared store are one log, in which each of them writes feedback, and each compares
// the scores of all, also after a restart. While the database is away, questions are answered, and their decisions are
// written afterwards.
func TestCommonDecisions(t *testing.T) {
	server := postgres.Start(t)
	url, cache := server.URL(), t.TempDir()
	line := newWire(t, server.Addr())
	a := logging(t, strings.Replace(url, server.Addr(), line.listener.Addr().String(), 1), cache, true)
	b := logging(t, url, t.TempDir(), false)
	id := a.decide(t, "When does a deferred function run?")
	a.decide(t, "Who sings?")
	b.decide(t, "What of gulls and tides?")
	feedback := func(m *machine, id string) int {
		return m.post(t, "/v1/feedback", `{"id":"`+id+`","thumb":"up"}`, &struct{}{})
	}
	until(t, "b knows no decision of a", func() bool { return feedback(b, id) == http.StatusOK })
	all := func(m *machine) *decisions.Contents {
		c, err := m.sluice.Decisions().Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, m := range []*machine{a, b} {
		c := all(m)
		if at, known := c.ByID[id]; len(c.Entries) != 3 || c.Bad+c.Orphans > 0 || !known ||
			c.Entries[at].Thumb != decisions.Up || c.Entries[at].Query != "When does a deferred function run?" {
			t.Errorf("%+v", c)
		}
	}
	compares := func(m *machine, n string) {
		t.Helper()
		until(t, "not all scores are compared", func() bool {
			got := metricsOf(t, m.Server, "sluice_gate_drift_scores")
			return len(got) == 1 && got[0] == `sluice_gate_drift_scores{store="sea"} `+n
		})
	}
	compares(a, "3")
	compares(b, "3")

	line.set(true)
	late := a.decide(t, "When does a deferred function run, in which order?")
	var refused struct{ Error struct{ Code string } }
	if status := a.post(t, "/v1/feedback", `{"id":"`+id+`","thumb":"down"}`, &refused); status != 503 ||
		refused.Error.Code != "database_away" {
		t.Error(status, refused)
	}
	if _, err := a.sluice.Decisions().Read(t.Context()); !errors.Is(err, store.ErrAway) {
		t.Error(err)
	}
	line.set(false)
	until(t, "what was decided meanwhile is not in the log", func() bool {
		_, known := all(b).ByID[late]
		return known
	})
	a.decide(t, "Who sings?") // the server ends at once
	if err := errors.Join(a.stop(), a.sluice.Close()); err != nil {
		t.Fatal(err)
	}
	if c := all(b); len(c.Entries) != 5 {
		t.Errorf("%d decisions of 5", len(c.Entries))
	}
	compares(logging(t, url, cache, false), "5")
	compares(b, "5")
	if got := metricsOf(t, b.Server, "sluice_store_dropped_lines_total"); len(got) != 1 ||
		got[0] != `sluice_store_dropped_lines_total{store="sea"} 0` {
		t.Error(got)
	}
}

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}
