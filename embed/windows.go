package embed

// Window is a question with a part of a context as one sequence of tokens, as a reader of spans reads it.
type Window struct {
	IDs   []uint32
	Types []int64
	First int      // index of the first token of the context among IDs
	At    [][2]int // the bytes of the context that its tokens stand for: At[i] belongs to IDs[First+i]
}

// maxSpan is the number of tokens of the longest answer, as in BERT's code for SQuAD.
const maxSpan = 30

// Read decodes the logits of a window: two for each token.
func (w Window) Read(logits []float32) (r Reading) {
	r.Null = float64(logits[0]) + float64(logits[1])
	for i, from := range w.At {
		for j := i; j < min(len(w.At), i+maxSpan); j++ {
			score := float64(logits[2*(w.First+i)]) + float64(logits[2*(w.First+j)+1])
			if from[0] < w.At[j][1] && (r.End == 0 || score > r.Score) {
				r.Start, r.End, r.Score = from[0], w.At[j][1], score
			}
		}
	}
	return r
}

// Merge takes the better span of another window, and the lesser score of the null answer.
func (r *Reading) Merge(o Reading) {
	if o.End > 0 && (r.End == 0 || o.Score > r.Score) {
		r.Start, r.End, r.Score = o.Start, o.End, o.Score
	}
	r.Null = min(r.Null, o.Null)
}

// windowsOf joins a question and a context by the template, the context in windows of which each begins stride tokens
// before the end of the one before it, or fewer where windows are short. room is how many tokens a window has beside
// the special ones; a question takes half of it at most.
func (t template) windowsOf(question, context []uint32, at [][2]int, room, stride int) []Window {
	question = question[:min(len(question), room/2)]
	size := room - len(question)
	step := max(size-stride, (size+3)/4) // no token is in more than four windows, however long the question is
	first := 0
	for _, p := range t {
		if p.text == 2 {
			break
		}
		first += len(p.ids)
		if p.text == 1 {
			first += len(question)
		}
	}
	var out []Window
	for from := 0; ; from += step {
		to := min(from+size, len(context))
		w := Window{First: first, At: at[from:to]}
		w.IDs, w.Types = t.join(question, context[from:to])
		if out = append(out, w); to == len(context) {
			return out
		}
	}
}
