//go:build native

package embed

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
)

// smallTexts have the words of package checkpoint's vocabulary, a literal pad token, and lengths from nothing to cut.
func smallTexts() []string {
	return []string{
		"", "the gate opens", "A query, near enough?", "unknown ☃ signs", "a <pad> b [PAD] c",
		strings.Repeat("knowledge base 1 2 3 ", 5), strings.Repeat("the context of a query is near. ", 40),
	}
}

func TestFamiliesAgainstNumPy(t *testing.T) {
	race.Skip(t)
	needLibrary(t)
	for _, s := range []checkpoint.Spec{
		{Family: "bert", Normalise: true},
		{Family: "bert", Prefixed: true, Pooling: "cls", Old: true},
		{Family: "bert", DType: "F16"},
		{Family: "bert", DType: "BF16", Normalise: true, Act: "gelu_new"},
		{Family: "bert", Hidden: 48, Heads: 3, Layers: 3, Act: "relu", MaxTokens: 20},
		{Family: "distilbert", Normalise: true},
		{Family: "distilbert", Prefixed: true, Pooling: "cls", DType: "F16"},
		{Family: "xlm-roberta", Pooling: "cls", Normalise: true},
		{Family: "roberta", Prefixed: true},
		{Family: "camembert"},
		{Family: "mpnet", Normalise: true, Positions: 200},
		{Family: "mpnet", Prefixed: true, Pooling: "cls"},
		{Family: "deberta-v2", Normalise: true},
		{Family: "bert", Prefixed: true, Labels: []string{"no", "yes", "maybe"}},
		{Family: "distilbert", Prefixed: true, Labels: []string{"a", "b"}},
		{Family: "xlm-roberta", Prefixed: true, Labels: []string{"one"}},
		{Family: "mpnet", Prefixed: true, Labels: []string{"x", "y"}, DType: "BF16"},
	} {
		name := fmt.Sprintf("%s/%s%s,prefixed=%t,norm=%t,%s,labels=%d", s.Family, s.DType, s.Act, s.Prefixed,
			s.Normalise, s.Pooling, len(s.Labels))
		t.Run(name, func(t *testing.T) { checkFamily(t, s) })
	}
}

func checkFamily(t *testing.T, s checkpoint.Spec) {
	dir := t.TempDir()
	if err := checkpoint.Write(dir, s); err != nil {
		t.Fatal(err)
	}
	limit := cmp.Or(s.MaxTokens, cmp.Or(s.Positions, 80))
	if s.MaxTokens == 0 && s.Shifted() {
		limit -= 2 // positions 0 and 1 are the pad's
	}
	in := task{Model: dir, Task: "embed", Pooling: cmp.Or(s.Pooling, "mean"), Normalise: s.Normalise, MaxTokens: limit,
		Texts: smallTexts()}
	var data []float32
	var tokens []int
	var truncated int
	ctx := context.Background()
	if len(s.Labels) > 0 {
		in.Task = "classify"
		c, err := OpenClassifier(ctx, dir, Options{MaxBatchTokens: 150})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		got, err := c.Classify(ctx, in.Texts)
		if err != nil {
			t.Fatal(err)
		}
		checkClasses(t, got, s.Labels)
		data, tokens, truncated = got.Logits, got.Tokens, got.Truncated
	} else {
		e := openEncoder(t, dir, Options{MaxBatchTokens: 150})
		got := embedAll(t, e, in.Texts, Document)
		data, tokens, truncated = got.Data, got.Tokens, got.Truncated
		if e.Info().MaxTokens != limit {
			t.Errorf("MaxTokens %d, expected %d", e.Info().MaxTokens, limit)
		}
		asked := embedAll(t, e, []string{"the gate"}, Query)
		plain := embedAll(t, e, []string{"ask: the gate"}, Document)
		if !slices.Equal(asked.Data, plain.Data) {
			t.Error("the query prefix is not put before a query")
		}
	}
	want, ids := reference(t, in)
	var scale, most float64
	dim := len(data) / len(in.Texts)
	for i := range want {
		if tokens[i] != len(ids[i]) {
			t.Errorf("text %d: %d tokens, the reference has %d", i, tokens[i], len(ids[i]))
		}
		for _, v := range want[i] {
			scale = max(scale, math.Abs(v))
		}
		most = max(most, worst(data[i*dim:(i+1)*dim], want[i]))
	}
	t.Logf("max |d| %.3g at a scale of %.3g; %d cut", most, scale, truncated)
	if truncated == 0 {
		t.Error("no text was cut")
	}
	if scale == 0 || !(most <= 2e-6*max(scale, 1)) {
		t.Errorf("max |d| = %g, at most 2e-6 × %g expected", most, scale)
	}
}

func checkClasses(t *testing.T, c *Classes, labels []string) {
	t.Helper()
	if !slices.Equal(c.Labels, labels) {
		t.Errorf("labels %v, expected %v", c.Labels, labels)
	}
	for i := range c.Best {
		var sum float64
		for j, p := range c.Row(i) {
			sum += float64(p)
			if p > c.Row(i)[c.Best[i]] {
				t.Errorf("text %d: class %d is likelier than the best", i, j)
			}
		}
		if len(labels) > 1 && math.Abs(sum-1) > 1e-6 {
			t.Errorf("text %d: probabilities sum to %g", i, sum)
		}
		if c.Label(i) != labels[c.Best[i]] {
			t.Errorf("text %d: label %q", i, c.Label(i))
		}
	}
}
