package bench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/bench/peers"
	"github.com/sluice-rag/sluice/kernels"
)

// library is a peer: a Python module peers/peer_<name>.py, or a part of the Go program in peers/go.
type library struct {
	name      string
	workloads string
	goProgram bool
}

func libraries() []library {
	return []library{
		{"numpy", "w1 w2 w3 w4 matrix", false},
		{"mkl", "w1 w2 w3 w4 matrix", false},
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

// Peers returns the names that Options.Peers may hold.
func Peers() (names []string) {
	for _, l := range libraries() {
		names = append(names, l.name)
	}
	return names
}

// ErrPeer means that a peer is missing or does not answer; the text names it and the reason.
var ErrPeer = peers.ErrPeer

// The programs that the set-up's part "peers" makes, below the cache.
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
		if s.scripts, err = peers.Unpack(""); err != nil {
			return nil, err
		}
	}
	return []string{path, filepath.Join(s.scripts, "sidecar.py"), l.name}, nil
}

// librariesFor returns the chosen libraries that have a workload and use no more than Sluice's instruction set.
func (s *session) librariesFor(workload string) (out []library) {
	unheld := peers.Unheld(s.o.ISA)
	for _, l := range libraries() {
		if slices.Contains(strings.Fields(l.workloads), workload) && slices.Contains(s.o.Peers, l.name) &&
			!slices.Contains(unheld, l.name) {
			out = append(out, l)
		}
	}
	return out
}

// start runs a library's process for a workload and asks what it offers.
func (s *session) start(ctx context.Context, l library, threads int, workload string,
	params map[string]any) (*peers.Process,
	[]peers.Offer, error) {
	command, err := s.command(l)
	if err != nil {
		return nil, nil, err
	}
	var env []string
	if held := peers.Held(s.o.ISA, threads); held != nil {
		env = held
	} else if !l.goProgram {
		if env, err = s.openBLAS(ctx, l.name); err != nil {
			return nil, nil, err
		}
	}
	c, versions, err := peers.Start(ctx, l.name, threads, env, command...)
	if err != nil {
		return nil, nil, err
	}
	for k, v := range versions {
		s.report.Versions[k] = v
	}
	r, err := c.Call(ctx, peers.Request{Op: "prepare", Workload: workload, Params: params})
	if err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	return c, r.Competitors, nil
}

// processes are the side-cars of one benchmark.
type processes []*peers.Process

func (p processes) close() error {
	var errs []error
	for _, c := range p {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// peerOffer is an offer and the process that made it.
type peerOffer struct {
	peers.Offer
	from *peers.Process
}

func (o peerOffer) result(ctx context.Context, into any) error {
	return o.from.Result(ctx, o.Name, into)
}

// startPeers starts the peers of a workload and lists what they offer. One that is missing is noted.
func (s *session) startPeers(ctx context.Context, workload string, params map[string]any) (p processes, all []peerOffer,
	err error) {
	for _, l := range s.librariesFor(workload) {
		process, offers, err := s.start(ctx, l, s.o.Threads, workload, params)
		if ctx.Err() != nil {
			return p, nil, ctx.Err()
		}
		if err != nil {
			s.note("%s: %v", workload, err)
			continue
		}
		p = append(p, process)
		for _, o := range offers {
			all = append(all, peerOffer{o, process})
		}
	}
	return p, all, nil
}

// competitor of an offer: queries returns the batches of a round, check the largest error of the results.
func (o peerOffer) competitor(queries func(round int) [][]int,
	check func(context.Context) (float64, error)) *competitor {
	kind, err := kernels.ParseDType(o.DType)
	if err != nil {
		kind = kernels.F32 // a type that we do not have
	}
	return &competitor{
		Row: Row{Impl: o.Impl, DType: o.DType, Mode: o.Mode}, kind: kind,
		run: func(ctx context.Context, round int) ([]time.Duration, error) {
			return o.from.Run(ctx, o.Name, queries(round))
		},
		check: check,
	}
}

// addOffers adds the peers of a workload without queries to a benchmark.
func (s *session) addOffers(ctx context.Context, b *benchmark, params map[string]any,
	check func(context.Context, peerOffer) (float64, error)) (processes, error) {
	p, all, err := s.startPeers(ctx, b.workload, params)
	for _, o := range all {
		b.competitors = append(b.competitors, o.competitor(noQueries,
			func(ctx context.Context) (float64, error) { return check(ctx, o) }))
	}
	return p, err
}
