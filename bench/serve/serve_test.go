package serve

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDrive(t *testing.T) {
	var now, most, calls atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer now.Add(-1)
		body, _ := io.ReadAll(r.Body)
		if string(body) == "bad" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		time.Sleep(2 * time.Millisecond)
		_, _ = w.Write(body)
	}))
	defer s.Close()
	var seen atomic.Int64
	r, err := drive(t.Context(), 4, 40, 0, func(int) asking {
		return asking{url: s.URL, body: []byte("x"), read: func(r io.Reader) error {
			b, err := io.ReadAll(r)
			seen.Add(int64(len(b)))
			return err
		}}
	})
	if err != nil || len(r.latencies) != 40 || calls.Load() != 40 || seen.Load() != 40 || most.Load() > 4 {
		t.Errorf("%v, %d requests, %d calls, %d at once, %v", r, calls.Load(), seen.Load(), most.Load(), err)
	}
	if p := r.percentile(.5); p < 2 || r.percentile(.99) < p || !slices.IsSorted(r.latencies) {
		t.Errorf("p50 %v, p99 %v", p, r.percentile(.99))
	}
	if _, err := drive(t.Context(), 2, 10, 0, func(i int) asking {
		return asking{url: s.URL, body: []byte(map[bool]string{true: "bad", false: "x"}[i == 5])}
	}); !errors.Is(err, errStatus) {
		t.Errorf("a bad answer: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := drive(ctx, 2, 5, 0,
		func(int) asking { return asking{url: s.URL} }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestReadStream(t *testing.T) {
	first, tokens, err := readStream(strings.NewReader(`data: {"choices":[{"delta":{"role":"assistant","content":""}}]}

data: {"choices":[{"delta":{"content":"A"}}]}

data: {"choices":[],"usage":{"completion_tokens":7}}

data: [DONE]
`), time.Now().Add(-time.Second))
	if err != nil || tokens != 7 || first < time.Second {
		t.Errorf("%v, %d tokens, %v", first, tokens, err)
	}
	for _, bad := range []string{"", "data: {", "data: {\"choices\":[]}\n"} {
		if _, _, err := readStream(strings.NewReader(bad), time.Now()); !errors.Is(err, errStatus) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestRowsAndRatios(t *testing.T) {
	ms := func(n ...int) (out []time.Duration) {
		for _, x := range n {
			out = append(out, time.Duration(x)*time.Millisecond)
		}
		return out
	}
	own, other := &measured{name: Own, unit: "queries/s", connections: 8}, &measured{name: FastAPI}
	own.add(&result{latencies: ms(1, 2, 3, 4), wall: time.Second, cpu: 8 * time.Millisecond}, 0)
	own.add(&result{latencies: ms(1, 2, 3, 4), wall: 2 * time.Second, cpu: 8 * time.Millisecond}, 0)
	other.add(&result{latencies: ms(10), wall: time.Second, cpu: 6 * time.Millisecond}, 0)
	other.add(&result{latencies: ms(10), wall: time.Second, cpu: 6 * time.Millisecond}, 0)
	r := own.row(lookupLoad)
	if r.Rate != 3 || r.P50MS != 3 || r.P99MS != 4 || r.CPUMS != 2 || r.Samples != 8 || r.Rounds != 2 {
		t.Errorf("%+v", r)
	}
	if x := own.against(other, lookupLoad); x.Ratio != 3 || x.Min != 2 || x.Max != 4 || x.P99 != 2.5 || x.CPU != 3 {
		t.Errorf("%+v", x)
	}
	report := Report{Rows: []Row{r}, Ratios: []Ratio{own.against(other, lookupLoad)}, Notes: []string{"a\nb"}}
	var text bytes.Buffer
	if err := report.Markdown(&text); err != nil ||
		!strings.Contains(text.String(), "| lookup | 8 | fastapi | **3** |") ||
		!strings.Contains(text.String(), "- a b") {
		t.Errorf("%v %s", err, text.String())
	}
	if err := report.Write(t.TempDir()); err != nil {
		t.Error(err)
	}
}

func TestOptions(t *testing.T) {
	good := Options{Program: "sluice", Open: func(context.Context) (Encoder, error) { return nil, nil },
		Cache: t.TempDir()}
	if err := good.check(); err != nil || good.Rounds != 5 || good.Rows != 1_000_000 || len(good.Workloads) != 5 {
		t.Errorf("%v %+v", err, good)
	}
	for name, change := range map[string]func(*Options){
		"workload":    func(o *Options) { o.Workloads = []string{"w1"} },
		"peer":        func(o *Options) { o.Peers = []string{"numpy"} },
		"connections": func(o *Options) { o.Connections = []int{0} },
		"rounds":      func(o *Options) { o.Rounds = -1 },
		"program":     func(o *Options) { o.Program = "" },
	} {
		o := good
		change(&o)
		if err := o.check(); !errors.Is(err, ErrOption) {
			t.Errorf("%s: %v", name, err)
		}
	}
	good.Data = t.TempDir()
	if _, err := Run(t.Context(), good); !errors.Is(err, ErrData) {
		t.Errorf("without data: %v", err)
	}
}

func TestProcessesAreMeasured(t *testing.T) {
	p, _, err := launch(t.Context(), "shell", nil, "/bin/sh", "-c", "while :; do :; done")
	if err != nil {
		t.Skipf("SKIP: %v", err)
	}
	defer p.close() //nolint:errcheck // it is killed
	deadline := time.Now().Add(10 * time.Second)
	for {
		cpu, rss := p.used()
		if cpu > 0 && rss > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a busy process used %v and %d bytes", cpu, rss)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
