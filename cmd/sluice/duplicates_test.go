package main

import (
	"strings"
	"testing"
)

// TestDuplicates checks that copies of a chunk form one group: the same text in another document, and a text with one
// word changed. Other chunks are in no group.
func TestDuplicates(t *testing.T) {
	b := newBench(t)
	text := strings.Repeat("Ships wait outside of the harbour for the boat of the pilot, who knows the sands. ", 1) +
		"He guides them in at high water, when the bar is deep enough for cargo, and out again with the ebb."
	b.file("docs/a.txt", text)
	b.file("docs/b.txt", text)
	b.file("docs/c.txt", strings.Replace(text, "cargo", "freight", 1))
	b.file("docs/d.txt", "Bread dough rises in a warm bowl, and then it goes into the oven for half an hour.")
	b.ok("ingest", "--chunk", "60/2",
		b.file("docs/e.txt", "A chess king moves one square, and the queen as far as she likes.")[:len(b.dir)+5])
	groups := objects(t, b.ok("docs", "duplicates", "--json"))
	if len(groups) != 1 {
		t.Fatalf("%v", groups)
	}
	chunks := groups[0]["chunks"].([]any)
	var from []string
	for i, c := range chunks {
		m := c.(map[string]any)
		source := m["source"].(string)
		from = append(from, source[len(source)-5:])
		if (m["of"] == nil) != (i == 0) {
			t.Errorf("%d is of %v", i, m["of"])
		}
	}
	if strings.Join(from, " ") != "a.txt b.txt c.txt" {
		t.Errorf("%v", from)
	}
	if out := b.ok("docs", "duplicates", "--words", "0.99"); strings.Contains(out, "c.txt") ||
		!strings.Contains(out, "b.txt") {
		t.Errorf("%s", out)
	}
	b.fails(exitUsage, "from 0 to 1", "docs", "duplicates", "--cosine", "2")
}
