package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/kernels/ref"
	"github.com/sluice-rag/sluice/llm"
)

// countingEncoder and countingModel are models that count.
type countingEncoder struct{ embed.Embedder }

func (countingEncoder) Stats() embed.Stats {
	return embed.Stats{Calls: 9, Texts: 12, Tokens: 300, Batches: 4, Joined: 2, Refused: 1,
		ComputeTime: 1500 * time.Millisecond, Sizes: [9]int64{1, 0, 2, 0, 0, 0, 0, 0, 1}, WaitingTokens: 77}
}

type countingModel struct{ llm.Generator }

func (countingModel) Stats() llm.Stats {
	return llm.Stats{Decodes: 5, PromptTokens: 100, ReusedTokens: 60, CompletionTokens: 20, Queued: 3,
		Refused: 2, Slots: 4,
		Finished: map[llm.FinishReason]int64{llm.FinishStop: 7, "": 1}}
}

// metricsOf returns the lines of GET /metrics with a prefix.
func metricsOf(t *testing.T, s http.Handler, beginning string) (lines []string) {
	t.Helper()
	status, body := do(t, s, get("/metrics"))
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, beginning) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func TestMetrics(t *testing.T) {
	w := newWorld(t, nil)
	other, err := sluice.Open(t.Context(), sluice.Config{Store: w.dir + "/store", Embedder: countingEncoder{w.encoder},
		Generator: countingModel{w.model}, Logger: w.Server.log})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	s, err := New(overlay.On(DefaultConfig(),
		Config{Bases: []Base{{"sea", other}}, Logger: w.Server.log, Version: "v9"}))
	if err != nil {
		t.Fatal(err)
	}
	if got := metricsOf(t, s, "sluice_ready"); !slices.Equal(got, []string{"sluice_ready 0"}) {
		t.Errorf("before the models are there: %v", got)
	}
	if err := s.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if status, body := do(t, s, post("/v1/gate", `{"query":"Where do whales live?"}`)); status != http.StatusOK {
			t.Fatal(body)
		}
	}
	do(t, s, post("/v1/gate", `{"wrong":1}`))
	do(t, s, get("/nowhere/"+strings.Repeat("x", 100)))
	for line, found := range map[string]bool{
		`sluice_http_requests_total{route="/v1/gate",status="200"} 3`: true,
		`sluice_http_requests_total{route="/v1/gate",status="400"} 1`: true,
		`sluice_http_requests_total{route="/",status="404"} 1`:        true,
		`sluice_ready 1`: true,
		`sluice_encoder_tokens_total{model="encoder"} 300`:               true,
		`sluice_encoder_waiting_tokens{model="encoder"} 77`:              true,
		`sluice_encoder_batch_texts_bucket{model="encoder",le="1"} 1`:    true,
		`sluice_encoder_batch_texts_bucket{model="encoder",le="4"} 3`:    true,
		`sluice_encoder_batch_texts_bucket{model="encoder",le="+Inf"} 4`: true,
		`sluice_encoder_batch_texts_sum{model="encoder"} 12`:             true,
		`sluice_encoder_compute_seconds_total{model="encoder"} 1.5`:      true,
		`sluice_model_tokens_total{kind="prompt"} 100`:                   true,
		`sluice_model_reused_tokens_total 60`:                            true,
		`sluice_model_requests_total{finish="failed"} 1`:                 true,
		`sluice_model_waiting_requests 3`:                                true,
		`sluice_model_refused_requests_total 2`:                          true,
		`sluice_model_slots 4`:                                           true,
		`sluice_gate_drift_scores{store="sea"} 3`:                        true,
		`sluice_http_request_duration_seconds_count{route="/v1/gate"} 4`: true,
		`sluice_encoder_tokens_total{model="reranker"} 0`:                false,
	} {
		if got := metricsOf(t, s, line); (len(got) == 1) != found {
			t.Errorf("%s: %v", line, got)
		}
	}
	decided := metricsOf(t, s, "sluice_gate_decisions_total")
	if !slices.ContainsFunc(decided, func(l string) bool { return strings.HasSuffix(l, " 3") }) {
		t.Errorf("three decisions, without that of Warm: %v", decided)
	}
	if len(metricsOf(t, s, "sluice_build_info{go_version=")) != 1 || len(metricsOf(t, s, "go_goroutines")) != 1 ||
		len(metricsOf(t, s, "process_open_fds")) != 1 {
		t.Error("what is known of the process")
	}
	families, err := s.metrics.of(key{}).Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, f := range families {
		if name := f.GetName(); !strings.HasPrefix(name, "sluice_") && !strings.HasPrefix(name, "go_") &&
			!strings.HasPrefix(name, "process_") {
			t.Errorf("%s is not ours to name", name)
		}
	}
}

// TestMetricsOfAFullServer checks that GET /metrics needs a key if there are keys, and that it is answered by a full
// server.
func TestMetricsOfAFullServer(t *testing.T) {
	keys, err := ReadKeys(strings.NewReader("0123456789abcdef0123456789abcdef\n"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *Config) { c.Keys, c.Limits.Requests = keys, 1 })
	w.room <- struct{}{}
	if status, _ := do(t, w, get("/metrics")); status != http.StatusUnauthorized {
		t.Errorf("without a key: %d", status)
	}
	r := get("/metrics")
	r.Header.Set("Authorization", "Bearer 0123456789abcdef0123456789abcdef")
	if status, body := do(t, w, r); status != http.StatusOK ||
		!strings.Contains(body, "sluice_http_requests_in_flight 1\n") {
		t.Errorf("%d %s", status, body)
	}
}

