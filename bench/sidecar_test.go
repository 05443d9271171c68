package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/internal/fetch"
)

// fakeSidecar is the other end of the protocol, good or bad.
func fakeSidecar(mode string) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var q request
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			panic(err)
		}
		reply := map[string]any{}
		switch q.Op {
		case "hello":
			reply["versions"] = map[string]string{"fake": "1.2.3", "threads": os.Getenv("SLUICE_BENCH_THREADS"),
				"more": os.Getenv("SLUICE_BENCH_MORE")}
		case "prepare":
			switch mode {
			case "dies":
				fmt.Fprintln(os.Stderr, "first\nno memory left")
				os.Exit(3)
			case "garbage":
				fmt.Println("hello there")
				continue
			case "sleeps":
				time.Sleep(time.Minute)
			}
			reply["competitors"] = []offer{{"fast", "fake library " + q.Workload, "f32", "exact", 1}}
		case "run":
			times := make([]float64, len(q.Batches))
			for i := range times {
				times[i] = 0.5
			}
			if mode == "forgets" {
				times = times[1:]
			}
			reply["seconds"] = times
		case "result":
			reply["result"] = map[int]float64{3: 0.25}
		case "end":
			if mode == "stays" {
				time.Sleep(time.Minute)
			}
			return
		}
		if mode == "refuses" && q.Op != "hello" {
			reply = map[string]any{"error": "ValueError: not today"}
		}
		text, err := json.Marshal(reply)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(text))
	}
}

