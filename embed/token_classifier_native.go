//go:build native

package embed

import (
	"context"
	"fmt"
	"slices"
)

// TokenClassifier finds the parts of texts that have a label, such as names. It is safe for concurrent use.
type TokenClassifier struct{ *model }

var _ Tagger = (*TokenClassifier)(nil)

// OpenTokenClassifier loads a token-classification checkpoint (BERT, DistilBERT, RoBERTa, MPNet, …) or a ready export
// with the output "logits" for each token. Errors as of Open.
func OpenTokenClassifier(ctx context.Context, dir string, o Options) (*TokenClassifier, error) {
	return openAs[TokenClassifier](ctx, dir, KindTokenClassifier, o)
}

// maxSpanTokens of a text are read; behind, it is cut.
const maxSpanTokens = 1 << 20

// tagged is a text as its windows are made of.
type tagged struct {
	ids      []uint32 // with the special tokens
	own      []token
	cut      bool
	repaired bool
	windows  []tokenWindow
	first    int // number of its first window among all
}

// Spans implements Tagger. A text of more tokens than the model takes is read in windows that overlap; each word has
// the label of the window that shows most of what is around it.
func (c *TokenClassifier) Spans(ctx context.Context, texts []string) (*Spans, error) {
	list, err := c.tokens(ctx, texts)
	if err != nil {
		return nil, err
	}
	out := &Spans{Texts: make([][]Span, len(texts)), Labels: c.src.labels, Tokens: make([]int, len(texts))}
	var of []int // the text of each window
	for i := range list {
		t := &list[i]
		t.first = len(of)
		for range t.windows {
			of = append(of, i)
		}
		out.Tokens[i] = len(t.ids)
		if t.cut {
			out.Truncated++
		}
		if t.repaired {
			out.Repaired++
		}
	}
	front := c.tok.special - c.tok.closing
	r, err := c.infer(ctx, len(of), func(n int) (input, error) {
		t := &list[of[n]]
		w := t.windows[n-t.first]
		ids := slices.Concat(t.ids[:front], t.ids[front+w.from:front+w.to], t.ids[len(t.ids)-c.tok.closing:])
		return input{sequence: sequence{ids: ids}}, nil
	})
	if err != nil {
		return nil, err
	}
	n := len(out.Labels)
	for i := range list {
		t := &list[i]
		row := func(k, token int) []float32 {
			at := r.starts[t.first+k] + front + token - t.windows[k].from
			return r.data[at*n : (at+1)*n]
		}
		logits := make([]float32, 0, len(t.own)*n)
		for token, k := range owners(t.windows, len(t.own)) {
			logits = append(logits, row(k, token)...)
		}
		out.Texts[i] = trimmed(decode(t.own, logits, out.Labels), texts[i])
	}
	return out, nil
}

// tokens reads texts and lays out their windows.
func (c *TokenClassifier) tokens(ctx context.Context, texts []string) ([]tagged, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.running.Done()
	list := make([]tagged, len(texts))
	size := c.set.MaxTokens - c.tok.special
	err := c.each(ctx, len(texts), func(i int) (err error) {
		t := &list[i]
		if t.ids, t.own, t.cut, err = c.tok.words(texts[i], maxSpanTokens); err != nil {
			return fmt.Errorf("text %q: %w", texts[i][:min(len(texts[i]), 40)], err)
		}
		_, t.repaired = Repair(texts[i])
		t.windows = tokenWindows(t.own, max(size, 1))
		return nil
	})
	if err == nil {
		err = ctx.Err()
	}
	return list, err
}
