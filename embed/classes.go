package embed

import "math"

// Classes are the scores of a batch of texts, in input order.
type Classes struct {
	Labels        []string  // by class id, from the model's config.json
	Logits        []float32 // row-major, len(texts) × len(Labels)
	Probabilities []float32 // softmax of a row's logits; of a multi-label or one-class model, each logit's sigmoid
	Best          []int     // per text, the class of the highest logit (the lower id of equals)
	Tokens        []int     // per text, as in Embeddings
	Truncated     int
	Repaired      int
}

// Label is the best label of text i.
func (c *Classes) Label(i int) string { return c.Labels[c.Best[i]] }

// Row returns the probabilities of text i (shares memory).
func (c *Classes) Row(i int) []float32 {
	n := len(c.Labels)
	return c.Probabilities[i*n : (i+1)*n]
}

// fill computes the probabilities and best classes from the logits.
func (c *Classes) fill(independent bool) {
	n := len(c.Labels)
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
				out[j] = float32(1 / (1 + math.Exp(-float64(v))))
			}
			continue
		}
		var sum float64
		for _, v := range in {
			sum += math.Exp(float64(v - in[c.Best[i]]))
		}
		for j, v := range in {
			out[j] = float32(math.Exp(float64(v-in[c.Best[i]])) / sum)
		}
	}
}
