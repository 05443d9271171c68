package gpu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/bench/harness"
	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
)

// ErrOption is returned for an invalid option.
var ErrOption = errors.New("bench gpu")

// The workloads.
const (
	Distribution = "distribution" // brackets, maxima and five quantiles of contexts × queries, never stored
	Matrix       = "matrix"       // contexts × queries, stored in the process's memory
	Search       = "search"       // the ten nearest contexts for 1, 8, 64 and 512 queries
	Interval     = "interval"     // distribution without canonical scores, quantiles as [low, high], on the GPU only
	Pairs        = "pairs"        // distribution, exact, on the GPU only
	Fused        = "fused"        // distribution in bfloat16, bounded; cuBLASLt's peer product is stored
	Decision     = "decision"     // whether any context is above a cut-off that none reaches, for 1 and 8 queries
)

// Workloads returns the names of all workloads.
func Workloads() []string {
	return []string{Distribution, Matrix, Search, Decision, Fused, Interval, Pairs}
}

// Options of Run.
type Options struct {
	Workloads []string
	Contexts  []int // numbers of rows, one after the other
	Queries   int   // of distributions and matrices
	Dims      []int
	Rounds    int
	Threads   int
	Device    string   // "cuda", "cuda:1"
	CuBLASLt  string   // path of libcublasLt; "": the cache of the set-up, or the system's
	Peers     []string // of Peers(); nil: none
	Python    string   // interpreter with the peers' packages; "": python3
	Log, Note func(string)
	Row       func(Row)
	// Keep is called after each workload with what there is, so that it outlives a run that ends early; nil: not kept.
	Keep func(*Report) error
}

// Row is one operation on one device.
type Row struct {
	Workload string `json:"workload"`
	Impl     string `json:"impl,omitempty"`   // "": Sluice
	Format   string `json:"format,omitempty"` // of tiles; "": the engine's choice
	Device   string `json:"device"`           // "cpu" or "gpu"
	// State is "warm" if the contexts are in the GPU's memory, "cold" if everything is sent in each call.
	State    string  `json:"state"`
	Contexts int     `json:"contexts"`
	Queries  int     `json:"queries"`
	Dim      int     `json:"dim"`
	Median   float64 `json:"median_seconds"`
	Minimum  float64 `json:"minimum_seconds"`
	// TFLOPs counts two operations per multiply-add over all pairs, in 10¹² per second, from the median.
	TFLOPs float64 `json:"tflops"`
	// OfTiles is the share of the rate at which the device multiplies tiles of the format, as measured in this run; 0
	// if the format is the engine's choice.
	OfTiles float64 `json:"of_tiles,omitempty"`
	// Bytes that the operation copies to the GPU and back, and the time that this takes at the measured copy rate.
	Bytes       int64   `json:"bytes,omitempty"`
	CopySeconds float64 `json:"copy_seconds,omitempty"`
	Speedup     float64 `json:"speedup,omitempty"` // CPU's median ÷ this one
	// ReadBytes is the least that a scan reads. OfRead is the time that this takes at the measured rate of reading
	// sets, as a share of the median. Survivors counts rows that needed their canonical score.
	ReadBytes int64   `json:"read_bytes,omitempty"`
	OfRead    float64 `json:"of_read,omitempty"`
	Survivors int64   `json:"survivors,omitempty"`
	// OfCopy is the same at the rate of copies within the GPU's memory, and OfGEMM the share of cuBLASLt's rate.
	OfCopy float64 `json:"of_copy,omitempty"`
	OfGEMM float64 `json:"of_gemm,omitempty"`
	// Same reports whether exact results have the same bits as the CPU's, and bounded ones lie within both bounds.
	Same bool `json:"same"`
}

// Report is the result of a run.
type Report struct {
	Time    time.Time          `json:"time"`
	System  string             `json:"system"`
	Version string             `json:"version"`
	CPU     string             `json:"cpu"`
	Threads int                `json:"threads"`
	GPU     string             `json:"gpu"`
	StandIn bool               `json:"stand_in"` // the driver is a stand-in: the times are meaningless
	Costs   engine.DeviceCosts `json:"costs"`
	// CopyRate is the bytes read and written per second by copies within a GPU's memory.
	CopyRate float64           `json:"copy_rate"`
	Versions map[string]string `json:"versions,omitempty"` // of peers
	Rows     []Row             `json:"rows"`
	Break    []BreakEven       `json:"break_even"`
	Notes    []string          `json:"notes,omitempty"`
	options  Options
	cpu, gpu *engine.Engine
	device   *cuda.Device
	gemm     *gemm // nil: not installed
	peers    []*peer
	folder   string // for the peers' programs and vectors
}

