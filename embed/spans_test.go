package embed

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// testdata/golden-spans.json is what the pipeline of transformers makes of the same logits (testdata/spans.py).
func TestDecodeEqualsTransformers(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "golden-spans.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Labels []string
		Tokens []struct {
			Start, End int
			Begins     bool
			Logits     []float32
		}
		Spans []Span
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	spans := 0
	for i, c := range cases {
		var tokens []token
		var logits []float32
		for _, k := range c.Tokens {
			tokens, logits = append(tokens, token{k.Start, k.End, k.Begins}), append(logits, k.Logits...)
		}
		got := decode(tokens, logits, c.Labels)
		if !slices.EqualFunc(got, c.Spans, func(a, b Span) bool {
			return a.Label == b.Label && a.Start == b.Start && a.End == b.End &&
				math.Abs(float64(a.Probability-b.Probability)) < 1e-6
		}) {
			t.Errorf("case %d: %+v, expected %+v", i, got, c.Spans)
		}
		spans += len(got)
	}
	if len(cases) != 48 || spans < 100 {
		t.Errorf("%d cases with %d spans", len(cases), spans)
	}
}

func TestTrimmedSpans(t *testing.T) {
	text := " ab  \tcd\u00a0 "
	got := trimmed([]Span{{Start: 0, End: 1}, {Start: 0, End: 5}, {Start: 2, End: 3}, {Start: 4, End: len(text)}}, text)
	if want := []Span{{Start: 1, End: 3}, {Start: 6, End: 8}}; !slices.Equal(got, want) {
		t.Errorf("%+v, expected %+v", got, want)
	}
}

func TestScoresRanked(t *testing.T) {
	s := Scores{Logits: []float32{-1, 3, 3, 40, 41}}
	if got := s.Ranked(0); !slices.Equal(got, []int{4, 3, 1, 2, 0}) {
		t.Errorf("%v", got)
	}
	if s.Probability(3) != 1 || s.Probability(0) > .27 || s.Probability(0) < .26 {
		t.Errorf("%g %g", s.Probability(3), s.Probability(0))
	}
	if got := s.Ranked(2); !slices.Equal(got, []int{4, 3}) {
		t.Errorf("%v", got)
	}
}
