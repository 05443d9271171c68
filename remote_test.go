package sluice_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/remote"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/prompt"
)

// endpoint is a server double that answers every chat alike.
type endpoint struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []map[string]any
}

func newEndpoint(t *testing.T, answer string) *endpoint {
	e := &endpoint{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer k3y" {
			http.Error(w, "no such page", http.StatusNotFound)
			return
		}
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		e.mu.Lock()
		e.bodies = append(e.bodies, body)
		e.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		text, _ := json.Marshal(answer)
		fmt.Fprintf(w,
			"data: {\"choices\":[{\"delta\":{\"content\":%s},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", text)
	}))
	t.Cleanup(e.Close)
	return e
}

func remoteWorld(t *testing.T, e *endpoint, o remote.Options) *world {
	return newWorld(t,
		func(c *sluice.Config) { c.Generator, c.Model, c.Remote, c.ContextTokens = nil, e.URL+"#small", o, 2048 })
}

func TestARemoteModelIsAskedAndSaid(t *testing.T) {
	e := newEndpoint(t, "The herring feeds on plankton [1].")
	w := remoteWorld(t, e, remote.Options{APIKey: "k3y", TokenEstimate: 3})
	w.ingest(t, "a.jsonl", doubles.Contexts)
	if w.log.Len() > 0 {
		t.Errorf("said before it is so: %s", w.log)
	}
	// HyDE sets a penalty that this server does not support
	for _, transform := range []prompt.Transform{prompt.None, prompt.HyDE} {
		a, err := w.Ask(t.Context(), "What does the herring feed on?",
			overlay.On(answer.DefaultOptions(),
				answer.Options{Gate: answer.GateOpen, Transform: transform, Style: answer.Write}))
		if err != nil {
			t.Fatal(err)
		}
		if a.Answer != "The herring feeds on plankton [1]." || a.Trace.Model != "small" ||
			a.Trace.Remote != e.URL+"/v1" || !a.Citations[0].Cited {
			t.Errorf("%+v", a)
		}
	}
	if n := strings.Count(w.log.String(), "questions and passages go to another process: "+e.URL+"/v1"); n != 1 ||
		!strings.Contains(w.log.String(), "level=WARN") {
		t.Errorf("said %d times: %s", n, w.log)
	}
	if len(e.bodies) != 3 || e.bodies[0]["model"] != "small" || strings.Contains(w.log.String(), "k3y") {
		t.Errorf("%v %s", e.bodies, w.log)
	}
}

func TestARemoteModelWritesQuestionsFromMessages(t *testing.T) {
	e := newEndpoint(t, "When does a deferred function run, in which order?")
	w := remoteWorld(t, e, remote.Options{APIKey: "k3y", TokenEstimate: 3})
	w.ingest(t, "a.jsonl", doubles.Contexts)
	r, err := w.Calibrate(t.Context(), calibrate.Options{PerContext: 1, RankLimit: 4,
		Questions: "written"})
	if err != nil {
		t.Fatal(err)
	}
	if r.Queries.Model != "small" || len(e.bodies) != 4 || e.bodies[0]["messages"] == nil {
		t.Errorf("%+v %v", r.Queries, e.bodies)
	}
}

func TestARemoteModelWithoutTokenCounts(t *testing.T) {
	e := newEndpoint(t, "x")
	w := remoteWorld(t, e, remote.Options{APIKey: "k3y"})
	if _, err := w.Ask(t.Context(), "Anything?",
		overlay.On(answer.DefaultOptions(),
			answer.Options{Gate: answer.GateClosed})); !errors.Is(err, remote.ErrNoTokenizer) {
		t.Errorf("%v", err)
	}
	w = remoteWorld(t, e, remote.Options{APIKey: "k3y", TokenEstimate: 3})
	if _, err := w.Ask(t.Context(), "Anything?",
		overlay.On(answer.DefaultOptions(),
			answer.Options{Gate: answer.GateClosed, RepeatPenalty: 1.1})); !errors.Is(err, llm.ErrOptions) {
		t.Errorf("%v", err)
	}
	if len(e.bodies) > 0 {
		t.Errorf("%d requests were sent", len(e.bodies))
	}
}
