package prompt

import (
	"fmt"
	"strings"
	"testing"
)

func TestMarks(t *testing.T) {
	c := Citations(make([]Passage, 3))
	for answer, want := range map[string]string{
		"":                            "",
		"It is so [1].":               "1:9-12",
		"Ä [2], b [1, 3] and [9].":    "2:3-6 1:10-16 3:10-16",
		"[1-3]":                       "1:0-5 2:0-5 3:0-5",
		"`a[1]` and [passage 2]":      "2:11-22",
		"```\nx[1]\n``` then [3] [1]": "3:18-21 1:22-25",
	} {
		var got []string
		for _, m := range Marks(answer, c) {
			got = append(got, fmt.Sprintf("%d:%d-%d", m.Citation.Number, m.Start, m.End))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q: %s, want %s", answer, s, want)
		}
	}
}
