package train

import (
	"math"

	"github.com/sluice-rag/sluice/kernels/cpu/training"
)

// Adam's usual constants.
const (
	beta1, beta2 = .9, .999
	adamEpsilon  = 1e-8
)

// adamw is the optimiser: AdamW with linear warm-up, linear decay to 0 and gradient clipping by norm.
type adamw[T number] struct {
	params         []*param[T]
	m, v           [][]T // moments, per parameter
	step           int
	steps, warmUp  int // for the whole training
	rate, headRate float64
	decay, clip    float64
	arithmetic[T]
	spans   []span
	partial []float64
}

// span is the part of a parameter that one task updates.
type span struct{ param, from, to int }

func newAdamW[T number](n *network[T], steps int, s Settings) *adamw[T] {
	a := &adamw[T]{params: n.params(), steps: steps, warmUp: int(math.Ceil(s.WarmUp * float64(steps))),
		rate: s.Rate, headRate: s.HeadRate, decay: s.WeightDecay, clip: s.Clip, arithmetic: n.arithmetic}
	const part = 1 << 15
	for i, p := range a.params {
		a.m, a.v = append(a.m, make([]T, len(p.data))), append(a.v, make([]T, len(p.data)))
		for at := 0; at < len(p.data); at += part {
			a.spans = append(a.spans, span{i, at, min(len(p.data), at+part)})
		}
	}
	a.partial = make([]float64, len(a.spans))
	return a
}

// factor returns the factor of the learning rates at a step, counted from 1.
func (a *adamw[T]) factor(step int) float64 {
	if step <= a.warmUp {
		return float64(step) / float64(a.warmUp)
	}
	return max(0, float64(a.steps-step+1)/float64(a.steps-a.warmUp))
}

// length returns the norm of the whole gradient. Spans are added in a fixed order, so that the result is reproducible.
func (a *adamw[T]) length() (float64, error) {
	err := a.each(len(a.spans), func(task int) {
		s := a.spans[task]
		var sum float64
		for _, g := range a.params[s.param].grad[s.from:s.to] {
			sum += float64(g) * float64(g)
		}
		a.partial[task] = sum
	})
	var sum float64
	for _, p := range a.partial {
		sum += p
	}
	return math.Sqrt(sum), err
}

// update takes one step along the gradients.
func (a *adamw[T]) update() error {
	a.step++
	scale := 1.0
	if a.clip > 0 {
		length, err := a.length()
		if err != nil {
			return err
		}
		if length > a.clip {
			scale = a.clip / length
		}
	}
	factor := a.factor(a.step)
	c1, c2 := 1-math.Pow(beta1, float64(a.step)), 1-math.Pow(beta2, float64(a.step))
	return a.each(len(a.spans), func(task int) {
		s := a.spans[task]
		p := a.params[s.param]
		rate := a.rate * factor
		if p.head {
			rate = a.headRate * factor
		}
		shrink := 1.0
		if p.decays {
			shrink = 1 - rate*a.decay
		}
		a.adam(p.data[s.from:s.to], p.grad[s.from:s.to], a.m[s.param][s.from:s.to], a.v[s.param][s.from:s.to],
			training.AdamStep{Scale: float32(scale), Beta1: beta1, Beta2: beta2, Rate: float32(rate / c1),
				Root: float32(1 / math.Sqrt(c2)), Epsilon: adamEpsilon, Shrink: float32(shrink)})
	})
}