// BreakEven is the least number of concurrent queries from which the GPU searches a set faster.
type BreakEven struct {
	Contexts int    `json:"contexts"`
	Dim      int    `json:"dim"`
	State    string `json:"state"`
	Queries  int    `json:"queries"` // 0: not measured
}

// Run runs the workloads. If there is no GPU, it returns engine.ErrDevice with the reason.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	r := &Report{Time: harness.Now(), System: harness.System(), Version: harness.Version(), CPU: harness.Processor(),
		options: o}
	var err error
	if r.Threads, err = harness.Threads(o.Threads); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOption, err)
	}
	if r.cpu, err = engine.New(engine.Options{Threads: o.Threads, Device: "cpu"}); err != nil {
		return nil, err
	}
	defer r.cpu.Close()
	if r.gpu, err = engine.New(engine.Options{Threads: o.Threads, Device: o.Device}); err != nil {
		return nil, err
	}
	defer r.gpu.Close()
	if r.Costs, err = r.gpu.Costs(ctx); err != nil {
		return nil, err
	}
	r.describe()
	if r.device, err = cuda.Open(cuda.Options{Ordinal: ordinal(o.Device), Staging: staging}); err != nil {
		return nil, err
	}
	defer r.device.Close()
	if r.CopyRate, err = copyRate(r.device); err != nil {
		return nil, err
	}
	defer r.closePeers()
	if err := r.openPeers(ctx); err != nil {
		return nil, err
	}
	for _, dim := range o.Dims {
		for _, n := range o.Contexts {
			if err := r.size(ctx, n, dim); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

func (o *Options) check() error {
	err := errors.Join(harness.Known("workload", o.Workloads, Workloads()), harness.Known("peer", o.Peers, Peers()))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOption, err)
	}
	for _, n := range slices.Concat(o.Contexts, o.Dims, []int{o.Queries, o.Rounds}) {
		if n < 1 {
			return fmt.Errorf("%w: sizes and rounds must be at least 1, given %d", ErrOption, n)
		}
	}
	return nil
}

