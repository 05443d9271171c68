package cpu

import (
	"fmt"
	"math"

	"github.com/sluice-rag/sluice/kernels"
)

// GELUSlope replaces the values x by GELU(x) = x·Φ(x) and writes its derivative Φ(x) + x·φ(x) to slope. Both are within
// 5e-7·(1 + |x|) of the exact values; an element's result does not depend on its place.
func (k Kernels) GELUSlope(x, slope []float32) error {
	if len(x) != len(slope) {
		return fmt.Errorf("%w: %d values, %d slopes", kernels.ErrShape, len(x), len(slope))
	}
	return k.geluSlope(x, slope)
}

func goGELUSlope(x, slope []float32) {
	for i, v := range x {
		t := float64(v)
		phi := .5 * math.Erfc(-t/math.Sqrt2)
		x[i], slope[i] = float32(t*phi), float32(phi+t*math.Exp(-t*t/2)/math.Sqrt(2*math.Pi))
	}
}

// AdamStep is a step of an Adam optimiser: gradients are multiplied by Scale, the root of the second moment by Root,
// the weights by Shrink (decoupled weight decay). Bias corrections are the caller's, in Rate and Root.
type AdamStep struct{ Scale, Beta1, Beta2, Rate, Root, Epsilon, Shrink float32 }

// Adam updates weights w by gradients g and moments m, v, all of one length:
// m = β1·m + (1−β1)·g′, v = β2·v + (1−β2)·g′² with g′ = g·Scale, w = w·Shrink − Rate·m/(√v·Root + ε).
func (k Kernels) Adam(w, g, m, v []float32, s AdamStep) error {
	if len(g) != len(w) || len(m) != len(w) || len(v) != len(w) {
		return fmt.Errorf("%w: %d weights, %d gradients, %d and %d moments", kernels.ErrShape, len(w), len(g), len(m),
			len(v))
	}
	return k.adam(w, g, m, v, s)
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
