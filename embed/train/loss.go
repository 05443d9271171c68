package train

import "math"

// target holds the labels of a text: class ids, exactly one unless the labels do not exclude each other.
type target []int32

// objective turns logits into a loss and its gradient.
type objective struct {
	labels  int
	multi   bool      // binary cross-entropy of each label; else softmax cross-entropy
	weights []float64 // per label; nil: all 1
}

func (o *objective) weight(label int) float64 {
	if o.weights == nil {
		return 1
	}
	return o.weights[label]
}

// loss returns the mean loss of a batch and its gradient. One label: −log softmax(z)[label], weighted by class and
// divided by the sum of the weights. Several: the mean over texts and labels of the binary cross-entropy, that of a
// label that is present times its class weight.
func loss[T number](o *objective, logits []T, targets []target) (float64, []T) {
	d := make([]T, len(logits))
	var sum, weight float64
	for i, t := range targets {
		z, g := logits[i*o.labels:][:o.labels], d[i*o.labels:][:o.labels]
		if o.multi {
			sum += logistic(o, z, g, t)
			weight += float64(o.labels)
			continue
		}
		w := o.weight(int(t[0]))
		sum += w * crossEntropy(z, g, int(t[0]), w)
		weight += w
	}
	for i, v := range d {
		d[i] = T(float64(v) / weight)
	}
	return sum / weight, d
}

// crossEntropy returns −log softmax(z)[label] and writes its gradient times w to g.
func crossEntropy[T number](z, g []T, label int, w float64) float64 {
	top := z[0]
	for _, v := range z {
		top = max(top, v)
	}
	var sum float64
	for _, v := range z {
		sum += math.Exp(float64(v - top))
	}
	for j, v := range z {
		p := math.Exp(float64(v-top)) / sum
		if j == label {
			p--
		}
		g[j] = T(w * p)
	}
	return math.Log(sum) - float64(z[label]-top)
}

// logistic returns the sum over labels of the binary cross-entropy and writes its gradient to g.
func logistic[T number](o *objective, z, g []T, present target) float64 {
	var sum float64
	for j, v := range z {
		x := float64(v) // −log(1 − σ(x)) = max(x, 0) + log(1 + e^−|x|)
		sum += max(x, 0) + math.Log1p(math.Exp(-math.Abs(x)))
		g[j] = T(1 / (1 + math.Exp(-x)))
	}
	for _, j := range present {
		x, w := float64(z[j]), o.weight(int(j))
		both := max(x, 0) + math.Log1p(math.Exp(-math.Abs(x)))
		sum += w*(both-x) - both
		g[j] = T(w * (1/(1+math.Exp(-x)) - 1))
	}
	return sum
}