// busyEncoder is an encoder with a full queue.
type busyEncoder struct{ embed.Embedder }

func (b busyEncoder) Embed(ctx context.Context, texts []string, role embed.Role) (*embed.Embeddings, error) {
	if texts[0] == "one too many" {
		return nil, &embed.BusyError{Waiting: 33000, Limit: 32768, Retry: 2500 * time.Millisecond}
	}
	return b.Embedder.Embed(ctx, texts, role)
}

func TestEncoderIsBusy(t *testing.T) {
	w := newWorld(t, nil)
	full, err := sluice.Open(t.Context(), sluice.Config{Store: w.dir + "/store", Embedder: busyEncoder{w.encoder},
		Generator: w.model, Logger: w.Server.log})
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	s, err := New(overlay.On(DefaultConfig(), Config{Bases: []Base{{"sea", full}}, Logger: w.Server.log}))
	if err != nil {
		t.Fatal(err)
	}
	e := asRequestError(&embed.BusyError{Waiting: 33000, Limit: 32768, Retry: 2500 * time.Millisecond})
	if e.Status != http.StatusTooManyRequests || e.RetryAfter != 2500*time.Millisecond || !errors.Is(e, embed.ErrBusy) {
		t.Errorf("%+v", e)
	}
	status, body := do(t, s, post("/v1/gate", `{"query":"one too many"}`))
	if status != http.StatusTooManyRequests || !strings.Contains(body, "32768") || !strings.Contains(body, "33000") {
		t.Errorf("%d %s", status, body)
	}
}

func TestDrift(t *testing.T) {
	log := &lockedBuilder{}
	d := &drift{store: "sea", log: slog.New(slog.NewTextHandler(log, nil)), limits: Drift{Scores: 100, Threshold: .3}}
	reference := make([]float64, 1000)
	for i := range reference {
		reference[i] = float64((i * 617) % 1000) // 0 … 999
	}
	like := func(shift float64) {
		for i := range 100 {
			d.add(reference, float64(i*10)+shift)
		}
	}
	d.add(nil, 5)
	if _, _, n := d.now(); n != 0 {
		t.Errorf("%d scores without a distribution to compare with", n)
	}
	like(0)
	if ks, alarm, n := d.now(); ks > .02 || alarm || n != 100 {
		t.Errorf("the same distribution: %v, %t, %d", ks, alarm, n)
	}
	like(400)
	like(400)
	if ks, alarm, _ := d.now(); math.Abs(ks-.4) > .02 || !alarm {
		t.Errorf("shifted by 400 of 1000: %v, %t", ks, alarm)
	}
	if got := strings.Count(log.String(), "calibrate again"); got != 1 {
		t.Errorf("%d lines: %s", got, log.String())
	}
	like(280) // below the threshold, above nine tenths of it
	if _, alarm, _ := d.now(); !alarm {
		t.Error("the alarm comes and goes")
	}
	like(0)
	if _, alarm, _ := d.now(); alarm || !strings.Contains(log.String(), "like the calibration's again") {
		t.Error("the alarm does not end")
	}
	d.add(slices.Clone(reference), 1) // another calibration
	if _, _, n := d.now(); n != 1 {
		t.Errorf("%d scores of another calibration", n)
	}
	if got := ref.KolmogorovSmirnov([]float64{1, 2, 2, 3}, []float64{2, 2, 2, 9}); got != .25 {
		t.Errorf("with ties: %v", got)
	}
}

// TestTooManyAnswers checks that requests for the language model above the limit are refused before a response begins,
// while other requests are accepted.
func TestTooManyAnswers(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.Answers = 2 })
	w.answering.Store(2)
	const question = `{"model":"sluice","stream":true,"messages":[{"role":"user","content":"Where do herrings live?"}]}`
	r := httptest.NewRecorder()
	w.ServeHTTP(r, post("/v1/chat/completions", question))
	if r.Code != http.StatusTooManyRequests || r.Header().Get("Retry-After") == "" ||
		!strings.Contains(r.Body.String(), "2 answers") {
		t.Errorf("%d %v %s", r.Code, r.Header(), r.Body)
	}
	if status, body := do(t, w, post("/v1/gate", `{"query":"Where do herrings live?"}`)); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	w.answering.Store(1)
	if status, body := do(t, w, post("/v1/chat/completions", question)); status != http.StatusOK ||
		!strings.Contains(body, "[DONE]") {
		t.Errorf("%d %s", status, body)
	}
	if n := w.answering.Load(); n != 1 {
		t.Errorf("%d answers are counted", n)
	}
}

// TestResumedJobsWaitInAddition checks that all uploads acknowledged by an earlier process are queued, in addition to
// new ones.
func TestResumedJobsWaitInAddition(t *testing.T) {
	js := newJobs(map[string]*base{"sea": nil}, nil, slog.New(slog.DiscardHandler))
	work := func(context.Context, *job) (any, error) { return nil, nil }
	for i := range jobsWaiting + 5 {
		js.put(fmt.Sprint("resumed ", i), jobState{Kind: "ingest", Store: "sea"}, &job{work: work, resumed: true})
	}
	add := func(id string) error {
		_, err := js.add(id, jobState{Kind: "ingest", Store: "sea"}, work, func() {})
		return err
	}
	for i := range jobsWaiting {
		if err := add(fmt.Sprint(i)); err != nil {
			t.Fatalf("job %d: %v", i, err)
		}
	}
	if err := add("one too many"); err == nil {
		t.Error("there is no limit any more")
	}
	if j := js.next(js.queues["sea"]); j.state.ID != "resumed 0" {
		t.Errorf("%s comes first", j.state.ID)
	}
}
