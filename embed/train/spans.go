package train

import "github.com/sluice-rag/sluice/embed"

// window is one sequence of tokens that a reader reads: a question with all or a part of its context.
type window struct {
	embed.Window
	question   int // index
	start, end int // tokens of the answer; 0 and 0 without one
}

// spanLoss returns the mean over windows of the mean of the cross-entropies of the answer's first and last token among
// the window's tokens, and its gradient. Logits are tokens × 2; starts are the rows of the windows' first tokens.
func spanLoss[T number](logits []T, starts []int, windows []window) (float64, []T) {
	d := make([]T, len(logits))
	var sum float64
	for i, w := range windows {
		rows := starts[i+1] - starts[i]
		z, g := make([]T, rows), make([]T, rows)
		from := 2 * starts[i]
		for side, target := range []int{w.start, w.end} {
			for t := range z {
				z[t] = logits[from+2*t+side]
			}
			sum += crossEntropy(z, g, target, .5/float64(len(windows))) / 2
			for t, v := range g {
				d[from+2*t+side] = v
			}
		}
	}
	return sum / float64(len(windows)), d
}
