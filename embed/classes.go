package embed

import "math"

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

// Label is the best label of text i.
func (c *Classes) Label(i int) string { return c.Labels[c.Best[i]] }

// Row returns the probabilities of text i (shares memory).
func (c *Classes) Row(i int) []float32 {
	n := len(c.Labels)
	return c.Probabilities[i*n : (i+1)*n]
}

// Abstains tells whether the best label of text i is less probable than the threshold, so that the model gives none.
func (c *Classes) Abstains(i int) bool { return float64(c.Row(i)[c.Best[i]]) < c.Threshold }

// fill computes the probabilities and best classes from the logits.
func (c *Classes) fill(independent bool) {
	n := len(c.Labels)
	if c.Temperature == 0 {
		c.Temperature = 1
	}
	c.Probabilities = make([]float32, len(c.Logits))
	c.Best = make([]int, len(c.Logits)/n)
	for i := range c.Best {
		in, out := c.Logits[i*n:(i+1)*n], c.Probabilities[i*n:(i+1)*n]
		for j, v := range in {
			if v > in[c.Best[i]] {
				c.Best[i] = j
			}
		}
		if independent {
			for j, v := range in {
				out[j] = float32(1 / (1 + math.Exp(-float64(v)/c.Temperature)))
			}
			continue
		}
		var sum float64
		for _, v := range in {
			sum += math.Exp(float64(v-in[c.Best[i]]) / c.Temperature)
		}
		for j, v := range in {
			out[j] = float32(math.Exp(float64(v-in[c.Best[i]])/c.Temperature) / sum)
		}
	}
}
