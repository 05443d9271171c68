// Package engine computes over sets of vectors: matrices, top-k, the calibration distributions and
// the gate's threshold decision. It cuts the work into tiles, runs them on goroutines within the
// process's CPU budget (engine/cores) and returns results that are exact: bit-equal to the naive
// algorithm on canonical scores (docs/adr/0001-exactness.md), whatever the tiling, threads or instruction set.
// What is bounded instead says so, and carries its bound.
package engine

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/statistics"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// What operations work on. A set of vectors, biases of rows and a found row belong to the whole project.
type (
	Vectors  = kernels.Vectors
	Biases   = kernels.Biases
	BiasList = kernels.BiasList
	Bias     = kernels.Bias
	RowBlock = kernels.RowBlock
	Hit      = kernels.Hit
)

// Options of an Engine. The zero value is a sensible default.
type Options struct {
	Threads  int                     // goroutines at most; 0 = what Cores grants
	MemLimit int64                   // bytes of scratch memory; 0 = 1 GiB. Less than one tile is kernels.ErrMemoryLimit
	ISA      string                  // "", "scalar", "avx2", "avx512"; "" = $SLUICE_ISA, else the best of the machine
	TileRows int                     // rows per tile, 0 = chosen
	Progress func(done, total int64) // called from one goroutine at a time, in pairs; may be nil
	Cores    *cores.Budget           // the process's CPU budget; nil = one of its own, of cores.Available()

	// Device is what operations run on: "" and "auto" choose for each of them by measured costs, and look for a GPU
	// only when there is enough to compute; "cpu"; "cuda" for all NVIDIA GPUs, "cuda:1" for the second: where that
	// cannot be had, New is ErrDevice. "" is $SLUICE_DEVICE first. No result depends on it.
	Device       string
	DeviceMemory int64        // bytes of each GPU's memory at most; 0 = 90 % of what is free
	Logger       *slog.Logger // told which GPU is used, and where its memory does not do; nil: nobody
}

// Interface is what the rest of Sluice uses of an engine; *Engine implements it. Wherever vectors are asked for, those
// of a prepared set (Engine.Prepare, Set.Vectors) do as well.
type Interface interface {
	// Matrix writes S[i*B.Rows+j] = score(A_i, B_j), rounded to float32, to out (len A.Rows*B.Rows).
	// A product beyond float32 becomes ±Inf. After an error, out holds nothing of use.
	Matrix(ctx context.Context, out []float32, a, b Vectors, metric kernels.Metric) error
	// TopK returns for each row of q the k ≥ 1 best rows of c, better first, then lower row. bias is
	// nil or has the biases of each query. Fewer than k rows give fewer hits.
	TopK(ctx context.Context, q, c Vectors, metric kernels.Metric, k int, bias []Biases) ([][]Hit, error)
	// Distribution computes D+, D− and the maximum distribution; it never holds all pairs.
	Distribution(ctx context.Context, in DistributionInput) (*Distribution, error)
	// Max returns the best row of c for one query; ok is false when c is empty.
	Max(ctx context.Context, q []float32, c Vectors, metric kernels.Metric, bias Biases) (best Hit, ok bool, err error)
	// AnyAbove reports whether any row's biased score is strictly better than tau, with a witness: any
	// such row (this version takes the lowest). It stops at the witness, so what lies behind it is
	// neither read nor checked. Without one the witness is {−1, Worst()}.
	AnyAbove(ctx context.Context, q []float32, c Vectors, metric kernels.Metric, bias Biases, tau float64) (witness Hit,
		above bool, err error)
}

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
		if s := e.gpus.now.Load(); s.gpu != nil {
			d = s.gpu.Device
		} else {
			d = s.cpu.Device
		}
	}
	var has []kernels.DType
	for t := kernels.F32; t < kernels.DTypes; t++ {
		if d.Has(t) {
			has = append(has, t)
		}
	}
	return has
}
