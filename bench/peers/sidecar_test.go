package peers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv("SLUICE_BENCH_FAKE"); mode != "" {
		fakeSidecar(mode)
		return
	}
	goleak.VerifyTestMain(m)
}

// fakeSidecar is the other end of the protocol, good or bad.
func fakeSidecar(mode string) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var q Request
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
			reply["competitors"] = []Offer{{"fast", "fake library " + q.Workload, "f32", "exact", 1}}
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

func fake(t *testing.T, mode string) (*Process, map[string]string) {
	t.Helper()
	t.Setenv("SLUICE_BENCH_FAKE", mode)
	c, versions, err := Start(t.Context(), "fake", 3, []string{"SLUICE_BENCH_MORE=yes"}, os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
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
	r, err := c.Call(t.Context(), Request{Op: "prepare", Workload: "w3"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Offer{{"fast", "fake library w3", "f32", "exact", 1}}, r.Competitors); diff != "" {
		t.Error(diff)
	}
	times, err := c.Run(t.Context(), "fast", [][]int{{3}, {4}})
	if diff := cmp.Diff([]time.Duration{time.Second / 2, time.Second / 2}, times); diff != "" || err != nil {
		t.Error(diff, err)
	}
	var got map[int]float64
	if err := c.Result(t.Context(), "fast", &got); err != nil || got[3] != 0.25 {
		t.Error(got, err)
	}
	var wrong []string
	if err := c.Result(t.Context(), "fast", &wrong); !errors.Is(err, ErrPeer) {
		t.Errorf("a result of another form: %v", err)
	}
}

func TestProtocolErrors(t *testing.T) {
	prepare := func(c *Process) error {
		_, err := c.Call(t.Context(), Request{Op: "prepare"})
		return err
	}
	run := func(c *Process) error { _, err := c.Run(t.Context(), "fast", [][]int{{1}, {2}}); return err }
	for mode, x := range map[string]struct {
		do   func(*Process) error
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
	c, _, err := Start(ctx, "fake", 1, nil, os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := c.Call(ctx, Request{Op: "prepare"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestSidecarThatStaysIsEnded(t *testing.T) {
	t.Setenv("SLUICE_BENCH_FAKE", "stays")
	c, _, err := Start(t.Context(), "fake", 1, nil, os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- c.Close() }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it is still there")
	}
}

// TestSidecarEnvironment: settings of the caller's shell do not reach the peers.
func TestSidecarEnvironment(t *testing.T) {
	t.Setenv("OPENBLAS_CORETYPE", "Haswell")
	t.Setenv("MKL_ENABLE_INSTRUCTIONS", "SSE4_2")
	t.Setenv("OMP_NUM_THREADS", "7")
	t.Setenv("SLUICE_BENCH_KEPT", "yes")
	text := "\n" + strings.Join(Environment(3), "\n") + "\n"
	if strings.Contains(text, "OPENBLAS_CORETYPE") || strings.Contains(text, "MKL_ENABLE") ||
		strings.Contains(text, "=7\n") {
		t.Error("a setting of the caller is left")
	}
	if !strings.Contains(text, "\nOMP_NUM_THREADS=3\n") || !strings.Contains(text, "\nSLUICE_BENCH_KEPT=yes\n") {
		t.Error("a variable is missing")
	}
}

// TestHeld: only AVX2 and AVX-512 hold the peers, XLA's threads stay set, and kernels beyond are disabled.
func TestHeld(t *testing.T) {
	for _, isa := range []string{"", "amx", "scalar", "go"} {
		if env := Held(isa, 2); env != nil {
			t.Errorf("%q: %q", isa, env)
		}
	}
	text := strings.Join(append(Environment(2), Held("avx512", 2)...), "\n")
	i := strings.LastIndex(text, "XLA_FLAGS=")
	if text[i:] != "XLA_FLAGS=--xla_cpu_multi_thread_eigen=true intra_op_parallelism_threads=2 --xla_cpu_max_isa=AVX512" {
		t.Errorf("%s", text[i:])
	}
	text = strings.Join(append(Environment(2), Held("avx2", 2)...), "\n")
	if !strings.Contains(text, "\nNPY_DISABLE_CPU_FEATURES=AVX512F ") {
		t.Errorf("NumPy may sort with AVX-512: %s", text)
	}
	out, err := exec.Command("python3", "-c", `
import os, sys, types
sys.modules["numpy"] = types.ModuleType("numpy")
pool = sys.modules["threadpoolctl"] = types.ModuleType("threadpoolctl")
pool.ThreadpoolController = pool.threadpool_info = None
os.environ["SLUICE_BENCH_CAPABILITIES"] = "serial haswell"
import common
class module:
    there = {"serial": True, "haswell": True, "skylake": True, "neon": False}
    def get_capabilities(): return dict(module.there)
    def disable_capability(name): module.there[name] = False
common.hold(module)
print([name for name, there in module.there.items() if there])`).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("SKIP: no python3")
	}
	if err != nil || string(out) != "['serial', 'haswell']\n" {
		t.Errorf("%s, %v", out, err)
	}
}

func TestMissingProgram(t *testing.T) {
	if _, _, err := Start(t.Context(), "fake", 1, nil, "/nowhere/program"); !errors.Is(err, ErrPeer) ||
		!errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
