package training

import (
	"errors"
	"fmt"
	"math"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// GELUSlope replaces the values x by GELU(x) = x·Φ(x) and writes its derivative Φ(x) + x·φ(x) to slope. Both are within
// 5e-7·(1 + |x|) of the exact values; an element's result does not depend on its place.
func GELUSlope(k cpu.Kernels, x, slope []float32) error {
	if len(x) != len(slope) {
		return fmt.Errorf("%w: %d values, %d slopes", kernels.ErrShape, len(x), len(slope))
	}
	return geluSlope(k, x, slope)
}

func goGELUSlope(x, slope []float32) {
	for i, v := range x {
		t := float64(v)
		phi := .5 * math.Erfc(-t/math.Sqrt2)
		x[i], slope[i] = float32(t*phi), float32(phi+t*math.Exp(-t*t/2)/math.Sqrt(2*math.Pi))
	}
}

// AdamStep holds the factors of an Adam step: Scale for gradients, Root for the root of the second moment, Shrink for
// the weights (decoupled weight decay). The caller includes the bias corrections in Rate and Root.
type AdamStep struct{ Scale, Beta1, Beta2, Rate, Root, Epsilon, Shrink float32 }

// Adam updates weights w by gradients g and moments m, v, all of one length:
// m = β1·m + (1−β1)·g′, v = β2·v + (1−β2)·g′² with g′ = g·Scale, w = w·Shrink − Rate·m/(√v·Root + ε).
func Adam(k cpu.Kernels, w, g, m, v []float32, s AdamStep) error {
	if len(g) != len(w) || len(m) != len(w) || len(v) != len(w) {
		return fmt.Errorf("%w: %d weights, %d gradients, %d and %d moments", kernels.ErrShape, len(w), len(g), len(m),
			len(v))
	}
	return adam(k, w, g, m, v, s)
}

func goAdam(w, g, m, v []float32, s AdamStep) {
	g, m, v = g[:len(w)], m[:len(w)], v[:len(w)]
	for i, x := range w {
		d := g[i] * s.Scale
		m[i] = s.Beta1*m[i] + (1-s.Beta1)*d
		v[i] = s.Beta2*v[i] + (1-s.Beta2)*d*d
		w[i] = x*s.Shrink - s.Rate*m[i]/(float32(math.Sqrt(float64(v[i])))*s.Root+s.Epsilon)
	}
}

// AttendedHead is the attention of one head over one text: Queries rows of q and Length rows of k and v, each of Dim
// values. Rows of q and of the context are QStride apart; rows of k, v and their gradients KVStride.
type AttendedHead struct {
	Queries, Length, Dim, QStride, KVStride int
	Scale                                   float32 // factor of the products of q and k
}

// Rows of probabilities are padded with zeros to a multiple of attentionPad.
const attentionPad = 16

// PStride is the distance between rows of probabilities.
func (a AttendedHead) PStride() int {
	return (a.Length + attentionPad - 1) / attentionPad * attentionPad
}

func (a AttendedHead) check(q, k, p []float32) error {
	if a.Queries < 1 || a.Length < 1 || a.Dim < 1 || a.QStride < a.Dim || a.KVStride < a.Dim ||
		len(q) < (a.Queries-1)*a.QStride+a.Dim || len(k) < (a.Length-1)*a.KVStride+a.Dim ||
		len(p) < a.Queries*a.PStride() {
		return fmt.Errorf("%w: attention %+v in %d, %d and %d values", kernels.ErrShape, a, len(q), len(k), len(p))
	}
	return nil
}

// Attend writes the probabilities softmax(Scale·q·kᵀ + bias) to p and p·v to context. Where bias is not nil, its value
// in the middle is added to query i and key i, the one behind it to key i+1 and so on. Scratch is grown as needed.
func Attend(k cpu.Kernels, a AttendedHead, q, key, value, bias, p, context []float32, scratch *[]float32) error {
	if err := errors.Join(a.check(q, key, p), a.check(context, value, p)); err != nil {
		return err
	}
	if far := len(bias) / 2; bias != nil && (len(bias)%2 == 0 || far < max(a.Length, a.Queries)-1) {
		return fmt.Errorf("%w: attention over %d tokens with a bias of %d distances", kernels.ErrShape, a.Length,
			len(bias))
	}
	return attend(k, a, q, key, value, bias, p, context, scratch)
}

// AttendBack writes the gradients dq, dk and dv from the gradient of the context; all three are overwritten.
func AttendBack(k cpu.Kernels, a AttendedHead, q, key, value, p, dContext, dq, dk, dv []float32,
	scratch *[]float32) error {
	if err := errors.Join(a.check(q, key, p), a.check(dContext, value, p), a.check(dq, dk, p),
		a.check(dq, dv, p)); err != nil {
		return err
	}
	return attendBack(k, a, q, key, value, p, dContext, dq, dk, dv, scratch)
}

func goAttendHead(a AttendedHead, q, key, value, bias, p, context []float32) {
	for i := range a.Queries {
		row, out := p[i*a.PStride():][:a.Length], context[i*a.QStride:][:a.Dim]
		top := float32(math.Inf(-1))
		for j := range row {
			row[j] = 0
			for c, x := range q[i*a.QStride:][:a.Dim] {
				row[j] += x * a.Scale * key[j*a.KVStride+c]
			}
			if bias != nil {
				row[j] += bias[len(bias)/2+j-i]
			}
			top = max(top, row[j])
		}
		var sum float32
		for j, s := range row {
			row[j] = float32(math.Exp(float64(s - top)))
			sum += row[j]
		}
		clear(out)
		for j := range row {
			row[j] /= sum
			for c := range out {
				out[c] += row[j] * value[j*a.KVStride+c]
			}
		}
		clear(p[i*a.PStride()+a.Length : (i+1)*a.PStride()])
	}
}

func goAttendHeadBack(a AttendedHead, q, key, value, p, dContext, dq, dk, dv []float32) {
	for j := range a.Length {
		clear(dk[j*a.KVStride:][:a.Dim])
		clear(dv[j*a.KVStride:][:a.Dim])
	}
	d := make([]float32, a.Length)
	for i := range a.Queries {
		row, out, dc := p[i*a.PStride():][:a.Length], dq[i*a.QStride:][:a.Dim], dContext[i*a.QStride:][:a.Dim]
		var along float32
		for j, s := range row {
			d[j] = 0
			for c, x := range dc {
				d[j] += x * value[j*a.KVStride+c]
				dv[j*a.KVStride+c] += s * x
			}
			along += d[j] * s
		}
		clear(out)
		for j, s := range row {
			g := a.Scale * s * (d[j] - along)
			for c := range out {
				out[c] += g * key[j*a.KVStride+c]
				dk[j*a.KVStride+c] += g * q[i*a.QStride+c]
			}
		}
	}
}
