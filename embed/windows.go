package embed

// Window is a question with a part of a context as one sequence of tokens, as a reader of spans reads it.
type Window struct {
	IDs   []uint32
	Types []int64
	First int      // index of the first token of the context among IDs
	At    [][2]int // the bytes of the context that its tokens stand for: At[i] belongs to IDs[First+i]
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
