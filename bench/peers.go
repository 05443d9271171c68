package bench

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/kernels"
)

//go:embed peers/*.py
var scripts embed.FS

// library is a peer: a Python module peers/<name>.py, or a part of the Go program in peers/go.
type library struct {
	name      string
	workloads string
	goProgram bool
}

func libraries() []library {
	return []library{
		{"numpy", "w1 w2 w3 w4 matrix", false},
		{"mkl", "w1 w2 w3 matrix", false},
		{"sklearn", "w1", false},
		{"jax", "w1 w2 w3 w4 matrix", false},
		{"faiss", "w3 w4", false},
		{"usearch", "w3 w4", false},
		{"numkong", "w1 w3 matrix", false},
		{"simsimd", "w1 w3", false},
		{"gonum", "w3 matrix", true},
		{"gorgonia", "matrix", true},
		{"vek", "w3 matrix", true},
		{"chromem", "w3 w4", true},
	}
}

// Peers are the names that Options.Peers may hold.
func Peers() (names []string) {
	for _, l := range libraries() {
		names = append(names, l.name)
	}
	return names
}

// The programs of the set-up's part "peers", below the cache.
const (
	pythonProgram = "bench/peers/python3"
	goProgram     = "bench/peers/gopeers"
	setUpHint     = "`make bench-compute` sets it up"
)

// command is how a library's process is started.
func (s *session) command(l library) ([]string, error) {
	program := s.o.Python
	if l.goProgram {
		program = s.o.GoPeers
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w; %s", ErrPeer, l.name, err, setUpHint)
	}
	if l.goProgram {
		return []string{path, l.name}, nil
	}
	if s.scripts == "" {
		if s.scripts, err = unpackScripts(); err != nil {
			return nil, err
		}
	}
	return []string{path, filepath.Join(s.scripts, "sidecar.py"), l.name}, nil
}

// unpackScripts writes the Python files to a folder of their own.
func unpackScripts() (string, error) {
	dir, err := os.MkdirTemp("", "sluice-bench-*")
	if err != nil {
		return "", err
	}
	files, err := fs.Glob(scripts, "peers/*.py")
	for _, name := range files {
		text, rerr := scripts.ReadFile(name)
		err = errors.Join(err, rerr, os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o644))
	}
	return dir, err
}

// chosen are the libraries that take part in a workload.
func (s *session) chosen(workload string) (out []library) {
	for _, l := range libraries() {
		if slices.Contains(strings.Fields(l.workloads), workload) && slices.Contains(s.o.Peers, l.name) {
			out = append(out, l)
		}
	}
	return out
}

// start runs a library's process for a workload and asks what it has. What is missing is said once.
func (s *session) start(ctx context.Context, l library, threads int, workload string, params map[string]any) (*sidecar, []offer, error) {
	command, err := s.command(l)
	if err != nil {
		return nil, nil, err
	}
	c, versions, err := startSidecar(ctx, l.name, threads, command...)
	if err != nil {
		return nil, nil, err
	}
	for k, v := range versions {
		s.report.Versions[k] = v
	}
	r, err := c.call(ctx, request{Op: "prepare", Workload: workload, Params: params})
	if err != nil {
		return nil, nil, errors.Join(err, c.close())
	}
	return c, r.Entrants, nil
}

// crew are the processes of one race's peers.
type crew []*sidecar

func (c crew) close() error {
	var errs []error
	for _, s := range c {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// recruit is an entrant that a peer's process offers.
type recruit struct {
	offer
	from *sidecar
}

func (o recruit) result(ctx context.Context, into any) error { return o.from.result(ctx, o.Name, into) }

// recruit starts the peers of a workload and lists what they offer. One that is missing is noted.
func (s *session) recruit(ctx context.Context, workload string, params map[string]any) (c crew, all []recruit, err error) {
	for _, l := range s.chosen(workload) {
		process, offers, err := s.start(ctx, l, s.o.Threads, workload, params)
		if ctx.Err() != nil {
			return c, nil, ctx.Err()
		}
		if err != nil {
			s.note("%s: %v", workload, err)
			continue
		}
		c = append(c, process)
		for _, o := range offers {
			all = append(all, recruit{o, process})
		}
	}
	return c, all, nil
}

// entrant makes a recruit one: questions gives a turn its questions, fault judges what came back.
func (o recruit) entrant(questions func(turn int) [][]int, fault func(context.Context) (float64, error)) *entrant {
	kind, err := kernels.ParseDType(o.DType)
	if err != nil {
		kind = kernels.F32 // a type of its own
	}
	return &entrant{
		Row: Row{Impl: o.Impl, DType: o.DType, Mode: o.Mode}, kind: kind,
		run: func(ctx context.Context, turn int) ([]time.Duration, error) {
			return o.from.run(ctx, o.Name, questions(turn))
		},
		fault: fault,
	}
}

// enlist adds the peers of a workload without questions to a race.
func (s *session) enlist(ctx context.Context, r *race, params map[string]any, fault func(context.Context, recruit) (float64, error)) (crew, error) {
	c, all, err := s.recruit(ctx, r.workload, params)
	for _, o := range all {
		r.entrants = append(r.entrants, o.entrant(noQuestions, func(ctx context.Context) (float64, error) { return fault(ctx, o) }))
	}
	return c, err
}
