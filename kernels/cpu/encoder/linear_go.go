package encoder

import (
	"encoding/binary"
	"math"

	"github.com/sluice-rag/sluice/kernels/cpu"
)

// The encoder's operations in Go, with float64 sums: the reference of the C kernels, and the fallback without them.

const goPanel = 1

func goPackWeights(to []float32, a cpu.Rows) {
	for i := range a.N {
		copy(to[i*a.Dim:], a.Row(i))
	}
}

func goLinear(l *Linear) {
	w := l.Weights
	if w.codes != nil {
		goLinearCodes(l)
		return
	}
	for i := range l.X.N {
		x := l.X.Row(i)
		for o := l.First; o < l.Last; o++ {
			var sum float64
			for k, v := range w.data[o*w.In : (o+1)*w.In] {
				sum += float64(v) * float64(x[k])
			}
			goFinish(l, i, o, sum)
		}
	}
}

// In Go, packed codes are rows of codes; the step of each group, a float32, follows its codes.
const goGroupBytes = codeGroup + 4

func goCodeBytes(w *Weights) int { return w.Out * ((w.In + codeGroup - 1) / codeGroup) * goGroupBytes }

func goPackCodes(to []byte, a cpu.Rows) {
	for i := range a.N {
		row := a.Row(i)
		for k := 0; k < len(row); k += codeGroup {
			step := goEncodeGroup(to[:codeGroup], row[k:min(k+codeGroup, len(row))])
			binary.LittleEndian.PutUint32(to[codeGroup:], math.Float32bits(step))
			to = to[goGroupBytes:]
		}
	}
}

func goEncode(c *Codes, x cpu.Rows) {
	for i := range x.N {
		row := x.Row(i)
		for g := range c.groups {
			at := i*c.groups + g
			c.steps[at] = goEncodeGroup(c.codes[at*codeGroup:(at+1)*codeGroup],
				row[g*codeGroup:min((g+1)*codeGroup, len(row))])
		}
	}
}

// goEncodeGroup writes the codes of up to codeGroup values and returns their step.
func goEncodeGroup(to []byte, x []float32) float32 {
	clear(to)
	top := float32(0)
	for _, v := range x {
		top = max(top, float32(math.Abs(float64(v)))) // NaN is preserved
	}
	if top != top || top > math.MaxFloat32 {
		return top / 127
	}
	if top <= 1e-30 {
		return 0
	}
	scale := 127 / top
	for k, v := range x {
		to[k] = byte(int8(math.RoundToEven(float64(v * scale))))
	}
	return top / 127
}

func goLinearCodes(l *Linear) {
	w, c := l.Weights, l.Codes
	for i := range c.n {
		for o := l.First; o < l.Last; o++ {
			var sum float64
			for g := range c.groups {
				group := w.codes[(o*c.groups+g)*goGroupBytes:]
				at := i*c.groups + g
				var n int
				for k, code := range c.codes[at*codeGroup : (at+1)*codeGroup] {
					n += int(int8(code)) * int(int8(group[k]))
				}
				step := math.Float32frombits(binary.LittleEndian.Uint32(group[codeGroup:]))
				sum += float64(n) * float64(step) * float64(c.steps[at])
			}
			goFinish(l, i, o, sum)
		}
	}
}

// goFinish writes an output from the sum of its products.
func goFinish(l *Linear, i, o int, sum float64) {
	if l.Bias != nil {
		sum += float64(l.Bias[o])
	}
	sum = goActivate(sum, l.Activation)
	if l.Residual != nil {
		sum += float64(l.Residual[i*l.Stride+o])
	}
	l.Y[i*l.Stride+o] = float32(sum)
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

// goAttend computes row i of a text of n rows for one head.
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
