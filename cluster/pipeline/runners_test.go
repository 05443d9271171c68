package pipeline

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/model/fnexecution_v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal"
	_ "gocloud.dev/blob/fileblob" // file://
	"google.golang.org/grpc"

	"github.com/sluice-rag/sluice/cluster/calibrate"
	"github.com/sluice-rag/sluice/cluster/objects"
	"github.com/sluice-rag/sluice/rag/gate"
)

// pool is a Beam worker pool: a runner has it start workers, which are processes of this test's program.
type pool struct {
	fnexecution_v1.UnimplementedBeamFnExternalWorkerPoolServer
	address string
	pinned  bool // each worker has a core of its own

	mu      sync.Mutex
	running map[string]*exec.Cmd
	started int
}

func newPool(t *testing.T) *pool {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &pool{address: l.Addr().String(), running: map[string]*exec.Cmd{}}
	s := grpc.NewServer()
	fnexecution_v1.RegisterBeamFnExternalWorkerPoolServer(s, p)
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() {
		s.Stop()
		serving.Wait()
		p.kill()
	})
	return p
}

func (p *pool) StartWorker(_ context.Context, r *fnexecution_v1.StartWorkerRequest) (
	*fnexecution_v1.StartWorkerResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	command := []string{os.Args[0], "--worker", "--id=" + r.GetWorkerId(),
		"--logging_endpoint=" + r.GetLoggingEndpoint().GetUrl(),
		"--control_endpoint=" + r.GetControlEndpoint().GetUrl()}
	if p.pinned {
		command = append([]string{"taskset", "-c", strconv.Itoa(p.started % runtime.NumCPU())}, command...)
	}
	c := exec.Command(command[0], command[1:]...)
	p.running[r.GetWorkerId()] = c
	p.started++
	return &fnexecution_v1.StartWorkerResponse{}, c.Start()
}

func (p *pool) StopWorker(_ context.Context, r *fnexecution_v1.StopWorkerRequest) (
	*fnexecution_v1.StopWorkerResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.running[r.GetWorkerId()]; c != nil {
		delete(p.running, r.GetWorkerId())
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	return &fnexecution_v1.StopWorkerResponse{}, nil
}

// kill kills the workers, and returns how many there were.
func (p *pool) kill() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, c := range p.running {
		_ = c.Process.Signal(syscall.SIGKILL)
		_ = c.Wait()
		delete(p.running, id)
		n++
	}
	return n
}

// jobService starts a runner's program, in which "PORT" stands for a free port, and returns its address.
func jobService(t *testing.T, command ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	for i := range command {
		command[i] = strings.ReplaceAll(command[i], "PORT", address[strings.LastIndex(address, ":")+1:])
	}
	c := exec.Command(command[0], command[1:]...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			return address
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not answer", command[0])
		}
	}
}

// TestRunners: runners that are programs of their own, Python's local one (SLUICE_BEAM_PYTHON, a Python with
// apache-beam) and prism (SLUICE_BEAM_PRISM, its program), with workers in this process and with workers that are
// processes, one of which is killed in the middle, give the artifact, ids and vectors of one machine.
func TestRunners(t *testing.T) {
	commands := map[string][]string{}
	if python := os.Getenv("SLUICE_BEAM_PYTHON"); python != "" {
		commands["python"] = []string{python, "-m", "apache_beam.runners.portability.local_job_service_main",
			"-p", "PORT"}
	}
	if prism := os.Getenv("SLUICE_BEAM_PRISM"); prism != "" {
		commands["prism"] = []string{prism, "--job_port=PORT", "--serve_http=false"}
	}
	if len(commands) == 0 {
		t.Skip("SKIP: neither SLUICE_BEAM_PYTHON nor SLUICE_BEAM_PRISM is set: they name the programs of runners")
	}
	in := input(t, 700, 400, 5)
	want, _, err := gate.Calibrate(t.Context(), newEngine(t), in)
	if err != nil {
		t.Fatal(err)
	}
	text := lines(3000)
	_, _, live := ingestedHere(t, text)
	// Without it, the SDK compiles a worker; those of the pool are there.
	*jobopts.WorkerBinary = filepath.Join(t.TempDir(), "worker")
	if err := os.WriteFile(*jobopts.WorkerBinary, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, command := range commands {
		*jobopts.Endpoint = jobService(t, command...)
		workers := newPool(t)
		for environment, config := range map[string]string{"LOOPBACK": "", "EXTERNAL": workers.address} {
			*jobopts.EnvironmentType, *jobopts.EnvironmentConfig = environment, config
			what := name + " " + environment
			dir := t.TempDir()
			killed := make(chan int, 1)
			go func() { killed <- killedAfter(t.Context(), workers, filepath.Join(dir, "done", "pairs"), 3) }()
			began := time.Now()
			got := calibratedBy(t, "universal", "file://"+dir, in)
			t.Logf("%s: calibrated in %.1f s", what, time.Since(began).Seconds())
			same(t, what, want, got)
			if n := <-killed; n == 0 && environment == "EXTERNAL" {
				t.Errorf("%s: no worker was killed of %d", what, workers.started)
			}
			began = time.Now()
			_, a, v, _ := ingested(t, "universal", "file://"+t.TempDir(), ofLines(text, 40_000))
			if !slices.Equal(a.IDs, live.IDs) || !slices.Equal(v, live.Vectors.Data) {
				t.Errorf("%s: other contexts: %d of %d", what, len(a.IDs), len(live.IDs))
			}
			t.Logf("%s: %d documents ingested in %.1f s", what, 3000, time.Since(began).Seconds())
		}
	}
}

// killedAfter kills the workers once a folder has so many records, and returns how many it has killed.
func killedAfter(ctx context.Context, workers *pool, dir string, records int) int {
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		found, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
		if len(found) >= records {
			return workers.kill()
		}
	}
	return 0
}

// calibratedBy exports a base and calibrates it on a runner.
func calibratedBy(t *testing.T, runner, address string, in gate.Input) *gate.Calibration {
	t.Helper()
	s, err := objects.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	of, questions, err := calibrate.Export(t.Context(), s, in, 60)
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := Calibrate(t.Context(), newEngine(t), address, of, questions,
		CalibrateOptions{Runner: runner, Step: 40, Exact: true})
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", address, err))
	}
	return c
}
