//go:build native

package embed

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
)

var entityLabels = []string{"O", "B-PER", "I-PER", "B-LOC", "I-LOC"}

func openTokenClassifier(t testing.TB, dir string) *TokenClassifier {
	t.Helper()
	needLibrary(t)
	c, err := OpenTokenClassifier(t.Context(), dir, Options{MaxBatchTokens: 150})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestTokenClassifiersAgainstNumPy(t *testing.T) {
	race.Skip(t)
	needLibrary(t)
	for _, s := range architectures() {
		s.Labels, s.Kind = entityLabels, "token-classifier"
		t.Run(name(s), func(t *testing.T) {
			dir := writeCheckpoint(t, s)
			c := openTokenClassifier(t, dir)
			texts := smallTexts()
			// the raw rows, as Spans reads them
			r, err := c.infer(t.Context(), len(texts), c.texts(texts, Document))
			if err != nil {
				t.Fatal(err)
			}
			flat, ids := referenceRows(t, task{Model: dir, Task: "label", MaxTokens: c.Info().MaxTokens, Texts: texts})
			var d float64
			if len(flat) != len(r.data) {
				t.Fatalf("%d logits, the reference has %d", len(r.data), len(flat))
			}
			for i, v := range flat {
				d = max(d, math.Abs(float64(r.data[i])-v))
			}
			t.Logf("max |d| %.3g", d)
			if !(d <= headTolerance) {
				t.Errorf("max |d| = %g, at most %g expected", d, headTolerance)
			}
			for i := range ids {
				if rows := r.starts[i+1] - r.starts[i]; rows != len(ids[i]) {
					t.Errorf("text %d: %d rows, %d tokens", i, rows, len(ids[i]))
				}
			}
		})
	}
}

func TestSpans(t *testing.T) {
	for _, family := range []string{"bert", "roberta"} {
		c := openTokenClassifier(t, writeCheckpoint(t, checkpoint.Spec{Family: family, Labels: entityLabels,
			Kind: "token-classifier"}))
		texts := append(smallTexts(), "the g\x00ate \xff opens", "  near  the\tgate\n")
		got, err := c.Spans(t.Context(), texts)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for i, spans := range got.Texts {
			end := 0
			for _, s := range spans {
				if s.Start < end || s.End <= s.Start || s.End > len(texts[i]) || s.Label != "PER" && s.Label != "LOC" ||
					!(s.Probability > 1./5 && s.Probability <= 1) {
					t.Errorf("%s, text %d: %+v", family, i, s)
				}
				if part := texts[i][s.Start:s.End]; strings.TrimSpace(part) != part {
					t.Errorf("%s, text %d: the span is %q", family, i, part)
				}
				end = s.End
			}
			found += len(spans)
			one, err := c.Spans(t.Context(), texts[i:i+1])
			if err != nil || !slices.Equal(one.Texts[0], spans) { // the same bits alone and in a batch
				t.Errorf("%s, text %d alone: %+v, in the batch %+v (%v)", family, i, one, spans, err)
			}
		}
		if found < 10 || got.Repaired != 1 || got.Truncated != 0 || len(got.Texts[0]) != 0 {
			t.Errorf("%s: %d spans, %d repaired, %d cut, of nothing %v", family, found, got.Repaired, got.Truncated,
				got.Texts[0])
		}
		// a text of many windows is read to its end, and its first half as it is alone
		long := strings.Repeat(texts[5], 60)
		whole, err := c.Spans(t.Context(), []string{long})
		if err != nil {
			t.Fatal(err)
		}
		spans := whole.Texts[0]
		if whole.Truncated != 0 || whole.Tokens[0] < 3*c.Info().MaxTokens || spans[len(spans)-1].End < len(long)*9/10 {
			t.Errorf("%s: %d tokens, the last of %d spans ends at %d of %d", family, whole.Tokens[0], len(spans),
				spans[len(spans)-1].End, len(long))
		}
		half, err := c.Spans(t.Context(), []string{long[:len(long)/2]})
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range half.Texts[0] {
			if s.End < len(long)/4 && s != spans[i] {
				t.Errorf("%s: span %d is %+v, in a longer text %+v", family, i, s, spans[i])
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if _, err := c.Spans(t.Context(), texts); !errors.Is(err, ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	}
}
