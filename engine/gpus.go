package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/search"
	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// ErrDevice is wrapped if Options.Device is not the name of a device or names one that is not present. The reason is
// wrapped as well (cuda.ErrUnavailable).
var ErrDevice = errors.New("the device cannot be used")

// EnvDevice is the environment variable that is read if Options.Device is "".
const EnvDevice = "SLUICE_DEVICE"

// Names of devices. DeviceCUDA stands for all NVIDIA GPUs; "cuda:1" is the second one.
const (
	DeviceAuto = "auto"
	DeviceCPU  = "cpu"
	DeviceCUDA = "cuda"
)

// gpus holds the GPUs of an engine. They are opened when they are requested or when an operation is large enough.
type gpus struct {
	forced   bool  // a GPU was requested: every operation that it supports runs there
	ordinals []int // ordinals of the GPUs in use; nil: all
	memory   int64 // limit for each GPU in bytes; 0: all of its free memory
	open     opener
	log      *slog.Logger
	cpu      *device.Resources // of the engine

	asked   atomic.Int64  // multiply-adds of all operations until a GPU was first looked for
	indexed atomic.Uint64 // math.Float64bits of Rates.Indexed as measured by searches
	now     atomic.Pointer[gpuState]
	mu      sync.Mutex
	opening chan struct{} // closed when opening in the background has finished
	closed  bool
}

// gpuState is the result of looking for GPUs. It is immutable.
type gpuState struct {
	err   error // the reason if there is no GPU
	cpu   *device.Resources
	gpu   *device.Resources // nil if there is no GPU
	on    *device.Shared
	costs DeviceCosts
	close func() error
}

// opener opens GPUs as one device. key identifies everything that the costs depend on: machine, driver and kernels.
type opener func(ordinals []int, memory int64, host cpu.Kernels) (d device.Device, key string, close func() error,
	err error)

// Operation sizes, in multiply-adds, from which automatic choice looks for a GPU.
const (
	lookWork = 8e9  // all operations so far: about 20 ms of CPU time
	waitWork = 1e12 // a single operation: it waits until the GPU is open, while smaller ones run on the CPU
	budget   = 280 * time.Millisecond
)

// parseDevice parses Options.Device. ordinals is nil if the name stands for all GPUs.
func parseDevice(name string) (cpuOnly, forced bool, ordinals []int, err error) {
	switch name {
	case "", DeviceAuto:
		return false, false, nil, nil
	case DeviceCPU:
		return true, false, nil, nil
	case DeviceCUDA:
		return false, true, nil, nil
	}
	if number, ok := strings.CutPrefix(name, DeviceCUDA+":"); ok {
		if n, err := strconv.ParseUint(number, 10, 16); err == nil {
			return false, true, []int{int(n)}, nil
		}
	}
	return false, false, nil, fmt.Errorf("engine: device %q: %w: %w: auto, cpu, cuda or cuda:N are expected", name,
		ErrDevice, kernels.ErrArgument)
}

// newGPUs reads the options. It returns nil if all operations run on the CPU.
func newGPUs(o Options, name string, r *device.Resources, open opener) (*gpus, error) {
	cpuOnly, forced, ordinals, err := parseDevice(name)
	if err != nil || cpuOnly {
		r.Costs.Absent = "asked for by the options"
		return nil, err
	}
	if o.DeviceMemory < 0 {
		return nil, fmt.Errorf("engine: device memory: %w: %d bytes", kernels.ErrArgument, o.DeviceMemory)
	}
	g := &gpus{forced: forced, ordinals: ordinals, memory: o.DeviceMemory, open: open, log: o.Logger, cpu: r}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	r.Costs.Absent = "there was too little to compute to look for a GPU"
	if !forced {
		return g, nil
	}
	if s := g.look(context.Background()); s.err != nil {
		return nil, fmt.Errorf("engine: device %q: %w: %w", name, ErrDevice, s.err)
	}
	return g, nil
}

// look opens the GPUs and determines their costs, unless this has been done already.
func (g *gpus) look(ctx context.Context) *gpuState {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lookLocked(ctx)
}

