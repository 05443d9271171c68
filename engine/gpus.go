package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/device/gpu"
	"github.com/sluice-rag/sluice/engine/internal/index"
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
	if s := g.now.Load(); s != nil {
		return s
	}
	cpu := *g.cpu
	s := &gpuState{cpu: &cpu, close: func() error { return nil }}
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
	r := *g.cpu
	r.Device, r.Costs, s.gpu = s.on, s.cpu.Costs, &r
	g.log.Info("GPU is ready", "device", d.Describe().Name, "costs", s.costs.String())
	return nil
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

// openCUDA opens NVIDIA GPUs by their ordinals, all there are for nil, as one device.
func openCUDA(ordinals []int, memory int64, host cpu.Kernels) (d device.Device, key string, end func() error,
	err error) {
	if ordinals == nil {
		infos, err := cuda.Devices()
		if err != nil {
			return nil, "", nil, err
		}
		for _, info := range infos {
			ordinals = append(ordinals, info.Ordinal)
		}
	}
	var opened []*cuda.Device
	end = func() (err error) {
		for _, g := range opened {
			err = errors.Join(err, g.Close())
		}
		return err
	}
	var all []device.Device
	for _, n := range ordinals {
		g, err := cuda.Open(cuda.Options{Ordinal: n, MemoryLimit: memory})
		if err != nil {
			return nil, "", nil, errors.Join(fmt.Errorf("cuda:%d: %w", n, err), end())
		}
		opened = append(opened, g)
		one, err := gpu.New(g, host)
		if err != nil {
			return nil, "", nil, errors.Join(fmt.Errorf("cuda:%d: %w", n, err), end())
		}
		info := g.Info()
		name := "cuda:" + strconv.Itoa(n) + " (" + info.Name + ")"
		key += fmt.Sprintf("%s, %d MiB, capability %d.%d, driver %s; ", name, info.Memory>>20, info.Capability[0],
			info.Capability[1], info.Driver)
		all = append(all, device.Named(one, name))
	}
	if len(all) == 1 {
		return all[0], key, end, nil
	}
	return device.NewSeveral(all), key, end, nil
}

// part holds rows of a prepared set that were added together. Devices keep copies and packed forms of parts, so that
// after rows were appended or deleted the other rows are not sent again.
type part struct {
	rows  cpu.Rows
	first int // number of the first row
	kept  *device.Kept

	once    sync.Once
	largest float64 // largest norm
}

// part returns the part of the snapshot that has these rows, or a new one. m may be nil.
func (m *snapshot) part(g index.Group, limit int64) *part {
	if m != nil {
		for _, p := range m.parts {
			if p.first == g.Begin && p.rows.N == g.N && &p.rows.Data[0] == &g.Data[0] {
				return p
			}
		}
	}
	return &part{rows: g.Rows, first: g.Begin, kept: device.NewKept(limit)}
}

// bytes returns the memory kept for the rows on one device, or on all (nil).
func (m *snapshot) bytes(on device.Device) (bytes int64) {
	kept := []*device.Kept{m.kept}
	for _, p := range m.parts {
		if p.kept != m.kept {
			kept = append(kept, p.kept)
		}
	}
	for _, k := range kept {
		if on == nil {
			bytes += k.Bytes()
		} else {
			bytes += k.Bytes(on)
		}
	}
	return bytes
}

// onGPU returns the bytes kept in the memory of each GPU.
func (m *snapshot) onGPU() int64 {
	if on := m.set.e.gpu(); on != nil {
		return m.bytes(on)
	}
	return 0
}

// holds reports whether a device has all rows.
func (m *snapshot) holds(on device.Device) bool {
	return len(m.parts) > 0 && (m.kept.Bytes(on) > 0 ||
		!slices.ContainsFunc(m.parts, func(p *part) bool { return p.kept.Bytes(on) == 0 }))
}

// searched returns the parts in the form that a search on a device takes.
func (m *snapshot) searched() []search.Part {
	out := make([]search.Part, len(m.parts))
	for i, p := range m.parts {
		p.once.Do(func() { p.largest = slices.Max(p.rows.Norms) })
		out[i] = search.Part{Operand: device.Operand{Rows: p.rows, Name: "contexts", Ready: true, Kept: p.kept},
			First: p.first, Largest: p.largest}
	}
	return out
}

// gpu returns the GPUs as one device; nil if there is no GPU or none was looked for yet.
func (e *Engine) gpu() device.Device {
	if e.gpus == nil {
		return nil
	}
	if s := e.gpus.now.Load(); s != nil && s.gpu != nil {
		return s.on
	}
	return nil
}

// choiceFor returns what a search for one query would run on, and why.
func (e *Engine) choiceFor(m *snapshot) string {
	costs, has := e.r.Costs, device.Residency{Indexed: m.x.Coded()}
	shape := device.Shape{A: 1, B: m.size, Dim: m.dim}
	if e.gpus != nil {
		if s := e.gpus.now.Load(); s != nil {
			costs = s.cpu.Costs
			if s.gpu != nil {
				if e.gpus.forced {
					return device.Because("GPU: asked for by the options").String()
				}
				has.B, shape.DType = m.holds(s.on), search.Format(s.on)
			}
		}
	}
	_, why := device.Choose(device.OpTopK, shape, has, costs)
	return why.String()
}

// rent adds up the time that searches of a set would have saved on a GPU that does not hold it. It tells when this
// exceeds the time of copying the rows there.
type rent struct{ nanoseconds atomic.Int64 }

func (r *rent) due(saved, transfer float64) bool {
	return saved > 0 && r.nanoseconds.Add(int64(saved*1e9)) > int64(transfer*1e9)
}
