package engine

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

const defaultMemLimit = 1 << 30

// Engine implements Interface on the CPU. It holds no state between calls and may be used by many
// goroutines at once; they share the CPU budget.
type Engine struct {
	kernels  cpu.Kernels
	cores    *cores.Budget
	threads  int
	memLimit int64
	tileRows int
	progress func(done, total int64)
	choice   Choice
	tune     tuning
	panels   *sync.Pool // of *cpu.Panels that are no longer used: fresh memory costs as much as packing
}

// tuning are the sizes that change the speed of Distribution and none of its exact results; tests vary them.
type tuning struct {
	canonical  int64 // inputs of so many pairs are scored canonically throughout
	keepAll    int64 // so many negatives are kept whole
	minSamples int   // scored to place the brackets
	maxSamples int
	reach      float64       // of a bracket, in standard deviations of the sample's rank
	kept       int64         // entries that may be kept; 0 = what the memory limit allows
	recheck    int64         // so many pairs of a window, and a tenth of all, are rechecked rather than left to a canonical pass
	record     time.Duration // between a worker's records in a checkpoint
}

var _ Interface = (*Engine)(nil)

// Choice says what an Engine runs on, and why.
type Choice struct {
	ISA     string `json:"isa"`
	Device  string `json:"device"`
	Kernel  string `json:"kernel"`
	Threads int    `json:"threads"`
	Reason  string `json:"reason"`
}

// New returns an engine. An instruction set that the machine or the build lacks (Options.ISA, else
// $SLUICE_ISA) is kernels.ErrISA, a negative option kernels.ErrArgument.
func New(o Options) (*Engine, error) {
	if o.Threads < 0 || o.MemLimit < 0 || o.TileRows < 0 {
		return nil, fmt.Errorf("engine: %w: threads %d, memory limit %d, tile rows %d must not be negative",
			kernels.ErrArgument, o.Threads, o.MemLimit, o.TileRows)
	}
	name, reason := o.ISA, "asked for by the options"
	if name == "" {
		name, reason = os.Getenv("SLUICE_ISA"), "asked for by SLUICE_ISA"
	}
	k, err := cpu.Open(name)
	if err != nil {
		if o.ISA == "" {
			return nil, fmt.Errorf("engine: SLUICE_ISA: %w", err)
		}
		return nil, fmt.Errorf("engine: %w", err)
	}
	e := &Engine{
		kernels:  k,
		cores:    o.Cores,
		memLimit: o.MemLimit,
		tileRows: o.TileRows,
		panels:   new(sync.Pool),
		progress: o.Progress,
		tune:     tuning{canonical: 1 << 16, keepAll: 1 << 17, minSamples: 1 << 12, maxSamples: 1 << 20, reach: 3.5, recheck: 1 << 16, record: time.Second},
	}
	if e.cores == nil {
		e.cores = cores.New(cores.Available())
	}
	if e.memLimit == 0 {
		e.memLimit = defaultMemLimit
	}
	e.threads = e.cores.Size()
	if o.Threads > 0 {
		e.threads = min(o.Threads, e.threads) // more threads than cores would only wait
	}
	if name == "" {
		reason = bestReason(k)
	}
	e.choice = Choice{
		ISA:     k.ISA().String(),
		Device:  "cpu",
		Kernel:  k.Name(),
		Threads: e.threads,
		Reason:  reason + "; this build has no GPU backend",
	}
	return e, nil
}

// Describe tells what the engine runs on.
func (e *Engine) Describe() Choice { return e.choice }

func bestReason(k cpu.Kernels) string {
	if k.ISA() == cpu.Go {
		return "built without the C kernels (they need cgo, on amd64 or arm64): the Go reference runs, same results, slower"
	}
	var also []string
	for _, isa := range cpu.Available()[1:] {
		also = append(also, isa.String())
	}
	return "best instruction set of this CPU (also here: " + strings.Join(also, ", ") + ")"
}

// meter reports progress from one goroutine at a time.
type meter struct {
	report func(done, total int64)

	mu          sync.Mutex
	done, total int64
}

func (e *Engine) meter(total int64) *meter { return &meter{report: e.progress, total: total} }

func (m *meter) add(pairs int) {
	if m.report == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done = min(m.done+int64(pairs), m.total) // a redone rank counts once
	m.report(m.done, m.total)
}

// end says that all is done, whatever was left out.
func (m *meter) end() {
	if m != nil && m.done < m.total {
		m.add(int(m.total - m.done))
	}
}