func (g *gpus) lookLocked(ctx context.Context) *gpuState {
	if s := g.now.Load(); s != nil {
		return s
	}
	s := &gpuState{cpu: g.copyOfCPU(), close: func() error { return nil }}
	if g.closed {
		s.err = fmt.Errorf("%w: the engine is closed", ErrDevice)
	} else {
		s.err = panics.Call(func() error { return g.start(ctx, s) })
	}
	if s.err != nil {
		s.cpu.Costs = device.Costs{CPU: s.cpu.Costs.CPU, Absent: "no GPU: " + s.err.Error()}
		if ctx.Err() != nil {
			return s // the next operation looks again
		}
		g.log.Debug("no GPU is used", "reason", s.err)
	}
	g.now.Store(s)
	return s
}

// start opens the GPUs and stores the result in s.
func (g *gpus) start(ctx context.Context, s *gpuState) error {
	d, key, end, err := g.open(g.ordinals, g.memory, g.cpu.Host)
	if err != nil {
		return err
	}
	s.costs, err = measured(ctx, key, d, g.cpu)
	if err != nil {
		return errors.Join(err, end())
	}
	s.close, s.on = end, device.Share(d)
	s.cpu.Costs = s.costs.costs(d.Describe())
	s.gpu = g.copyOfCPU()
	s.gpu.Device, s.gpu.Costs = s.on, s.cpu.Costs
	g.log.Info("GPU is ready", "device", d.Describe().Name, "costs", s.costs.String())
	return nil
}

func (g *gpus) copyOfCPU() *device.Resources {
	r := *g.cpu
	return &r
}

