package train

// window is one sequence of tokens that a reader reads: a question with all or a part of its context.
type window struct {
	question   int // index
	first      int // the first token of the context
	at         [][2]int
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

// maxAnswer is the number of tokens that an answer has at most.
const maxAnswer = 30

// reading is the best answer of a window or of all windows of a question.
type reading struct {
	start, end int     // bytes of the context
	score      float64 // the sum of the logits of the answer's first and last token
	null       float64 // of the first token, which stands for no answer
	found      bool
}

// read decodes the logits of a window.
func (w *window) read(logits []float32) reading {
	r := reading{null: float64(logits[0]) + float64(logits[1])}
	for i, from := range w.at {
		for j := i; j < min(len(w.at), i+maxAnswer); j++ {
			score := float64(logits[2*(w.first+i)]) + float64(logits[2*(w.first+j)+1])
			if from[0] < w.at[j][1] && (!r.found || score > r.score) {
				r.start, r.end, r.score, r.found = from[0], w.at[j][1], score, true
			}
		}
	}
	return r
}

// merge returns the better answer of two windows of a question, and the lower score of no answer.
func (r reading) merge(o reading) reading {
	best := r
	if o.found && (!r.found || o.score > r.score) {
		best = o
	}
	best.null = min(r.null, o.null)
	return best
}
