package excerpt_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/rag/excerpt"
)

func TestSnippet(t *testing.T) {
	const passage = "One two three four five six. The nearest\nsentence is here. Seven eight nine ten eleven twelve."
	start := strings.Index(passage, "The")
	nearest := &excerpt.Sentence{Start: start, End: strings.Index(passage, " Seven")}
	for _, c := range []struct {
		runes int
		s     *excerpt.Sentence
		want  []excerpt.Part
	}{
		{400, nearest, []excerpt.Part{{Text: "One two three four five six."},
			{Text: "The nearest sentence is here.", Nearest: true}, {Text: " Seven eight nine ten eleven twelve."}}},
		{60, nearest, []excerpt.Part{{Text: "… five six."}, {Text: "The nearest sentence is here.", Nearest: true},
			{Text: "Seven eight nine …"}}},
		{30, nearest, []excerpt.Part{{Text: "The nearest sentence is here.", Nearest: true}}},
		{14, nearest, []excerpt.Part{{Text: "The nearest …", Nearest: true}}},
		{20, nil, []excerpt.Part{{Text: "One two three …"}}},
	} {
		got := excerpt.Snippet(passage, c.s, c.runes)
		total := 0
		for i := range got {
			total += utf8.RuneCountInString(got[i].Text)
		}
		for i := range c.want {
			c.want[i].Text = strings.TrimSpace(c.want[i].Text)
		}
		if diff := cmp.Diff(c.want, got); diff != "" || total > c.runes+2 {
			t.Errorf("%d runes, has %d: %s", c.runes, total, diff)
		}
	}
	// behind a sentence that was cut nothing follows: it would read as what comes next
	if got := excerpt.Snippet("aa bbbbbbbbbbbbbbbbbbbb. A thing.", &excerpt.Sentence{End: 24}, 14); len(got) != 1 ||
		got[0].Text != "aa …" {
		t.Errorf("behind a cut: %v", got)
	}
	if got := excerpt.Snippet(" \n", nil, 10); len(got) != 0 {
		t.Errorf("%v of nothing", got)
	}
}

func TestPartsKeepLines(t *testing.T) {
	const passage = "first\n\tcode\nnearest\nlast\n"
	at := strings.Index(passage, "nearest")
	got := excerpt.Parts(passage, &excerpt.Sentence{Start: at, End: at + len("nearest")})
	want := []excerpt.Part{{Text: "first\n\tcode"}, {Text: "nearest", Nearest: true}, {Text: "last"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := excerpt.Parts("abc", &excerpt.Sentence{Start: 2, End: 9}); len(got) != 1 || got[0].Text != "abc" {
		t.Errorf("a sentence of another text: %v", got)
	}
}
