package generate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/llm"
)

// find returns the row of a metric; there must be one.
func find(t *testing.T, r *Report, workload, impl, metric string) Row {
	t.Helper()
	for _, x := range r.Rows {
		if x.Workload == workload && x.Impl == impl && x.Metric == metric {
			return x
		}
	}
	t.Fatalf("no row of %s, %s, %s in %+v", workload, impl, metric, r.Rows)
	return Row{}
}

func TestSingle(t *testing.T) {
	s := newSession(t, map[string]string{LlamaBench: ""})
	var rows int
	s.o.Row = func(Row) { rows++ }
	if err := s.single(t.Context()); err != nil {
		t.Fatal(err)
	}
	// 20 words, half of them cached, in 10 ms; 4 decodes at 2 ms each.
	if pp, tg := find(t, s.report, "pp20", Own, Rate), find(t, s.report, "tg4", Own, Rate); pp.Median != 1000 ||
		tg.Median != 500 || pp.Samples != 2 {
		t.Errorf("%+v, %+v", pp, tg)
	}
	if pp := find(t, s.report, "pp20", LlamaBench, Rate); pp.Median != 250 || pp.Unit != "tokens/s" ||
		pp.Concurrency != 1 || pp.Threads != 1 {
		t.Errorf("%+v", pp)
	}
	want := []Ratio{
		{Workload: "pp20", Concurrency: 1, Metric: Rate, Peer: LlamaBench, Ratio: 4, Min: 4, Max: 4,
			Rounds: []float64{4, 4}},
		{Workload: "tg4", Concurrency: 1, Metric: Rate, Peer: LlamaBench, Ratio: 2, Min: 2, Max: 2,
			Rounds: []float64{2, 2}},
	}
	if diff := cmp.Diff(want, s.report.Ratios); diff != "" {
		t.Error(diff)
	}
	if rows != len(s.report.Rows) || s.report.Model.SHA256 != "e3b0" || s.report.Versions[LlamaBench] != "0c1e5709" {
		t.Errorf("%d rows, %+v", rows, s.report)
	}
}

// TestOnGPU: a model with layers on a GPU is a peer, and one that cannot be had is noted.
func TestOnGPU(t *testing.T) {
	s := newSession(t, map[string]string{})
	s.o.GPULayers, s.o.Peers = 3, []string{OnGPU}
	if err := errors.Join(s.single(t.Context()), s.concurrent(t.Context())); err != nil {
		t.Fatal(err)
	}
	if x := find(t, s.report, "pp20", OnGPU, Rate); x.Median != 1000 || x.Samples != 2 {
		t.Errorf("%+v", x)
	}
	find(t, s.report, "concurrent", OnGPU, Latency)
	for _, x := range s.report.Ratios {
		if x.Peer != OnGPU {
			t.Errorf("%+v", x)
		}
	}
	s = newSession(t, map[string]string{})
	s.o.GPULayers, s.o.GPULibrary, s.o.Peers = 3, "none", []string{OnGPU}
	if err := s.single(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(s.report.Notes) != 1 || !strings.Contains(s.report.Notes[0], OnGPU+" is skipped") {
		t.Errorf("%q", s.report.Notes)
	}
}

func TestMany(t *testing.T) {
	s := newSession(t, map[string]string{LlamaServer: ""})
	if err := errors.Join(s.concurrent(t.Context()), s.prefix(t.Context())); err != nil {
		t.Fatal(err)
	}
	for _, impl := range []string{Own, LlamaServer} {
		if x := find(t, s.report, "concurrent", impl, Prompt); x.Median != 60 {
			t.Errorf("3 prompts of 20 words: %+v", x)
		}
		if x := find(t, s.report, "prefix-warm", impl, Prompt); x.Median != 3*(30+32) {
			t.Errorf("3 prompts of 30 words and 32 of their own: %+v", x)
		}
		for _, metric := range []string{Rate, FirstToken, Latency} {
			if x := find(t, s.report, "prefix-cold", impl, metric); !(x.Median > 0 && x.Min <= x.Median &&
				x.Median <= x.Max) {
				t.Errorf("%+v", x)
			}
		}
	}
	if ours, theirs := find(t, s.report, "concurrent", Own, Reused), find(t, s.report, "concurrent", LlamaServer,
		Reused); ours.Median != 30 || theirs.Median != 3 {
		t.Errorf("%+v, %+v", ours, theirs)
	}
	if x := find(t, s.report, "concurrent", Own, Latency); x.Samples != 6 || x.P95 < x.Median {
		t.Errorf("%+v", x)
	}
	for _, x := range s.report.Ratios {
		if (x.SameTexts != nil) != (x.Metric == Rate) || x.SameTexts != nil && *x.SameTexts != 1 || len(x.Rounds) != 2 {
			t.Errorf("%+v", x)
		}
	}
	if v := s.report.Versions[LlamaServer]; v != "0.5.0-dev (build 1, commit 0c1e5709)" {
		t.Error(v)
	}
	if _, err := os.Stat("/proc/self/status"); err == nil {
		if a, b := find(t, s.report, "concurrent", Own, Resident), find(t, s.report, "concurrent", LlamaServer,
			Resident); a.Median < 1 || b.Median < 1 || a.Median == b.Median && a.Min == b.Min && a.Max == b.Max {
			t.Errorf("memory %+v, %+v", a, b)
		}
	}
}

func TestOtherTextsAreCounted(t *testing.T) {
	s := newSession(t, map[string]string{LlamaServer: "differs"})
	if err := s.concurrent(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, x := range s.report.Ratios {
		if x.Metric == Rate && (x.SameTexts == nil || *x.SameTexts != 0) {
			t.Errorf("%+v", x)
		}
	}
}

// TestPeersThatFail checks that a missing or failing peer is reported, and that Sluice's rows exist.
func TestPeersThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		modes map[string]string
		says  string
	}{
		"no server":   {map[string]string{LlamaBench: ""}, "part llama-server builds it"},
		"server dies": {map[string]string{LlamaServer: "dies", LlamaBench: ""}, "cannot load the model"},
		"server refuses": {map[string]string{LlamaServer: "refuses", LlamaBench: ""},
			"400 Bad Request: the request exceeds"},
		"server breaks": {map[string]string{LlamaServer: "breaks", LlamaBench: ""}, "ended without a last event"},
		"no bench":      {map[string]string{LlamaServer: ""}, "part llama-bench builds it"},
		"bench dies":    {map[string]string{LlamaServer: "", LlamaBench: "dies"}, "failed to load model"},
		"bench differs": {map[string]string{LlamaServer: "", LlamaBench: "other test"}, "asked for pp20"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSession(t, c.modes)
			if err := errors.Join(s.single(t.Context()), s.concurrent(t.Context())); err != nil {
				t.Fatal(err)
			}
			if len(s.report.Notes) != 1 || !strings.Contains(s.report.Notes[0], c.says) {
				t.Errorf("%q", s.report.Notes)
			}
			find(t, s.report, "tg4", Own, Rate)
			find(t, s.report, "concurrent", Own, Rate)
		})
	}
}

