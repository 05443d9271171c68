package device

import (
	"fmt"
	"time"

	"github.com/sluice-rag/sluice/kernels"
)

// Op is an operation of the engine, for the choice of a device.
type Op uint8

const (
	OpMatrix Op = iota // tiles that are stored
	OpScores           // canonical scores that are stored
	OpTopK             // also Max and AnyAbove, each with a single query
	OpDistribution
)

// Shape is the size of an operation: rows of both sets (queries and contexts, or A and B) and their dimension.
type Shape struct {
	A, B, Dim int
	DType     kernels.DType // format in which tiles are multiplied
}

// Residency says what has been prepared: rows in the GPU's memory, and an index of B on the CPU.
type Residency struct {
	A, B    bool
	Indexed bool
}

// Costs holds the measured figures of the machine. Absent hardware has no entry.
type Costs struct {
	CPU    Rates
	GPU    *GPU   // nil if there is no GPU
	Absent string // the reason if there is no GPU
}

// Rates of a processor.
type Rates struct {
	Tiles  [kernels.DTypes]float64 // multiply-adds per second by format; 0: the device lacks it
	Scores float64                 // multiply-adds per second of canonical scores
	Read   float64                 // bytes per second from its memory
	// Indexed is the equivalent rate of a search in an index: rows × queries × dimension per second, including the
	// rows that the index did not have to read.
	Indexed float64
}

// GPU holds the costs of a GPU besides its rates.
type GPU struct {
	Rates
	Name     string
	Transfer float64 // bytes per second between the process's memory and the GPU's
	Launch   float64 // seconds from a call to the start of its work, and back
	Memory   int64   // bytes for sets and copies
}

// Backend is the processor that an operation runs on.
type Backend uint8

const (
	OnCPU Backend = iota
	OnGPU
)

// Reason says why an operation runs where it does. String returns the text for users.
type Reason struct {
	backend  Backend
	name     string // of the GPU
	without  string // why a GPU was ruled out without an estimate
	cpu, gpu float64
	transfer float64 // seconds that copies take
	sent     int64   // bytes that are copied
	parts    int64
	indexed  bool
}

// String returns one line: the chosen device and the estimates for both.
func (r Reason) String() string {
	if r.without != "" {
		return r.without
	}
	chosen, parts, how := "CPU: ", "", ""
	if r.backend == OnGPU {
		chosen = "GPU: "
	}
	if r.parts > 1 {
		parts = fmt.Sprintf(" (in %d parts)", r.parts)
	}
	if r.indexed {
		how = " with its index"
	}
	return fmt.Sprintf("%s%s in about %s, of which %s for %d bytes to and fro%s; the CPU%s in about %s", chosen, r.name,
		seconds(r.gpu), seconds(r.transfer), r.sent, parts, how, seconds(r.cpu))
}

// Saved returns how many seconds earlier the GPU finishes than the CPU; negative if it finishes later.
func (r Reason) Saved() float64 { return r.cpu - r.gpu }

// Transfer returns how many seconds the copies to and from the GPU take.
func (r Reason) Transfer() float64 { return r.transfer }

// Choose returns the device that an operation should run on, and the reason. It depends on its arguments only, so that
// the same figures give the same choice.
func Choose(op Op, s Shape, r Residency, c Costs) (Backend, Reason) {
	g := c.GPU
	switch {
	case g == nil && c.Absent == "":
		return OnCPU, Reason{without: "no GPU is used"}
	case g == nil:
		return OnCPU, Reason{without: "CPU: " + c.Absent}
	case s.A == 0 || s.B == 0:
		return OnCPU, Reason{without: "CPU: there is nothing to compute"}
	case g.rate(op, s.DType) == 0:
		return OnCPU, Reason{without: fmt.Sprintf("CPU: %s does not multiply in %s", g.Name, s.DType)}
	}
	why := Reason{name: g.Name}
	why.cpu, why.indexed = onCPU(op, s, r, c.CPU)
	why.gpu, why.sent, why.parts = onGPU(op, s, r, g)
	why.transfer = float64(why.sent) / g.Transfer
	if why.gpu < why.cpu {
		why.backend = OnGPU
	}
	return why.backend, why
}

// rate returns the multiply-adds per second of the operation.
func (r *Rates) rate(op Op, t kernels.DType) float64 {
	if op == OpScores {
		return r.Scores
	}
	return r.Tiles[t]
}

// onCPU estimates the seconds on the CPU. A search without an index computes canonical scores.
func onCPU(op Op, s Shape, r Residency, c Rates) (t float64, indexed bool) {
	work := float64(s.A) * float64(s.B) * float64(s.Dim)
	rate := c.rate(op, s.DType)
	switch {
	case op == OpTopK && r.Indexed && c.Indexed > 0:
		return work / c.Indexed, true
	case op == OpTopK && c.Scores > 0:
		rate = c.Scores
	case rate == 0:
		rate = c.Tiles[kernels.F32]
	}
	return max(work/rate, float64(rowBytes(s.A, s)+rowBytes(s.B, s))/c.Read), false
}

// rowBytes returns the size of the given number of rows.
func rowBytes(rows int, s Shape) int64 { return 4 * int64(rows) * int64(s.Dim) }

// onGPU estimates the seconds on the GPU and the bytes that are copied. If A does not fit the GPU's memory, it is
// processed in parts, with all of B copied for each.
func onGPU(op Op, s Shape, r Residency, g *GPU) (t float64, sent, parts int64) {
	bytesA, bytesB := rowBytes(s.A, s), rowBytes(s.B, s)
	need := bytesA + bytesB
	if parts = 1; g.Memory > 0 && need > g.Memory {
		parts = (need + g.Memory - 1) / g.Memory
		r.A, r.B = false, false
	}
	if !r.A {
		sent += bytesA
	}
	if !r.B {
		sent += parts * bytesB
	}
	const result = 16 // bytes of a hit or a query's maxima
	switch op {
	case OpMatrix:
		sent += 4 * int64(s.A) * int64(s.B)
	case OpScores:
		sent += 8 * int64(s.A) * int64(s.B)
	default:
		sent += result * int64(s.A)
	}
	work := float64(s.A) * float64(s.B) * float64(s.Dim)
	const task = 1e12 // multiply-adds: some milliseconds
	launches := float64(parts) + work/task
	if op == OpTopK { // a first block, tasks that bring the bar nearer, canonical scores of what is left
		launches += searchLaunches
	}
	t = max(work/g.rate(op, s.DType), float64(need)/g.Read) + float64(sent)/g.Transfer + launches*g.Launch
	return t, sent, parts
}

// searchLaunches is the number of kernel launches of a search besides those that multiply.
const searchLaunches = 8

func seconds(t float64) string {
	switch d := time.Duration(t * float64(time.Second)); {
	case d >= time.Second:
		return d.Round(time.Second / 10).String()
	case d >= time.Millisecond:
		return d.Round(time.Millisecond / 10).String()
	default:
		return d.Round(time.Microsecond).String()
	}
}

// Because returns a reason with the given text.
func Because(text string) Reason { return Reason{without: text} }
