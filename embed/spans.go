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
