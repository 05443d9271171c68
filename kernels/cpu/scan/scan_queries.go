package scan

import "math"

// Queries holds up to MaxQueries queries in the form that a scan takes.
type Queries struct {
	N, Sections int
	room        int // capacity: 1, or a multiple of 16, the queries of a tile
	q8          []int8
	sums        []int32
	weights     []float32
}

func roomFor(queries int) int {
	if queries == 1 {
		return 1
	}
	return ceilDiv(queries, Lanes) * Lanes
}

// NewQueries allocates memory for up to MaxQueries queries; Reset sets their number.
func NewQueries(capacity, sections int) *Queries {
	n := roomFor(capacity) * sections
	return &Queries{Sections: sections, q8: make([]int8, n*Section), sums: make([]int32, n),
		weights: make([]float32, n*scanWeights)}
}

// Reset sets the number of queries to n; all must be set again.
func (q *Queries) Reset(n int) { q.N, q.room = n, roomFor(n) }

// Set sets query i to z, of 64·Sections elements; slop ≥ the norm of the error that z already has.
func (q *Queries) Set(i int, z []float64, slop float64) {
	round, behind := Rounding(q.Sections), 0.0
	for s := q.Sections - 1; s >= 0; s-- {
		x := z[s*Section:][:Section]
		largest := 0.0
		for _, v := range x {
			largest = max(largest, math.Abs(v))
		}
		step, inverse := float32(largest/127), 0.0
		if step > 1e-30 && step < math.MaxFloat32 {
			inverse = 1 / float64(step)
		} else {
			step = 0
		}
		q8, sum := q.q8[(s*q.room+i)*Section:][:Section], int32(0)
		var off, length, square float64
		for k, v := range x {
			code := int32(min(max(math.RoundToEven(v*inverse), -127), 127))
			q8[k] = int8(code)
			sum += code
			have := float64(step) * float64(code)
			off += (v - have) * (v - have)
			length += have * have
			square += v * v
		}
		behind += square
		w := q.weights[s*scanWeights*q.room+i:]
		grow := (1 + round) * (1 + 1e-12)
		w[0] = step
		w[q.room] = up((math.Sqrt(square) + slop) * grow)
		w[2*q.room] = up((math.Sqrt(off) + slop + round*math.Sqrt(length)) * grow)
		w[3*q.room] = up((math.Sqrt(behind) + slop) * grow)
		q.sums[s*q.room+i] = 15 * sum
	}
}

// Norms returns |z| of a section, and of the section and all later ones.
func (q *Queries) Norms(i, section int) (own, behind float64) {
	w := q.weights[section*scanWeights*q.room+i:]
	return float64(w[q.room]), float64(w[3*q.room])
}
