package device

import (
	"fmt"
	"time"

	"github.com/sluice-rag/sluice/kernels"
)

// Op is an operation of the engine, as far as the choice of a device is concerned.
type Op uint8

const (
	OpMatrix Op = iota // tiles that are stored
	OpScores           // canonical scores that are stored
	OpTopK             // also Max and AnyAbove, whose set of queries is one
	OpDistribution
)

// Shape is the size of an operation: rows of both sets (queries and contexts, or A and B) and their dimension.
type Shape struct {
	A, B, Dim int
	DType     kernels.DType // that tiles are multiplied in
}

// Residency says what is prepared: rows that lie in the GPU's memory, and an index of B on the CPU.
type Residency struct {
	A, B    bool
	Indexed bool
}

// Costs are measured figures of the machine; a part of it that is not there has none.
type Costs struct {
	CPU    Rates
	GPU    *GPU   // nil: there is none
	Absent string // why there is none
}

// Rates of a processor.
type Rates struct {
	Tiles  [kernels.DTypes]float64 // multiply-adds per second by format; 0: the device lacks it
	Scores float64                 // multiply-adds per second of canonical scores
	Read   float64                 // bytes per second from its memory
	// Indexed is what a search in an index stands for: rows × queries × dimension per second, of those it need not
	// read, too.
	Indexed float64
}

// GPU is what a GPU costs besides its rates.
type GPU struct {
	Rates
	Name     string
	Transfer float64 // bytes per second between the process's memory and the GPU's
	Launch   float64 // seconds from a call to the begin of its work, and back
	Memory   int64   // bytes for sets and copies
}

// Backend is what an operation runs on.
type Backend uint8

const (
	OnCPU Backend = iota
	OnGPU
)

// Reason says why an operation runs where it does. String is what users read.
type Reason struct {
	backend  Backend
	name     string // of the GPU
	without  string // what speaks against the GPU at once
	cpu, gpu float64
	transfer float64 // seconds of it
	sent     int64   // bytes
	parts    int64
	indexed  bool
}

// String is one line: the device that was chosen, and the estimates of both.
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

// Saved is how many seconds sooner the GPU is done than the CPU; negative where it is later.
func (r Reason) Saved() float64 { return r.cpu - r.gpu }

// Transfer is how many seconds the copies to and fro take.
func (r Reason) Transfer() float64 { return r.transfer }

// Choose says what an operation should run on, and why. It is a function of its arguments only: the same figures
// give the same choice.
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

// rate is that of the operation's multiply-adds.
func (r *Rates) rate(op Op, t kernels.DType) float64 {
	if op == OpScores {
		return r.Scores
	}
	return r.Tiles[t]
}

// onCPU estimates seconds. A search without an index computes canonical scores.
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

// rowBytes is the size of some rows.
func rowBytes(rows int, s Shape) int64 { return 4 * int64(rows) * int64(s.Dim) }

// onGPU estimates seconds, and the bytes that are sent. What does not fit the GPU's memory goes there in parts of A,
// with all of B for each.
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

// searchLaunches are the calls that a search makes besides those that multiply.
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

// Because is a reason in words.
func Because(text string) Reason { return Reason{without: text} }
