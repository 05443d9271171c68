// Package peers runs the peer libraries of the benchmarks in processes of their own: the Python programs of this folder
// and the Go programs below it.
package peers

import (
	"bufio"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sluice-rag/sluice/bench/harness"
)

//go:embed *.py
var scripts embed.FS

// Unpack writes the Python programs to a new folder in parent ("": that of temporary files), which the caller removes.
func Unpack(parent string) (string, error) {
	dir, err := os.MkdirTemp(parent, "sluice-bench-*")
	if err != nil {
		return "", err
	}
	names, err := fs.Glob(scripts, "*.py")
	for _, name := range names {
		text, rerr := scripts.ReadFile(name)
		err = errors.Join(err, rerr, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	return dir, err
}

// ErrPeer: a peer is missing or does not answer; the text says which and why.
var ErrPeer = errors.New("bench: peer not available")

// Process is a process that runs one peer library. Requests and replies are lines of JSON, one reply to
// each request, {"error": …} if it failed; sidecar.py lists them. Between a reply and the next
// request the process waits, and the settings of its thread pools make them sleep.
type Process struct {
	library string
	threads int
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	errors  *harness.Tail
	stop    context.CancelFunc
	wait    func() error // cmd.Wait, once
}

// Request to a side-car. Batches are the queries of one round, each timed on its own; a workload without
// queries has one empty batch.
type Request struct {
	Op         string         `json:"op"` // hello, prepare, run, result, end
	Workload   string         `json:"workload,omitempty"`
	Params     map[string]any `json:"params,omitempty"`
	Competitor string         `json:"competitor,omitempty"`
	Batches    [][]int        `json:"batches,omitempty"`
}

// Reply to a request; which fields it has depends on the request.
type Reply struct {
	Error       string            `json:"error"`
	Versions    map[string]string `json:"versions"`
	Competitors []Offer           `json:"competitors"`
	Seconds     []float64         `json:"seconds"`
	Result      json.RawMessage   `json:"result"`
}

// Offer is a competitor that a side-car has for a workload.
type Offer struct {
	Name  string `json:"name"` // what it is called in requests
	Impl  string `json:"impl"`
	DType string `json:"dtype"`
	Mode  string `json:"mode"`
	Batch int    `json:"batch"` // queries that it answers at a time; 0 in a workload without queries
}

// Start runs a command and says hello. The process ends with the context or with Close.
func Start(ctx context.Context, library string, threads int, env []string,
	command ...string) (*Process, map[string]string, error) {
	ctx, stop := context.WithCancel(ctx)
	s := &Process{library: library, threads: threads, errors: &harness.Tail{}, stop: stop}
	s.cmd = exec.CommandContext(ctx, command[0], command[1:]...)
	s.cmd.Env = append(Environment(threads), env...)
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
	r, err := s.Call(ctx, Request{Op: "hello"})
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return s, r.Versions, nil
}

// Environment is this process's environment without settings of the peers' libraries, which choose their
// kernels and threads themselves or as quietThreads says.
func Environment(threads int) (env []string) {
	for _, v := range os.Environ() {
		ours := false
		for _, prefix := range []string{"OPENBLAS_", "MKL_", "NPY_", "OMP_", "KMP_", "GOMP_", "JAX_", "XLA_",
			"RAYON_", "TOKENIZERS_", "GOMAXPROCS="} {
			ours = ours || strings.HasPrefix(v, prefix)
		}
		if !ours {
			env = append(env, v)
		}
	}
	return append(env, quietThreads(threads)...)
}

// Held returns the environment that holds a library to the instruction set that Sluice is held to; nil where it may use
// what the processor has. Libraries without such a setting choose for themselves, or are Unheld.
func Held(isa string, threads int) []string {
	of := func(openBLAS, mkl, capabilities, more string) []string {
		return []string{"OPENBLAS_CORETYPE=" + openBLAS, "MKL_ENABLE_INSTRUCTIONS=" + mkl, "FAISS_SIMD_LEVEL=" + mkl,
			"SLUICE_BENCH_CAPABILITIES=" + capabilities, more}
	}
	switch isa {
	case "avx2", "avxvnni": // no peer multiplies these formats with AVX-VNNI
		// NumPy sorts and compares with AVX-512, whatever its BLAS multiplies with.
		return of("Haswell", "AVX2", "serial haswell",
			"NPY_DISABLE_CPU_FEATURES=AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR")
	case "avx512", "avx512vnni":
		return of("SkylakeX", "AVX512", "serial haswell skylake ice icelake genoa turin sapphire",
			xlaFlags(threads)+" --xla_cpu_max_isa=AVX512")
	}
	return nil
}

// Unheld lists the libraries that would use more than the instruction set that Sluice is held to. XLA multiplies with
// the kernels of YNNPACK, which take AVX-512 whatever --xla_cpu_max_isa says.
func Unheld(isa string) []string {
	if isa == "avx2" || isa == "avxvnni" {
		return []string{"jax", "usearch"}
	}
	return nil
}

func xlaFlags(threads int) string {
	return fmt.Sprintf("XLA_FLAGS=--xla_cpu_multi_thread_eigen=%t intra_op_parallelism_threads=%d", threads > 1,
		threads)
}

// quietThreads returns the environment that sets thread counts before a library is loaded, and lets idle
// threads sleep instead of spinning while others are timed.
func quietThreads(n int) []string {
	t := fmt.Sprint(n)
	return []string{
		"SLUICE_BENCH_THREADS=" + t, "GOMAXPROCS=" + t, "OMP_NUM_THREADS=" + t, "OPENBLAS_NUM_THREADS=" + t,
		"MKL_NUM_THREADS=" + t, "RAYON_NUM_THREADS=" + t, "TOKENIZERS_PARALLELISM=true", "HF_HUB_OFFLINE=1",
		"KMP_BLOCKTIME=0", "OMP_WAIT_POLICY=passive", "OPENBLAS_THREAD_TIMEOUT=16", "JAX_PLATFORMS=cpu",
		xlaFlags(n), "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1",
	}
}

// Call sends a request and waits for its reply.
func (s *Process) Call(ctx context.Context, q Request) (Reply, error) {
	var r Reply
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
func (s *Process) gone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	_ = s.end() // its last line may not have arrived yet
	return fmt.Errorf("%w: %s: it ended: %w%s", ErrPeer, s.library, err, s.errors.Last())
}

// end waits for the process to end, and makes it end after two seconds.
func (s *Process) end() error {
	kill := time.AfterFunc(2*time.Second, s.stop)
	defer kill.Stop()
	return s.wait()
}

// Close lets the process end, by force if it does not.
func (s *Process) Close() error {
	defer s.stop()
	line, _ := json.Marshal(Request{Op: "end"})
	_, _ = s.in.Write(append(line, '\n')) // it may be gone already
	_ = s.in.Close()
	err := s.end()
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, context.Canceled) {
		return nil // an earlier error said so if it mattered
	}
	return err
}

// Run asks for one round.
func (s *Process) Run(ctx context.Context, name string, queries [][]int) ([]time.Duration, error) {
	r, err := s.Call(ctx, Request{Op: "run", Competitor: name, Batches: queries})
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

// Result fetches what a competitor found: in its last run, or for all queries so far.
func (s *Process) Result(ctx context.Context, name string, into any) error {
	r, err := s.Call(ctx, Request{Op: "result", Competitor: name})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(r.Result, into); err != nil {
		return fmt.Errorf("%w: %s: its result: %w", ErrPeer, s.library, err)
	}
	return nil
}
