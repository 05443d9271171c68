package embed

import (
	"cmp"
	"math"
	"slices"
)

// Classes are the scores of a batch of texts, in input order.
type Classes struct {
	Labels []string  // by class id, from the model's config.json
	Logits []float32 // row-major, len(texts) × len(Labels)
	// softmax of a row's logits over the temperature; of a multi-label or one-class model, each one's sigmoid
	Probabilities []float32
	Best          []int // per text, the class of the highest logit (the lower id of equals)
	Tokens        []int // per text, as in Embeddings
	Truncated     int
	Repaired      int
	Temperature   float64 // model.yaml's; 1 if it has none
	Threshold     float64 // model.yaml's probability below which a label is not given; 0: none
}

// Label returns the best label of text i.
func (c *Classes) Label(i int) string { return c.Labels[c.Best[i]] }

// Row returns the probabilities of text i (shares memory).
func (c *Classes) Row(i int) []float32 {
	n := len(c.Labels)
	return c.Probabilities[i*n : (i+1)*n]
}

// Abstains reports whether the best label of text i is less probable than the threshold, so that the model returns no
// label.
func (c *Classes) Abstains(i int) bool { return float64(c.Row(i)[c.Best[i]]) < c.Threshold }

// Ranked returns the classes of text i with at least the probability threshold, best first and of equals the lower id
// first; at most n of them, all where n is 0.
func (c *Classes) Ranked(i, n int, threshold float64) []int {
	row := c.Row(i)
	logits := c.Logits[i*len(c.Labels):][:len(c.Labels)]
	var out []int
	for j, p := range row {
		if float64(p) >= threshold {
			out = append(out, j)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(logits[b], logits[a]) })
	if n > 0 && len(out) > n {
		out = out[:n]
	}
	return out
}

// fill computes the probabilities and best classes from the logits.
func (c *Classes) fill(independent bool) {
	n := len(c.Labels)
	c.Temperature = cmp.Or(c.Temperature, 1)
	c.Probabilities = make([]float32, len(c.Logits))
	c.Best = make([]int, len(c.Logits)/n)
	for i := range c.Best {
		in, out := c.Logits[i*n:(i+1)*n], c.Probabilities[i*n:(i+1)*n]
		c.Best[i] = slices.Index(in, slices.Max(in))
		if independent {
			for j, v := range in {
				out[j] = sigmoid(v, c.Temperature)
			}
			continue
		}
		softmax(in, out, c.Temperature)
	}
}

func sigmoid(v float32, temperature float64) float32 {
	return float32(1 / (1 + math.Exp(-float64(v)/temperature)))
}

// softmax writes the probabilities of logits that are divided by the temperature.
func softmax(logits, out []float32, temperature float64) {
	top := slices.Max(logits)
	var sum float64
	for _, v := range logits {
		sum += math.Exp(float64(v-top) / temperature)
	}
	for j, v := range logits {
		out[j] = float32(math.Exp(float64(v-top)/temperature) / sum)
	}
}
