package embed

import (
	"cmp"
	"slices"
)

// Window is a question with a part of a context as one sequence of tokens, as a reader of spans reads it.
type Window struct {
	IDs   []uint32
	Types []int64
	First int      // index of the first token of the context among IDs
	At    [][2]int // the bytes of the context that its tokens stand for: At[i] belongs to IDs[First+i]
}

// maxSpan is the number of tokens of the longest answer, as in BERT's code for SQuAD.
const maxSpan = 30

// mostSpans is how many spans a reading has.
const mostSpans = 8

// Read decodes the logits of a window: two for each token.
func (w Window) Read(logits []float32) (r Reading) {
	r.Null = float64(logits[0]) + float64(logits[1])
	taken := make([]bool, len(w.At))
	var spans []Extract
	for range mostSpans {
		var best Extract
		var first, last int
		for i, from := range w.At {
			for j := i; j < min(len(w.At), i+maxSpan) && !taken[j]; j++ {
				score := float64(logits[2*(w.First+i)]) + float64(logits[2*(w.First+j)+1])
				if from[0] < w.At[j][1] && (best.End == 0 || score > best.Score) {
					best, first, last = Extract{from[0], w.At[j][1], score}, i, j
				}
			}
		}
		if best.End == 0 {
			break
		}
		spans = append(spans, best)
		for i := first; i <= last; i++ {
			taken[i] = true
		}
	}
	r.set(spans)
	return r
}

// set keeps spans, better first.
func (r *Reading) set(spans []Extract) {
	if len(spans) > 0 {
		r.Extract, r.Others = spans[0], spans[1:]
	}
}

// Merge takes the better spans of another window, and the lesser score of the null answer.
func (r *Reading) Merge(o Reading) {
	all := append(r.Found(), o.Found()...)
	slices.SortStableFunc(all, func(a, b Extract) int { return cmp.Compare(b.Score, a.Score) })
	var apart []Extract
	for _, s := range all {
		overlaps := func(t Extract) bool { return s.Start < t.End && t.Start < s.End }
		if len(apart) < mostSpans && !slices.ContainsFunc(apart, overlaps) {
			apart = append(apart, s)
		}
	}
	r.set(apart)
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
