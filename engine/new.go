package engine

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/statistics"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// DefaultMemLimit is used if Options.MemLimit is 0.
const DefaultMemLimit = 1 << 30

// Engine implements Interface on the CPU and on GPUs. It may be used by many goroutines at once; they share the CPU
// budget. Between calls it holds only the opened GPUs and the data of prepared sets on them; Close releases both.
type Engine struct {
	r      device.Resources // for the CPU
	gpus   *gpus            // nil: no GPU is wanted
	choice Choice
	tune   statistics.Tuning

	scanRows int // for search.Input
}

var _ Interface = (*Engine)(nil)

// Choice describes what an Engine runs on, and why.
type Choice struct {
	ISA     string `json:"isa"`
	Device  string `json:"device"`
	Kernel  string `json:"kernel"`
	Threads int    `json:"threads"`
	Reason  string `json:"reason"`
}

// New returns an engine. An instruction set that the machine or the build lacks (Options.ISA, else $SLUICE_ISA) is
// kernels.ErrISA, a device that is not present is ErrDevice, a negative option is kernels.ErrArgument.
func New(o Options) (*Engine, error) {
	return newOn(o, func(k cpu.Kernels) device.Device { return device.NewCPU(k) }, openCUDA)
}

// newOn returns an engine on the device that open makes for the kernels, and on the GPUs that the opener finds.
func newOn(o Options, open func(cpu.Kernels) device.Device, gpus opener) (*Engine, error) {
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
	budget := o.Cores
	if budget == nil {
		budget = cores.New(cores.Available())
	}
	threads := budget.Size()
	if o.Threads > 0 {
		threads = min(o.Threads, threads) // more threads than cores would only wait for each other
	}
	if o.MemLimit == 0 {
		o.MemLimit = DefaultMemLimit
	}
	e := &Engine{
		r: device.Resources{
			Device: open(k), Host: k, Pool: &workers.Pool{Budget: budget, Threads: threads},
			MemLimit: o.MemLimit, TileRows: o.TileRows, Report: o.Progress,
		},
		tune: statistics.DefaultTuning(),
	}
	if name == "" {
		reason = bestReason(k)
	}
	asked := o.Device
	if asked == "" {
		asked = os.Getenv(EnvDevice)
	}
	if e.gpus, err = newGPUs(o, asked, &e.r, gpus); err != nil {
		return nil, err
	}
	e.choice = Choice{
		ISA:     k.ISA().String(),
		Device:  e.r.Describe().Name,
		Kernel:  e.r.Describe().Kernel,
		Threads: threads,
		Reason:  reason,
	}
	return e, nil
}

// Close releases the GPUs, if any, including the memory of prepared sets on them, which must be closed first.
// Operations that are running fail; later ones run on the CPU. A second call does nothing.
func (e *Engine) Close() error {
	if e.gpus == nil {
		return nil
	}
	return e.gpus.close()
}

// Describe returns what the engine runs on. A GPU is included only after one was looked for.
func (e *Engine) Describe() Choice {
	c := e.choice
	if e.gpus == nil {
		c.Reason += "; " + e.r.Costs.Absent
		return c
	}
	switch s := e.gpus.now.Load(); {
	case s == nil:
		c.Reason += "; CPU: " + e.r.Costs.Absent
	case s.gpu == nil:
		c.Reason += "; CPU: " + s.cpu.Costs.Absent
	default:
		c.Device = s.on.Describe().Name
		if !e.gpus.forced {
			c.Device = "auto: " + e.choice.Device + " or " + c.Device
		}
		c.Reason += "; " + s.costs.String()
		if tiles := s.on.Describe().Tiles; tiles != "" {
			c.Reason += "; tiles of tensor cores: " + tiles
		}
	}
	return c
}

// Costs looks for a GPU and returns the figures by which operations choose. If there is no GPU, or the CPU was
// requested, it returns ErrDevice with the reason.
func (e *Engine) Costs(ctx context.Context) (DeviceCosts, error) {
	if e.gpus == nil {
		return DeviceCosts{}, fmt.Errorf("engine: %w: the CPU was asked for", ErrDevice)
	}
	s := e.gpus.look(ctx)
	if s.err != nil {
		return DeviceCosts{}, fmt.Errorf("engine: %w: %w", ErrDevice, s.err)
	}
	return s.costs, nil
}

func bestReason(k cpu.Kernels) string {
	if k.ISA() == cpu.Go {
		return "built without the C kernels (they need cgo, on amd64 or arm64): the Go reference runs, same results, " +
			"slower"
	}
	var also []string
	for _, isa := range cpu.Available()[1:] {
		also = append(also, isa.String())
	}
	return "best instruction set of this CPU (also here: " + strings.Join(also, ", ") + ")"
}

// Parallel runs fn for the tasks 0, 1, … tasks−1 on the engine's threads, within the CPU budget: for work that an
// adapter does around an operation. Tasks should take 0.1 to 10 ms. It returns the error of the lowest failing task,
// after all goroutines have ended.
func (e *Engine) Parallel(ctx context.Context, tasks int, fn func(task int) error) error {
	return e.r.Pool.Each(ctx, tasks, 0, func(_, task int) error { return fn(task) })
}

// DTypes returns the types that BoundedMatrix supports on this engine's device; if no GPU was requested, those of the
// CPU.
func (e *Engine) DTypes() []kernels.DType {
	d := e.r.Device
	if e.gpus != nil && e.gpus.forced {
		d = e.gpus.now.Load().cpuOrGPU()
	}
	var has []kernels.DType
	for t := kernels.F32; t < kernels.DTypes; t++ {
		if d.Has(t) {
			has = append(has, t)
		}
	}
	return has
}
