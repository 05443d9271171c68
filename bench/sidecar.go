package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/sluice-rag/sluice/bench/harness"
)

// ErrPeer: a peer is missing or does not answer; the text says which and why.
var ErrPeer = errors.New("bench: peer not available")

// sidecar is a process that runs one peer library. Requests and replies are lines of JSON, one reply to
// each request, {"error": …} if it failed; peers/sidecar.py lists them. Between a reply and the next
// request the process waits, and the settings of its thread pools make them sleep.
type sidecar struct {
	library string
	threads int
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	errors  *harness.Tail
	stop    context.CancelFunc
	wait    func() error // cmd.Wait, once
}

// request to a side-car. Batches are the queries of one round, each timed on its own; a workload without
// queries has one empty batch.
type request struct {
	Op         string         `json:"op"` // hello, prepare, run, result, end
	Workload   string         `json:"workload,omitempty"`
	Params     map[string]any `json:"params,omitempty"`
	Competitor string         `json:"competitor,omitempty"`
	Batches    [][]int        `json:"batches,omitempty"`
}

type reply struct {
	Error       string            `json:"error"`
	Versions    map[string]string `json:"versions"`
	Competitors []offer           `json:"competitors"`
	Seconds     []float64         `json:"seconds"`
	Result      json.RawMessage   `json:"result"`
}

// offer is a competitor that a side-car has for a workload.
type offer struct {
	Name  string `json:"name"` // what it is called in requests
	Impl  string `json:"impl"`
	DType string `json:"dtype"`
	Mode  string `json:"mode"`
	Batch int    `json:"batch"` // queries that it answers at a time; 0 in a workload without queries
}

// startSidecar runs a command and says hello. The process ends with the context or with close.
func startSidecar(ctx context.Context, library string, threads int, env []string,
	command ...string) (*sidecar, map[string]string, error) {
	ctx, stop := context.WithCancel(ctx)
	s := &sidecar{library: library, threads: threads, errors: &harness.Tail{}, stop: stop}
	s.cmd = exec.CommandContext(ctx, command[0], command[1:]...)
	s.cmd.Env = append(sidecarEnvironment(threads), env...)
	s.cmd.Stderr = s.errors
	s.cmd.WaitDelay = 5 * time.Second
	s.wait = sync.OnceValue(s.cmd.Wait)
	in, err := s.cmd.StdinPipe()
	if err == nil {
		var out io.ReadCloser
		if out, err = s.cmd.StdoutPipe(); err == nil {
			s.in, s.out = in, bufio.NewReaderSize(out, 1<<16)
			err = s.cmd.Start()
		}
	}
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("%w: %s: %w", ErrPeer, library, err)
	}
	r, err := s.call(ctx, request{Op: "hello"})
	if err != nil {
		return nil, nil, errors.Join(err, s.close())
	}
	return s, r.Versions, nil
}

// sidecarEnvironment is this process's environment without settings of the peers' libraries, which choose their
// kernels and threads themselves or as quietThreads says.
func sidecarEnvironment(threads int) (env []string) {
	for _, v := range os.Environ() {
		ours := false
		for _, prefix := range []string{"OPENBLAS_", "MKL_", "NPY_", "OMP_", "KMP_", "GOMP_", "JAX_", "XLA_",
			"GOMAXPROCS="} {
			ours = ours || strings.HasPrefix(v, prefix)
		}
		if !ours {
			env = append(env, v)
		}
	}
	return append(env, quietThreads(threads)...)
}

// quietThreads is the environment that sets thread counts before a library is loaded, and lets idle
// threads sleep instead of spinning while others are timed.
func quietThreads(n int) []string {
	t := fmt.Sprint(n)
	eigen := "true"
	if n == 1 {
		eigen = "false"
	}
	return []string{
		"SLUICE_BENCH_THREADS=" + t, "GOMAXPROCS=" + t, "OMP_NUM_THREADS=" + t, "OPENBLAS_NUM_THREADS=" + t,
		"MKL_NUM_THREADS=" + t,
		"KMP_BLOCKTIME=0", "OMP_WAIT_POLICY=passive", "OPENBLAS_THREAD_TIMEOUT=16", "JAX_PLATFORMS=cpu",
		"XLA_FLAGS=--xla_cpu_multi_thread_eigen=" + eigen + " intra_op_parallelism_threads=" + t,
		"PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1",
	}
}

// call sends a request and waits for its reply.
func (s *sidecar) call(ctx context.Context, q request) (reply, error) {
	var r reply
	line, err := json.Marshal(q)
	if err != nil {
		return r, err
	}
	if _, err := s.in.Write(append(line, '\n')); err != nil {
		return r, s.gone(ctx, err)
	}
	text, err := s.out.ReadBytes('\n')
	if err != nil {
		return r, s.gone(ctx, err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("%w: %s: it replied %.100q: %w", ErrPeer, s.library, text, err)
	}
	if r.Error != "" {
		return r, fmt.Errorf("%w: %s: %s", ErrPeer, s.library, r.Error)
	}
	return r, nil
}

// gone explains a broken pipe with the last line that the process wrote.
func (s *sidecar) gone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	_ = s.end() // its last line may not have arrived yet
	return fmt.Errorf("%w: %s: it ended: %w%s", ErrPeer, s.library, err, s.errors.Last())
}

// end waits for the process to end, and makes it end after two seconds.
func (s *sidecar) end() error {
	kill := time.AfterFunc(2*time.Second, s.stop)
	defer kill.Stop()
	return s.wait()
}

// close lets the process end, by force if it does not.
func (s *sidecar) close() error {
	defer s.stop()
	line, _ := json.Marshal(request{Op: "end"})
	_, _ = s.in.Write(append(line, '\n')) // it may be gone already
	_ = s.in.Close()
	err := s.end()
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, context.Canceled) {
		return nil // an earlier error said so if it mattered
	}
	return err
}

// run asks for one round.
func (s *sidecar) run(ctx context.Context, name string, queries [][]int) ([]time.Duration, error) {
	r, err := s.call(ctx, request{Op: "run", Competitor: name, Batches: queries})
	if err != nil {
		return nil, err
	}
	if len(r.Seconds) != len(queries) {
		return nil, fmt.Errorf("%w: %s: %d times for %d runs", ErrPeer, s.library, len(r.Seconds), len(queries))
	}
	times := make([]time.Duration, len(r.Seconds))
	for i, t := range r.Seconds {
		times[i] = time.Duration(t * float64(time.Second))
	}
	return times, nil
}

// result fetches what a competitor found: in its last run, or for all queries so far.
func (s *sidecar) result(ctx context.Context, name string, into any) error {
	r, err := s.call(ctx, request{Op: "result", Competitor: name})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(r.Result, into); err != nil {
		return fmt.Errorf("%w: %s: its result: %w", ErrPeer, s.library, err)
	}
	return nil
}
