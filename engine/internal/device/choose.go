package device

import (
	"fmt"
	"time"

	"github.com/sluice-rag/sluice/kernels"
)

// Op is an operation of the engine, as far as the choice of a device is concerned.
type Op uint8

const (
	OpMatrix Op = iota
	OpTopK      // also Max and AnyAbove, whose set of queries is one
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
	CPU Rates
	GPU *GPU // nil: there is none
}

// Rates of a processor.
type Rates struct {
	Tiles [kernels.DTypes]float64 // multiply-adds per second by format; 0: the device lacks it
	Read  float64                 // bytes per second from its memory
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

// Choose says what an operation should run on, and why. It is a function of its arguments only: the same figures
// give the same choice.
func Choose(op Op, s Shape, r Residency, c Costs) (Backend, string) {
	if c.GPU == nil {
		return OnCPU, "this build has no GPU backend"
	}
	g := c.GPU
	if g.Tiles[s.DType] == 0 {
		return OnCPU, fmt.Sprintf("CPU: %s does not multiply in %s", g.Name, s.DType)
	}
	if s.A == 0 || s.B == 0 {
		return OnCPU, "CPU: there is nothing to compute"
	}
	onCPU, how := onCPU(op, s, r, c.CPU)
	onGPU, sent, passes := onGPU(op, s, r, g)
	why := fmt.Sprintf("%s in about %s, of which %s for %d bytes to and fro%s; the CPU%s in about %s",
		g.Name, seconds(onGPU), seconds(float64(sent)/g.Transfer), sent, passes, how, seconds(onCPU))
	if onGPU < onCPU {
		return OnGPU, "GPU: " + why
	}
	return OnCPU, "CPU: " + why
}

// onCPU estimates seconds.
func onCPU(op Op, s Shape, r Residency, c Rates) (t float64, how string) {
	work := float64(s.A) * float64(s.B) * float64(s.Dim)
	rate := c.Tiles[s.DType]
	if rate == 0 {
		rate = c.Tiles[kernels.F32]
	}
	if op == OpTopK && r.Indexed && c.Indexed > rate {
		return work / c.Indexed, " with its index"
	}
	return max(work/rate, float64(rowBytes(s.A, s)+rowBytes(s.B, s))/c.Read), ""
}

// rowBytes is the size of some rows.
func rowBytes(rows int, s Shape) int64 { return 4 * int64(rows) * int64(s.Dim) }

// onGPU estimates seconds, and the bytes that are sent. What does not fit the GPU's memory goes there in parts of A,
// with all of B for each.
func onGPU(op Op, s Shape, r Residency, g *GPU) (t float64, sent int64, passes string) {
	bytesA, bytesB := rowBytes(s.A, s), rowBytes(s.B, s)
	parts, need := int64(1), bytesA+bytesB
	if g.Memory > 0 && need > g.Memory {
		parts = (need + g.Memory - 1) / g.Memory
		r.A, r.B, passes = false, false, fmt.Sprintf(" (in %d parts)", parts)
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
	default:
		sent += result * int64(s.A)
	}
	work := float64(s.A) * float64(s.B) * float64(s.Dim)
	const task = 1e12 // multiply-adds: some milliseconds
	launches := float64(parts) + work/task
	return max(work/g.Tiles[s.DType], float64(need)/g.Read) + float64(sent)/g.Transfer + launches*g.Launch, sent, passes
}

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