func TestWorkerThatFails(t *testing.T) {
	s := newSession(t, map[string]string{})
	s.o.Model = "gone.gguf"
	if err := s.single(t.Context()); err == nil || !strings.Contains(err.Error(), "no such model: gone.gguf") {
		t.Error(err)
	}
	s.o.Worker = []string{"/bin/sh", "-c", "echo no worker of mine >&2; exit 7"}
	if err := s.single(t.Context()); err == nil || !strings.Contains(err.Error(), "no worker of mine") {
		t.Error(err)
	}
	s.o.Worker = []string{"/bin/sh", "-c", "echo nonsense; cat >&2"}
	if err := s.single(t.Context()); err == nil || !strings.Contains(err.Error(), `"nonsense`) {
		t.Error(err)
	}
}

// Cancelling ends the children and returns the context's error.
func TestCancel(t *testing.T) {
	s := newSession(t, map[string]string{LlamaServer: "sleeps"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := s.capacity(2, 24)
	v, err := s.startServer(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.startWorker(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 2)
	go func() { _, err := v.run(ctx, batch{[]string{"a", "b"}, 4}); answered <- err }()
	go func() { _, err := o.run(ctx, batch{[]string{"a"}, 1 << 30}); answered <- err }()
	time.Sleep(20 * time.Millisecond) // likely within both
	cancel()
	for range 2 {
		if err := <-answered; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if err := errors.Join(v.close(), o.close()); err != nil {
		t.Error(err)
	}
	for _, pid := range []int{v.pid, o.pid} {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is still there: %v", pid, err)
		}
	}
}

// TestWorkerInProcess checks that a worker in a goroutine gives the same, and that it reports a missing llama.cpp.
func TestWorkerInProcess(t *testing.T) {
	s := newSession(t, map[string]string{})
	s.o.Worker = nil
	s.o.Model = filepath.Join(t.TempDir(), "gone.gguf")
	_, err := s.startWorker(t.Context(), s.capacity(1, 8))
	if err == nil || llm.Available && !strings.Contains(err.Error(), "gone.gguf") || !llm.Available &&
		!strings.Contains(err.Error(), llm.ErrUnavailable.Error()) {
		t.Error(err)
	}
	if _, err := Run(t.Context(), s.o); !llm.Available && !errors.Is(err, llm.ErrUnavailable) {
		t.Error(err)
	}
}

func TestServeRefuses(t *testing.T) {
	requests, in := io.Pipe()
	out, replies := io.Pipe()
	go func() { _ = replies.CloseWithError(serve(t.Context(), requests, replies, openEcho)) }()
	lines := json.NewDecoder(out)
	for _, c := range []struct{ request, says string }{
		{"nonsense", "invalid character"},
		{`{"op":"run","batch":{}}`, `"run"`},
		{`{"op":"open","capacity":{"model":"echo.gguf","slots":1,"cells":8,"batch":8}}`, ""},
		{`{"op":"open","capacity":{"model":"echo.gguf","slots":1,"cells":8,"batch":8}}`, `"open"`},
		{`{"op":"fly"}`, `"fly"`},
		{`{"op":"fit","tokens":5,"texts":["a b"]}`, "fewer than 5 tokens"},
		{`{"op":"fit","tokens":2,"texts":["a b c"]}`, ""},
	} {
		if _, err := io.WriteString(in, c.request+"\n"); err != nil {
			t.Fatal(err)
		}
		var a reply
		if err := lines.Decode(&a); err != nil {
			t.Fatal(err)
		}
		if c.says == "" && a.Error != "" || !strings.Contains(a.Error, c.says) {
			t.Errorf("%s: %+v, should say %q", c.request, a, c.says)
		}
		if c.says == "" && a.Model == nil && !cmp.Equal(a.Texts, []string{"a b"}) {
			t.Errorf("%s: %+v", c.request, a)
		}
	}
	_ = in.Close() // closing a pipe never fails
	if err := lines.Decode(&reply{}); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

func TestOptions(t *testing.T) {
	good := Options{Model: "m", Concurrency: []int{1}, PromptTokens: []int{1}, Tokens: []int{1}, PrefixTokens: 1,
		Batch: 1, Rounds: 1}
	if o := good; o.check() != nil || o.Threads < 1 || len(o.Workloads) != 3 {
		t.Errorf("%+v: %v", o, o.check())
	}
	for says, change := range map[string]func(*Options){
		`workload "pp"`:            func(o *Options) { o.Workloads = []string{"pp"} },
		`peer "vllm"`:              func(o *Options) { o.Peers = []string{"vllm"} },
		"-1 threads":               func(o *Options) { o.Threads = -1 },
		"100000 threads":           func(o *Options) { o.Threads = 100000 },
		"0 prompt tokens":          func(o *Options) { o.PromptTokens = []int{1, 0} },
		"131073 tokens are":        func(o *Options) { o.Tokens = []int{maxTokens + 1} },
		"0 prefix tokens":          func(o *Options) { o.PrefixTokens = 0 },
		"0 tokens of a batch":      func(o *Options) { o.Batch = 0 },
		"need a value":             func(o *Options) { o.Tokens = nil },
		"concurrency 65":           func(o *Options) { o.Concurrency = []int{65} },
		"less than the 2 requests": func(o *Options) { o.Concurrency = []int{2} },
		"0 rounds":                 func(o *Options) { o.Rounds = 0 },
	} {
		o := good
		change(&o)
		if _, err := Run(t.Context(), o); !errors.Is(err, ErrOption) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, should say %q", err, says)
		}
	}
}

func TestReport(t *testing.T) {
	s := newSession(t, map[string]string{LlamaServer: ""})
	s.o.PromptTokens, s.o.Rounds = []int{20, 25}, 1
	for _, step := range []func(context.Context) error{s.single, s.concurrent, s.prefix} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var text bytes.Buffer
	if err := s.report.Markdown(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"echo (a test model, 1.0 MB, sha256 e3b0)", "| pp25 | **sluice** | 1",
		"| 3 | llama-server |", "## prefix-warm", "100 % |", "part llama-bench builds it"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
	dir := t.TempDir()
	if err := s.report.Write(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"report.md", "report.json", "concurrent.svg", "prefix-cold.svg", "prefix-warm.svg"} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Size() < 500 {
			t.Errorf("%s: %v", name, err)
		}
	}
	var again Report
	if data, err := os.ReadFile(filepath.Join(dir, "report.json")); err != nil || json.Unmarshal(data, &again) != nil ||
		!cmp.Equal(again.Rows, s.report.Rows) {
		t.Errorf("report.json: %v, %+v", err, again)
	}
}
