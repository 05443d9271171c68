package embed

// tokenWindow is a run of a text's own tokens, from … to-1, that a token classifier reads at once.
type tokenWindow struct{ from, to int }

// overlapShare: windows that follow each other share 1/overlapShare of a window at most.
const overlapShare = 4

// tokenWindows covers tokens by windows of at most size tokens, which begin and end with words where words are not too
// long. Each token but those at the ends of the text has an eighth of a window of context on either side in one of
// them.
func tokenWindows(tokens []token, size int) []tokenWindow {
	var out []tokenWindow
	for from := 0; ; {
		w := tokenWindow{from, min(from+size, len(tokens))}
		if w.to == len(tokens) {
			return append(out, w)
		}
		w.to = wordStart(tokens, w.to, size/8)
		out = append(out, w)
		from = max(wordStart(tokens, w.to-size/overlapShare, size/8), from+1)
	}
}

// wordStart returns the nearest token at or before at that begins a word, if it is at most back tokens away; else at.
func wordStart(tokens []token, at, back int) int {
	for i := at; i > max(at-back, 0); i-- {
		if tokens[i].begins {
			return i
		}
	}
	return at
}

// owners returns for each token which of the windows it is read in: of two that share it, the one whose end is farther.
func owners(windows []tokenWindow, tokens int) []int {
	of := make([]int, tokens)
	for k, w := range windows {
		from := w.from
		if k > 0 {
			from = (w.from + windows[k-1].to) / 2
		}
		for i := from; i < w.to; i++ {
			of[i] = k
		}
	}
	return of
}
