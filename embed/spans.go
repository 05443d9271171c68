package embed

import (
	"context"
	"slices"
	"strings"
	"unicode"
)

// Span is a part of a text with a label, such as a name.
type Span struct {
	Label       string  // without the prefix that says where a span begins
	Start, End  int     // bytes of the text as it was given: text[Start:End]
	Probability float32 // mean over the span's words of their label's probability
}

// Spans are the labelled parts of a batch of texts, in input order.
type Spans struct {
	Texts     [][]Span // per text, in the order of the text
	Labels    []string // of the model's head, as its config.json has them
	Tokens    []int    // per text, as in Embeddings
	Truncated int      // texts of more than 2^20 tokens: what is behind has no spans
	Repaired  int
}

// Tagger is what the rest of Sluice needs of a token classifier; *TokenClassifier implements it.
type Tagger interface {
	Spans(ctx context.Context, texts []string) (*Spans, error)
	Info() Info
}

// outside is the label of what is in no span, as in IOB2.
const outside = "O"

// token is one token of a text as spans need it.
type token struct {
	start, end int  // bytes
	begins     bool // a word
}

// decode turns the logits of a text's tokens into spans, row by row of labels. As the aggregation "first" of
// transformers' token-classification pipeline: a word has the label and probability of its first token; words in a row
// with the same label are one span, unless a later one begins a new span by the prefix "B-". A label without a prefix
// counts as one with "I-", so that schemes without prefixes work as well. Words labelled "O" are in no span.
func decode(tokens []token, logits []float32, labels []string) []Span {
	var spans []Span
	var sum float64
	words := 0
	close := func() {
		if words > 0 {
			spans[len(spans)-1].Probability = float32(sum / float64(words))
		}
		sum, words = 0, 0
	}
	probabilities := make([]float32, len(labels))
	inside := false // the last word belongs to the last span
	for i := 0; i < len(tokens); {
		next := i + 1
		for next < len(tokens) && !tokens[next].begins {
			next++
		}
		row := logits[i*len(labels) : (i+1)*len(labels)]
		best := slices.Index(row, slices.Max(row))
		softmax(row, probabilities, 1)
		label, begins := untag(labels[best])
		switch {
		case labels[best] == outside:
			inside = false
		case inside && !begins && spans[len(spans)-1].Label == label:
			spans[len(spans)-1].End = tokens[next-1].end
		default:
			close()
			spans = append(spans, Span{Label: label, Start: tokens[i].start, End: tokens[next-1].end})
			inside = true
		}
		if inside {
			sum += float64(probabilities[best])
			words++
		}
		i = next
	}
	close()
	return spans
}

// untag takes the prefix from a label.
func untag(label string) (name string, begins bool) {
	if rest, ok := strings.CutPrefix(label, "B-"); ok {
		return rest, true
	}
	return strings.TrimPrefix(label, "I-"), false
}

// trimmed takes the white space from both ends of spans, which some tokenizers count among a word, and what belongs to
// the span before as well: the space that SentencePiece puts before a text has the first character's place. What is
// nothing else is no span.
func trimmed(spans []Span, text string) []Span {
	out, last := spans[:0], 0
	for _, s := range spans {
		s.Start = max(s.Start, last)
		part := text[s.Start:max(s.End, s.Start)]
		s.Start += len(part) - len(strings.TrimLeftFunc(part, unicode.IsSpace))
		s.End -= len(part) - len(strings.TrimRightFunc(part, unicode.IsSpace))
		if s.Start < s.End {
			out, last = append(out, s), s.End
		}
	}
	return out
}

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
