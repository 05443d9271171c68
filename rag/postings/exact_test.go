package postings

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Names are terms as they are written, case and signs included; what only hyphens join is words.
func TestExact(t *testing.T) {
	for text, want := range map[string][]string{
		"the well-known end. (See also) A, B": nil,
		"uses (--leak-check=full), -H.":       {"--leak-check=full", "--leak-check", "-H"},
		"  -H, --header <file>  -k is not":    {"-H", "\n-H", "--header", "\n--header", "-k"},
		"/etc/passwd and git_config.c:12":     {"/etc/passwd", "git_config.c:12"},
		"grew to 1,311 on 2024-05-01, 3.5.":   {"1,311", "2024-05-01", "3.5"},
		"os.ReadFile() --- - -- ++ =":         {"os.ReadFile"},
		strings.Repeat("a/", 50):              nil,
		"--stages=[<list>]":                   {"--stages=[<list", "--stages", "\n--stages"},
	} {
		var got []string
		exact(text, false, func(term string) { got = append(got, term) })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

// The definition of an option is before what mentions it, and before what has other options of its parts.
func TestOptionsAreFoundWhole(t *testing.T) {
	x := index(t, inEnglish("A check of the leak, full of leaks: check full tanks, check, check.",
		"--leak-check-heuristics=full\nFull checks of heuristics for a leak check.",
		"Memory is searched with --leak-check=full at exit, --leak-check=full helps.",
		"--leak-check=<no|full>\nSearch for memory at exit.", "-h\nPrint help.", "-H\nHistory, see -h."), never)
	for text, want := range map[string]int{"What does --leak-check do?": 3, "What does -H do?": 5, "-h": 4} {
		for _, kind := range []Kind{BM25, Cover} {
			hits, err := query(t, x, text, Scoring{Kind: kind}).TopK(t.Context(), 1, nil)
			if err != nil || len(hits) != 1 || hits[0].Row != want {
				t.Errorf("%s by %s: %v, %v", text, kind, hits, err)
			}
		}
	}
}

// A name that no text has changes nothing.
func TestUnknownNamesCountNothing(t *testing.T) {
	x := index(t, inEnglish("a pump of three bar", "a valve"), never)
	q := query(t, x, "pump a/b/c", Scoring{Kind: Cover})
	if n := len(q.Terms()); n != 3 { // pump, b, c
		t.Errorf("%d terms: %v", n, q.Terms())
	}
}

// Rows whose texts are alike are told apart by what their documents are about, which counts nothing in their length.
func TestAboutCounts(t *testing.T) {
	text := "Revenue grew and came to many million euros."
	x := index(t, library{{Text: text, Language: "en", About: "Alderon report 2021"},
		{Text: text, Language: "en", About: "Bexley report 2021"},
		{Text: text, Language: "en", About: "Bexley report 2022"},
		{Text: text, Language: "en"}}, never)
	for _, kind := range []Kind{BM25, TFIDF, Cover} {
		q := query(t, x, "How high was Bexley's revenue in 2022?", Scoring{Kind: kind})
		hits, err := q.TopK(t.Context(), 4, nil)
		if err != nil || len(hits) != 4 || hits[0].Row != 2 || hits[1].Row != 1 {
			t.Errorf("%s: %v, %v", kind, hits, err)
		}
	}
	if x.length(0) != x.length(3) {
		t.Errorf("%d and %d terms", x.length(0), x.length(3))
	}
}