// close closes the GPUs. Running operations fail; later ones run on the CPU.
func (g *gpus) close() error {
	g.mu.Lock()
	opening := g.opening
	g.closed = true
	g.mu.Unlock()
	if opening != nil {
		<-opening
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.now.Load()
	if s == nil || s.gpu == nil {
		return nil
	}
	cpu := *s.cpu
	cpu.Costs = device.Costs{CPU: cpu.Costs.CPU, Absent: "the engine is closed"}
	g.now.Store(&gpuState{err: fmt.Errorf("%w: the engine is closed", ErrDevice), cpu: &cpu, costs: s.costs,
		close: s.close})
	s.on.Evict()
	return s.close()
}

// state returns the GPUs for an operation of work multiply-adds, or nil if the work is too small to look for a GPU.
func (g *gpus) state(ctx context.Context, work float64) *gpuState {
	if s := g.now.Load(); s != nil {
		return s
	}
	asked := g.asked.Add(int64(min(work, math.MaxInt64/4)))
	switch {
	case work >= waitWork:
		return g.look(ctx)
	case float64(asked) < lookWork || !g.mu.TryLock():
		return nil
	}
	defer g.mu.Unlock()
	if g.opening == nil && !g.closed {
		done := make(chan struct{})
		g.opening = done
		go func() {
			defer close(done)
			g.look(context.Background())
		}()
	}
	return nil
}

// task describes an operation for the choice of its device.
type task struct {
	op    device.Op
	shape device.Shape
	fixed bool    // shape.DType was requested by the caller
	a, b  Vectors // the operands, which tell which rows are on the device already
}

// on returns the device that t runs on.
func (e *Engine) on(ctx context.Context, t *task) *device.Resources {
	g := e.gpus
	if g == nil {
		return &e.r
	}
	s := g.state(ctx, float64(t.shape.A)*float64(t.shape.B)*float64(t.shape.Dim))
	switch {
	case s == nil:
		return &e.r
	case s.gpu == nil:
		return s.cpu
	}
	backend, why := g.choose(s, t)
	r := *s.cpu
	if backend == device.OnGPU {
		r = *s.gpu
	}
	r.Why = &why
	return &r
}

// choose returns the device for t when a GPU is available.
func (g *gpus) choose(s *gpuState, t *task) (device.Backend, device.Reason) {
	if g.forced {
		return device.OnGPU, device.Because("GPU: asked for by the options")
	}
	shape, costs := t.shape, s.cpu.Costs
	switch {
	case t.op == device.OpTopK:
		shape.DType = search.Format(s.on)
	case !t.fixed:
		shape.DType = s.gpu.Accurate()
	}
	has := device.Residency{A: s.holds(t.a), B: s.holds(t.b)}
	m := snapshotOf(t.b)
	has.Indexed = m != nil && m.x.Coded()
	if rate := math.Float64frombits(g.indexed.Load()); rate > 0 {
		costs.CPU.Indexed = rate
	}
	backend, why := device.Choose(t.op, shape, has, costs)
	if backend == device.OnGPU || t.op != device.OpTopK || m == nil || has.B || costs.GPU == nil {
		return backend, why
	}
	// Searches tend to repeat: the rows are copied once the searches so far would have saved as much time as the copy
	// takes.
	has.B = true
	resident, there := device.Choose(t.op, shape, has, costs)
	fits := device.CopyBytes(m.size, m.dim) < costs.GPU.Memory/2
	if resident == device.OnGPU && fits && m.set.rent.due(there.Saved(), why.Transfer()) {
		return device.OnGPU,
			device.Because("GPU: searches of this set so far would have been done sooner there by more " +
				"than bringing its rows there takes")
	}
	return backend, why
}

// searchedOnCPU records how long an index took for the given number of queries, for later choices.
func (e *Engine) searchedOnCPU(queries int, v Vectors, begun time.Time) {
	const share = .1 // weight of the newest measurement in the running mean
	seconds := max(time.Since(begun).Seconds(), 1e-9)
	rate := float64(queries) * float64(v.Rows) * float64(v.Dim) / seconds
	if before := math.Float64frombits(e.gpus.indexed.Load()); before > 0 {
		rate = before + share*(rate-before)
	}
	e.gpus.indexed.Store(math.Float64bits(rate))
}

// holds reports whether the GPU has a copy of the rows of a prepared set.
func (s *gpuState) holds(v Vectors) bool {
	m := snapshotOf(v)
	return m != nil && m.holds(s.on)
}

// run runs an operation on the chosen device. If the GPU's memory is not sufficient, the operation is repeated with
// less memory and finally on the CPU; the reason says so.
func (e *Engine) run(ctx context.Context, t *task, do func(r *device.Resources) error) error {
	return e.runOn(ctx, e.on(ctx, t), do)
}

// runOn runs do on r, which is the chosen device.
func (e *Engine) runOn(ctx context.Context, r *device.Resources, do func(r *device.Resources) error) error {
	err := do(r)
	if err == nil || r.Device == e.r.Device || !outOfMemory(err) {
		return err
	}
	s := e.gpus.now.Load()
	s.on.Evict()
	memory, begun := r.Describe().Memory, err
	for range memoryTries {
		memory /= memoryStep
		why := device.Because(fmt.Sprintf("GPU: with at most %d bytes of its memory at a time: %v", memory, begun))
		e.gpus.log.Warn("the GPU's memory does not do: smaller tiles", "bytes", memory, "reason", err)
		less := *r
		less.Device, less.Why = device.Limited(r.Device, memory), &why
		if err = do(&less); err == nil || !outOfMemory(err) || ctx.Err() != nil {
			return err
		}
	}
	e.gpus.log.Warn("the GPU's memory does not do: the CPU computes", "reason", begun)
	why := device.Because(fmt.Sprintf("CPU: %v", begun))
	cpu := *s.cpu
	cpu.Why = &why
	return do(&cpu)
}

// An operation that runs out of GPU memory is repeated memoryTries times, each time with 1/memoryStep of the memory,
// before it runs on the CPU.
const (
	memoryTries = 3
	memoryStep  = 8
)

func outOfMemory(err error) bool {
	return errors.Is(err, device.ErrMemory) || errors.Is(err, cuda.ErrMemory) || errors.Is(err, kernels.ErrMemoryLimit)
}

// cpuOrGPU returns the GPU if there is one.
func (s *gpuState) cpuOrGPU() device.Device {
	if s.gpu != nil {
		return s.gpu.Device
	}
	return s.cpu.Device
}
