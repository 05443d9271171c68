package cpu

import "math"

// The encoder's operations in Go, with float64 sums: the reference of the C kernels, and what runs without them.

const goPanel = 1

func goPackWeights(to []float32, a Rows) {
	for i := range a.N {
		copy(to[i*a.Dim:], a.Row(i))
	}
}

func goLinear(l *Linear) {
	w := l.Weights
	for i := range l.X.N {
		x, y := l.X.Row(i), l.Y[i*l.Stride:]
		for o := l.First; o < l.Last; o++ {
			var sum float64
			for k, v := range w.data[o*w.In : (o+1)*w.In] {
				sum += float64(v) * float64(x[k])
			}
			if l.Bias != nil {
				sum += float64(l.Bias[o])
			}
			sum = goActivate(sum, l.Activation)
			if l.Residual != nil {
				sum += float64(l.Residual[i*l.Stride+o])
			}
			y[o] = float32(sum)
		}
	}
}

func goActivate(x float64, a Activation) float64 {
	switch a {
	case GELU:
		return x * .5 * (1 + math.Erf(x/math.Sqrt2))
	case GELUTanh:
		return x * .5 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+.044715*x*x*x)))
	case ReLU:
		return max(x, 0)
	case Tanh:
		return math.Tanh(x)
	}
	return x
}

func goLayerNorm(rows []float32, n, dim, stride int, scale, shift []float32, epsilon float32) {
	for i := range n {
		row := rows[i*stride : i*stride+dim]
		var mean, variance float64
		for _, x := range row {
			mean += float64(x) / float64(dim)
		}
		for _, x := range row {
			variance += (float64(x) - mean) * (float64(x) - mean) / float64(dim)
		}
		norm := 1 / math.Sqrt(variance+float64(epsilon))
		for j, x := range row {
			row[j] = float32((float64(x)-mean)*norm*float64(scale[j]) + float64(shift[j]))
		}
	}
}

func goAttention(a *Attention) {
	width := a.Heads * a.Size
	for text := a.First; text < a.Last; text++ {
		from, n := int(a.Starts[text]), int(a.Starts[text+1]-a.Starts[text])
		for head := a.FirstHead; head < a.LastHead; head++ {
			at := func(part, row int) []float32 {
				first := (from+row)*3*width + part*width + head*a.Size
				return a.QKV[first : first+a.Size]
			}
			for i := range n {
				goAttend(a, at, head, i, n, a.Y[(from+i)*width+head*a.Size:][:a.Size])
			}
		}
	}
}

// goAttend writes row i of a text of n rows for one head.
func goAttend(a *Attention, at func(part, row int) []float32, head, i, n int, y []float32) {
	scores := make([]float64, n)
	top := math.Inf(-1)
	for j := range scores {
		for k, q := range at(0, i) {
			scores[j] += float64(q) * float64(at(1, j)[k])
		}
		scores[j] *= float64(a.Scale)
		if a.Bias != nil {
			scores[j] += float64(a.Bias[head*(2*a.Far+1)+a.Far+j-i])
		}
		top = max(top, scores[j])
	}
	var total float64
	for j := range scores {
		scores[j] = math.Exp(scores[j] - top)
		total += scores[j]
	}
	for k := range y {
		var sum float64
		for j, s := range scores {
			sum += s * float64(at(2, j)[k])
		}
		y[k] = float32(sum / total)
	}
}
