package prompt

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCite(t *testing.T) {
	for _, c := range []struct {
		answer string
		want   []int
	}{
		{"Yes [1].", []int{1}},
		{"Both [1, 2].", []int{1, 2}},
		{"Both [1][3].", []int{1, 3}},
		{"Range [1-3] or [2–4].", []int{1, 2, 3, 4}},
		{"Mixed [1, 3-4; 2]", []int{1, 2, 3, 4}},
		{"[Passage 2] and [source 3] and [1 and 4]", []int{1, 2, 3, 4}},
		{"Laut [Quelle 2] und 【3】.", []int{2, 3}},
		{"Not shown [9], [0], [9999-1], [1-9999].", []int{1, 2, 3, 4}},
		{"A list [5-9].", nil},
		{"Code `a[1]` and ```\nb[2]\n``` but [3].", []int{3}},
		{"Open ```c[1]", nil},
		{"[a1] [1a] [x] [] [ ] (1) 1", nil},
		{"[12345678901234567890]", nil},
		{"", nil},
	} {
		in := []Citation{{Number: 1}, {Number: 2}, {Number: 3, Cited: true}, {Number: 4}}
		var got []int
		for _, x := range Cite(c.answer, in) {
			if x.Cited {
				got = append(got, x.Number)
			}
		}
		if !cmp.Equal(got, c.want) {
			t.Errorf("%q cites %v, want %v", c.answer, got, c.want)
		}
		if !in[2].Cited || in[0].Cited {
			t.Fatal("the argument was changed")
		}
	}
	if Cite("[1]", nil) != nil {
		t.Error("nil became something")
	}
}

func TestTransform(t *testing.T) {
	const q = "How do slices grow?"
	for _, c := range []struct {
		transform Transform
		answer    string
		want      []string
		fallback  bool
	}{
		{Rewrite, "Rewritten question: \"How does append grow a slice?\"\nI hope this helps!",
			[]string{"How does append grow a slice?"}, false},
		{Rewrite, "Here is the question:\n\n**How does append grow a slice?**",
			[]string{"How does append grow a slice?"}, false},
		{Rewrite, " \n?!\n", []string{q}, true},
		{Rewrite, "No, they do not grow.", []string{q}, true}, // an answer
		// the template's example
		{Rewrite, "How large is the Moon compared to the Earth?", []string{q}, true},
		// another subject
		{Rewrite, "What is a map?\nHow do Go slices grow?", []string{"How do Go slices grow?"}, false},
		{StepBack, "How do slices grow", []string{q}, true},
		{Decompose, "1. The capital of France is Paris.\n2. How old is the capital of Spain?", []string{q}, true},
		{HyDE, "A slice grows\n\nby append.", []string{"A slice grows by append."}, false},
		{HyDE, "…", []string{q}, true},
		{StepBack, "How do data structures grow?", []string{q, "How do data structures grow?"}, false},
		{StepBack, "", []string{q}, true},
		{Decompose, "1. What is a slice?\n2) How does it grow?\n- What is append?\n4. One too many?",
			[]string{q, "What is a slice?", "How does it grow?", "What is append?"}, false},
		{Decompose, "1. What is a slice? 2. How does it grow?", []string{q, "What is a slice?", "How does it grow?"},
			false},
		{MultiQuery, "Sure:\n* How do slices grow\n* how does a slice grow?\n* How does a slice grow",
			[]string{q, "how does a slice grow?"}, false},
		{MultiQuery, "How do slices grow?", []string{q}, true},
		{MultiQuery, "Frage 1: Wie wachsen Slices?\nQuestion 2: „Wie wächst ein Slice?“",
			[]string{q, "Wie wachsen Slices?", "Wie wächst ein Slice?"}, false},
	} {
		d := &double{answer: c.answer}
		r, err := library(t).Apply(t.Context(), d, c.transform, Asked{Question: q})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Transformed{Queries: c.want, Fallback: c.fallback}, r); diff != "" {
			t.Errorf("%s of %q (-want +got):\n%s", c.transform, c.answer, diff)
		}
		if d.request.MaxTokens == 0 || d.request.MaxTokens > 128 || d.request.Temperature != 0 {
			t.Errorf("%s: request %+v", c.transform, d.request)
		}
	}
	for _, none := range []Transform{None, ""} {
		r, err := library(t).Apply(t.Context(), nil, none, Asked{Question: q}) // the model is not asked
		if err != nil || !cmp.Equal(r.Queries, []string{q}) {
			t.Errorf("%q: %v %v", none, r, err)
		}
	}
	if _, err := library(t).Apply(t.Context(), nil, "magic", Asked{Question: q}); !errors.Is(err, ErrTemplate) ||
		!strings.Contains(err.Error(), "multi-query") {
		t.Errorf("unknown: %v", err)
	}
	r, err := library(t).Apply(t.Context(), &double{err: context.Canceled}, HyDE, Asked{Question: q})
	if !errors.Is(err, context.Canceled) || len(r.Queries) != 1 {
		t.Errorf("failing model: %v %v", r, err)
	}
}

func FuzzCite(f *testing.F) {
	for _, s := range []string{"[1]", "[1, 2-3]", "【4】", "`[1]`", "[99999-1]", "[passage 1 und 2]", "[1–"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		in := []Citation{{Number: 1}, {Number: 2}}
		out := Cite(answer, in)
		if len(out) != 2 || out[0].Number != 1 || out[1].Number != 2 {
			t.Fatalf("%+v", out)
		}
		if out[0].Cited && !strings.ContainsAny(answer, "[【") {
			t.Fatalf("%q cites without a bracket", answer)
		}
	})
}

func FuzzList(f *testing.F) {
	for _, s := range []string{"1. a\n2. b", "- a\n* b\n• c", "1) a 2) b", "Question: x", "Here:\n", "\"a\"\n„b“",
		"1.1. a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		items := list(answer)
		if len(distinct(items)) != len(items) {
			t.Fatalf("%q", items)
		}
		for _, s := range items {
			if !hasWord(s) || strings.ContainsAny(s, "\n\r") || s != strings.TrimSpace(s) {
				t.Fatalf("item %q", s)
			}
		}
	})
}

// TestBlankCitations: an answer keeps its length, and code its brackets.
func TestBlankCitations(t *testing.T) {
	for answer, want := range map[string]string{"It is [1, 2].": "It is       .", "【3】x": strings.Repeat(" ", 7) + "x",
		"`a[1]` [1] ```b[2]```[2]": "`a[1]`     ```b[2]```   ", "[one] [12345]": "[one] [12345]", "": ""} {
		if got := BlankCitations(answer); got != want {
			t.Errorf("%q became %q, not %q", answer, got, want)
		}
	}
}