// size runs the workloads on n contexts.
func (r *Report) size(ctx context.Context, n, dim int) error {
	o := r.options
	harness.Say(o.Log, "%d contexts of dimension %d", n, dim)
	contexts, err := r.vectors(ctx, n, dim, 1)
	if err != nil {
		return err
	}
	queries, err := r.vectors(ctx, max(o.Queries, slices.Max(batches)), dim, 2)
	if err != nil {
		return err
	}
	for _, w := range o.Workloads {
		switch w {
		case Distribution:
			err = r.distributions(ctx, contexts, head(queries, o.Queries))
		case Matrix:
			err = r.matrices(ctx, contexts, head(queries, o.Queries))
		case Search:
			err = r.searches(ctx, contexts, queries)
		case Interval, Pairs:
			err = r.alone(ctx, w == Interval, contexts, head(queries, o.Queries))
		case Decision:
			err = r.decisions(ctx, contexts, queries)
		case Fused:
			err = r.fused(ctx, contexts, head(queries, o.Queries))
		}
		if err != nil {
			return fmt.Errorf("%s of %d contexts, dimension %d: %w", w, n, dim, err)
		}
		if o.Keep != nil {
			if err := o.Keep(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func head(v engine.Vectors, rows int) engine.Vectors {
	v.Data, v.Rows = v.Data[:rows*v.Dim], rows
	return v
}

// vectors returns random directions around a common one. Their variances decrease as along the principal axes of
// sentence embeddings: to a tenth after a third of the coordinates.
func (r *Report) vectors(ctx context.Context, n, dim int, seed uint64) (engine.Vectors, error) {
	v := engine.Vectors{Data: make([]float32, n*dim), Rows: n, Dim: dim}
	const rows = 1024
	err := r.cpu.Parallel(ctx, (n+rows-1)/rows, func(task int) error {
		rng := rand.New(rand.NewPCG(seed, uint64(task)))
		for i := task * rows; i < min(n, (task+1)*rows); i++ {
			row := v.Data[i*dim : (i+1)*dim]
			for j := range row {
				row[j] = float32(rng.NormFloat64() / math.Sqrt(1+27*float64(j)/float64(dim)))
			}
			row[0] += float32(.15 * math.Sqrt(float64(dim)))
		}
		return nil
	})
	return v, err
}

// side is an operation on one device; the results of the sides are compared.
type side struct {
	row Row
	do  func() (any, error)
}

// turns runs all sides alternately and reports them; the first is the CPU's.
func (r *Report) turns(ctx context.Context, sides []side, same func(cpu, gpu any) bool) error {
	times, found := make([][]float64, len(sides)), make([]any, len(sides))
	for round := range r.options.Rounds + 1 { // the first is a warm-up and not counted
		for i, s := range sides {
			if err := ctx.Err(); err != nil {
				return err
			}
			begun := time.Now()
			got, err := s.do()
			if err != nil {
				return err
			}
			took := time.Since(begun).Seconds()
			if own, ok := got.(interface{ seconds() float64 }); ok {
				took = own.seconds()
			}
			if found[i] = got; round > 0 {
				times[i] = append(times[i], took)
			}
		}
	}
	for i, s := range sides {
		row := s.row
		slices.Sort(times[i])
		row.Minimum, row.Median = harness.Digits(times[i][0]), times[i][len(times[i])/2]
		work := 2 * float64(row.Contexts) * float64(row.Queries) * float64(row.Dim)
		row.TFLOPs = harness.Digits(work / row.Median / 1e12)
		if rate := r.rate(row); rate > 0 {
			row.OfTiles = harness.Digits(work / 2 / row.Median / rate)
		}
		if counted, ok := found[i].(interface{ survivors() int64 }); ok {
			row.Survivors = counted.survivors()
		}
		if rate := r.Costs.GPU.Read; row.Device == onGPU && rate > 0 {
			row.OfRead = harness.Digits(float64(row.ReadBytes) / rate / row.Median)
		}
		if row.Device == onGPU && r.CopyRate > 0 {
			row.OfCopy = harness.Digits(float64(row.ReadBytes) / r.CopyRate / row.Median)
		}
		if other := sides[len(sides)-1]; other.row.Impl == cublasLt {
			best := times[len(sides)-1]
			row.OfGEMM = harness.Digits(best[len(best)/2] / row.Median)
		}
		if row.Device == onGPU && sides[0].row.Device == onCPU {
			row.Speedup = harness.Digits(times[0][len(times[0])/2] / row.Median)
		}
		if rate := r.Costs.GPU.Transfer; row.Device == onGPU && rate > 0 {
			row.CopySeconds = harness.Digits(float64(row.Bytes) / rate)
		}
		row.Median, row.Same = harness.Digits(row.Median), same(found[0], found[i])
		r.Rows = append(r.Rows, row)
		if r.options.Row != nil {
			r.options.Row(row)
		}
	}
	return nil
}

// The devices of rows.
const (
	onCPU = "cpu"
	onGPU = "gpu"
)

// rate returns the multiply-adds per second of tiles of the row's format on its device; 0 if unknown.
func (r *Report) rate(row Row) float64 {
	if row.Impl != "" {
		return 0
	}
	if row.Device == onGPU {
		return r.Costs.GPU.Tiles[row.Format]
	}
	return r.Costs.CPU.Tiles[row.Format] * float64(r.Threads)
}

// distributions compares formats. The GPU keeps the set of contexts.
func (r *Report) distributions(ctx context.Context, contexts, queries engine.Vectors) error {
	owner := make([]int32, queries.Rows)
	for i := range owner {
		owner[i] = int32(i % contexts.Rows)
	}
	for _, t := range r.formats() {
		if t == kernels.I8 { // leaves too many pairs to canonical scores; see workload interval
			continue
		}
		input := func(c engine.Vectors) engine.DistributionInput {
			return engine.DistributionInput{Contexts: c, Queries: queries, Owner: owner, Metric: kernels.Cosine,
				Quantiles: []float64{.05, .25, .5, .75, .95}, DType: &t}
		}
		err := r.coldAndWarm(ctx, Row{Workload: Distribution, Format: t.String()}, contexts, queries.Rows,
			func(e *engine.Engine, c engine.Vectors) (any, error) { return e.Distribution(ctx, input(c)) },
			func(cpu, gpu any) bool {
				a, b := cpu.(*engine.Distribution), gpu.(*engine.Distribution)
				return cmp.Equal(a.Positive, b.Positive) && cmp.Equal(a.Best, b.Best) &&
					cmp.Equal(a.BestRow, b.BestRow) &&
					cmp.Equal(a.NegativeSummary.Quantiles, b.NegativeSummary.Quantiles)
			})
		if err != nil {
			return err
		}
	}
	return nil
}

// formats returns the formats that both devices support.
func (r *Report) formats() (both []kernels.DType) {
	for t := range kernels.DTypes {
		if r.Costs.GPU.Tiles[t.String()] > 0 && slices.Contains(r.cpu.DTypes(), t) {
			both = append(both, t)
		}
	}
	return both
}

// matrices compares matrices in the process's memory, so that the GPU's results are copied back.
func (r *Report) matrices(ctx context.Context, contexts, queries engine.Vectors) error {
	for _, t := range r.formats() {
		type result struct {
			out   []float32
			bound float64
		}
		err := r.coldAndWarm(ctx, Row{Workload: Matrix, Format: t.String()}, contexts, queries.Rows,
			func(e *engine.Engine, c engine.Vectors) (any, error) {
				out := make([]float32, queries.Rows*c.Rows)
				bound, err := e.BoundedMatrix(ctx, out, c.Rows, queries, c, kernels.Cosine, t)
				return result{out, bound}, err
			},
			func(cpu, gpu any) bool {
				a, b := cpu.(result), gpu.(result)
				for i, x := range a.out {
					if !(math.Abs(float64(x)-float64(b.out[i])) <= a.bound+b.bound) {
						return false
					}
				}
				return true
			})
		if err != nil {
			return err
		}
	}
	return nil
}

// neighbours is the number of neighbours searched for each query.
const neighbours = 10

// batches lists the numbers of queries of one search.
var batches = []int{1, 8, 64, 512}

func (r *Report) searches(ctx context.Context, contexts, queries engine.Vectors) error {
	if err := r.preparePeers(ctx, contexts, queries); err != nil {
		return err
	}
	from := map[string]int{}
	for _, n := range batches {
		q := head(queries, n)
		before := len(r.Rows)
		err := r.coldAndWarm(ctx, Row{Workload: Search}, contexts, n,
			func(e *engine.Engine, c engine.Vectors) (any, error) {
				return e.TopK(ctx, q, c, kernels.Cosine, neighbours, nil)
			},
			sameHits, r.peerSides(ctx, contexts, n)...)
		if err != nil {
			return err
		}
		for _, row := range r.Rows[before:] {
			if row.Device == onGPU && row.Impl == "" && row.Speedup > 1 && from[row.State] == 0 {
				from[row.State] = n
			}
		}
	}
	for _, state := range []string{cold, warm} {
		r.Break = append(r.Break, BreakEven{Contexts: contexts.Rows, Dim: contexts.Dim, State: state,
			Queries: from[state]})
	}
	return nil
}

// The states of rows.
const (
	cold = "cold"
	warm = "warm"
)

// coldAndWarm runs an operation on the CPU with a prepared set, and on the GPU with the contexts sent in each call and
// with a prepared set. The CPU's set has an index, which its searches use.
func (r *Report) coldAndWarm(ctx context.Context, row Row, contexts engine.Vectors, queries int,
	do func(e *engine.Engine, contexts engine.Vectors) (any, error), same func(cpu, gpu any) bool,
	peers ...side) error {
	row.Contexts, row.Queries, row.Dim = contexts.Rows, queries, contexts.Dim
	onCPUSet, err := r.cpu.Prepare(ctx, contexts, kernels.Cosine, engine.SetOptions{NoIndex: row.Workload != Search})
	if err != nil {
		return err
	}
	defer onCPUSet.Close()
	onGPUSet, err := r.gpu.Prepare(ctx, contexts, kernels.Cosine, engine.SetOptions{NoIndex: true})
	if err != nil {
		return err
	}
	defer onGPUSet.Close()
	width := int64(4*row.Dim + 8)
	results := 16 * int64(queries)
	if row.Workload == Matrix {
		results = 4 * int64(queries) * int64(contexts.Rows)
	}
	as := func(device, state string, bytes int64) Row {
		x := row
		x.Device, x.State, x.Bytes = device, state, bytes
		return x
	}
	return r.turns(ctx, append([]side{
		{as(onCPU, warm, 0), func() (any, error) { return do(r.cpu, onCPUSet.Vectors()) }},
		{as(onGPU, cold, int64(contexts.Rows+queries)*width+results),
			func() (any, error) { return do(r.gpu, contexts) }},
		{as(onGPU, warm, int64(queries)*width+results), func() (any, error) { return do(r.gpu, onGPUSet.Vectors()) }},
	}, peers...), same)
}