func fake(t *testing.T, mode string) (*sidecar, map[string]string) {
	t.Helper()
	t.Setenv("SLUICE_BENCH_FAKE", mode)
	c, versions, err := startSidecar(t.Context(), "fake", 3, []string{"SLUICE_BENCH_MORE=yes"}, os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
	return c, versions
}

func TestProtocol(t *testing.T) {
	c, versions := fake(t, "good")
	if diff := cmp.Diff(map[string]string{"fake": "1.2.3", "threads": "3", "more": "yes"}, versions); diff != "" {
		t.Error(diff)
	}
	r, err := c.call(t.Context(), request{Op: "prepare", Workload: "w3"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]offer{{"fast", "fake library w3", "f32", "exact", 1}}, r.Competitors); diff != "" {
		t.Error(diff)
	}
	times, err := c.run(t.Context(), "fast", [][]int{{3}, {4}})
	if diff := cmp.Diff([]time.Duration{time.Second / 2, time.Second / 2}, times); diff != "" || err != nil {
		t.Error(diff, err)
	}
	var got map[int]float64
	if err := c.result(t.Context(), "fast", &got); err != nil || got[3] != 0.25 {
		t.Error(got, err)
	}
	var wrong []string
	if err := c.result(t.Context(), "fast", &wrong); !errors.Is(err, ErrPeer) {
		t.Errorf("a result of another form: %v", err)
	}
}

func TestProtocolErrors(t *testing.T) {
	prepare := func(c *sidecar) error {
		_, err := c.call(t.Context(), request{Op: "prepare"})
		return err
	}
	run := func(c *sidecar) error { _, err := c.run(t.Context(), "fast", [][]int{{1}, {2}}); return err }
	for mode, x := range map[string]struct {
		do   func(*sidecar) error
		says string
	}{
		"dies":    {prepare, "no memory left"},
		"garbage": {prepare, `replied "hello there`},
		"refuses": {prepare, "ValueError: not today"},
		"forgets": {run, "1 times for 2 runs"},
	} {
		t.Run(mode, func(t *testing.T) {
			c, _ := fake(t, mode)
			if err := x.do(c); !errors.Is(err, ErrPeer) || !strings.Contains(err.Error(), x.says) {
				t.Error(err)
			}
		})
	}
}

func TestSidecarEndsWithItsContext(t *testing.T) {
	t.Setenv("SLUICE_BENCH_FAKE", "sleeps")
	ctx, cancel := context.WithCancel(t.Context())
	c, _, err := startSidecar(ctx, "fake", 1, nil, os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := c.call(ctx, request{Op: "prepare"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
}

func TestSidecarThatStaysIsEnded(t *testing.T) {
	t.Setenv("SLUICE_BENCH_FAKE", "stays")
	c, _, err := startSidecar(t.Context(), "fake", 1, nil, os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- c.close() }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it is still there")
	}
}

func TestMissingPrograms(t *testing.T) {
	if _, _, err := startSidecar(t.Context(), "fake", 1, nil, "/nowhere/program"); !errors.Is(err, ErrPeer) ||
		!errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	s := quiet(t)
	for _, l := range libraries() {
		if _, err := s.command(l); !errors.Is(err, ErrPeer) || !strings.Contains(err.Error(), l.name) ||
			!strings.Contains(err.Error(), setUpHint) {
			t.Errorf("%s: %v", l.name, err)
		}
	}
}

// TestRealPeers runs the libraries themselves where they are set up.
func TestRealPeers(t *testing.T) {
	root, err := fetch.Root()
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Workload: "all", Short: true, Rounds: 1, Cache: t.TempDir(),
		Peers: []string{"numpy", "faiss", "gonum", "gorgonia", "vek", "chromem"}}
	for _, program := range []string{pythonProgram, goProgram} {
		if _, err := exec.LookPath(root + "/" + program); err != nil {
			t.Skipf("the peers are not set up: %v; %s", err, setUpHint)
		}
	}
	report, err := Compute(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, r := range report.Rows {
		if r.Impl == Own {
			continue
		}
		count[r.Workload]++
		worst := map[string]float64{"w1": sameTable, "w2": sameBins, "w3": 0, "w4": 0, "matrix": sameScores}[r.Workload]
		if r.MaxError > worst {
			t.Errorf("%+v", r)
		}
	}
	for w, n := range map[string]int{"w1": 1, "w2": 1, "w3": 7, "w4": 5, "matrix": 4} {
		if count[w] < n {
			t.Errorf("%s has %d rows of peers, at least %d expected; %q", w, count[w], n, report.Notes)
		}
	}
	if len(report.Ratios) == 0 || report.Versions["numpy"] == "" || report.Versions["gonum.org/v1/gonum"] == "" {
		t.Errorf("%d ratios, versions %v", len(report.Ratios), report.Versions)
	}
}

// TestStatisticsOfPeers compares the two ways to quantiles of peers/tables.py with np.quantile, and makes the
// second one's brackets miss.
func TestStatisticsOfPeers(t *testing.T) {
	s := quiet(t, func(o *Options) { o.Python = realPython(t) })
	if _, err := s.command(libraries()[0]); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(s.scripts)
	const script = `
import numpy as np, tables
rng, q = np.random.default_rng(3), [0, .05, .25, .5, .75, .95, 1]
for n, k in ((2, 1), (3, 2), (40, 3), (260, 3)):
    scores = rng.standard_normal((n, n * k)).astype(np.float32)
    scores[:, ::3] = np.round(scores[:, ::3], 1)  # ties
    cube, i = scores.reshape(n, n, k), np.arange(n)
    own = cube[i, i].copy()
    others = scores[~np.repeat(np.eye(n, dtype=bool), k, axis=1)].astype(np.float64)
    want = np.quantile(others, q)
    usual = tables.brackets
    miss = lambda s, q: [(9, 9)] * 5
    for way, brackets in ((tables.by_sort, usual), (tables.by_brackets, usual), (tables.by_brackets, miss)):
        tables.brackets = brackets
        got_own, got = way(scores.copy(), k, q)
        assert (got_own == own).all() and np.allclose(got, want, rtol=0, atol=1e-12), (n, k, way, got, want)
print("ok")
`
	cmd := exec.Command(s.o.Python, "-c", script)
	cmd.Env = append(os.Environ(), append(quietThreads(3), "PYTHONPATH="+s.scripts)...)
	if text, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(text)) != "ok" {
		t.Errorf("%v: %s", err, text)
	}
}

// TestSidecarEnvironment: settings of the caller's shell do not reach the peers.
func TestSidecarEnvironment(t *testing.T) {
	t.Setenv(coreType, "Haswell")
	t.Setenv("MKL_ENABLE_INSTRUCTIONS", "SSE4_2")
	t.Setenv("OMP_NUM_THREADS", "7")
	t.Setenv("SLUICE_BENCH_KEPT", "yes")
	text := "\n" + strings.Join(sidecarEnvironment(3), "\n") + "\n"
	if strings.Contains(text, coreType) || strings.Contains(text, "MKL_ENABLE") || strings.Contains(text, "=7\n") {
		t.Error("a setting of the caller is left")
	}
	if !strings.Contains(text, "\nOMP_NUM_THREADS=3\n") || !strings.Contains(text, "\nSLUICE_BENCH_KEPT=yes\n") {
		t.Error("a variable is missing")
	}
}

// realPython is the peers' interpreter.
func realPython(t *testing.T) string {
	t.Helper()
	root, err := fetch.Root()
	if err != nil {
		t.Fatal(err)
	}
	path, err := exec.LookPath(filepath.Join(root, pythonProgram))
	if err != nil {
		t.Skipf("SKIP: the peers are not set up: %v; %s", err, setUpHint)
	}
	return path
}
