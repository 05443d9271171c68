package excerpt_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/test/doubling"
	"github.com/sluice-rag/sluice/rag/excerpt"
)

// units returns the texts of a passage's units, which must stand where they say.
func units(t testing.TB, passage string) (list []string) {
	t.Helper()
	at := 0
	for _, u := range excerpt.Split(passage) {
		if passage[u.Start:u.End] != u.Text || u.Start < at || strings.TrimSpace(u.Text) == "" {
			t.Fatalf("%+v stands in a place that begins before %d, or is empty", u, at)
		}
		if n := excerpt.Words(u.Text); n > 60 {
			t.Fatalf("a unit of %d words: %q", n, u.Text)
		}
		at = u.End
		list = append(list, u.Within(passage))
	}
	return list
}

func same(t *testing.T, passage string, want ...string) {
	t.Helper()
	if got := units(t, passage); !slices.Equal(got, want) {
		t.Errorf("%q is cut into\n%q, not\n%q", passage, got, want)
	}
}

func TestSentencesAndItemsAreUnits(t *testing.T) {
	same(t, "The ports are old. They are deep.\n\n- Bergen: the oldest port\n- Narvik: the deepest\n  port of all\n\nEnd",
		"The ports are old.", "They are deep.", "- Bergen: the oldest port", "- Narvik: the deepest\n  port of all",
		"End")
	same(t, "1. One thing. And more.\n2. Another || thing | here.", "1. One thing.", "And more.",
		"2. Another || thing | here.")
	same(t, " … \n\n***\n")
}

// TestRowsAreUnits: each brings the names of its columns, unless it says them itself or nothing names them.
func TestRowsAreUnits(t *testing.T) {
	same(t, "Ports:\n| port | depth |\n|---|---:|\n| Narvik | 20 |\n| Oslo | 15 |\nThey are deep.",
		"Ports:", "| port | depth |\n|---|---:|\n| Narvik | 20 |", "| port | depth |\n|---|---:|\n| Oslo | 15 |",
		"They are deep.")
	same(t, "port | depth\nNarvik | 20\nOslo | 15", "port | depth\nNarvik | 20", "port | depth\nOslo | 15")
	same(t, "port: Narvik | depth: 20\nport: Oslo | depth: 15", "port: Narvik | depth: 20", "port: Oslo | depth: 15")
	same(t, "port\tdepth\nNarvik\t20\nOslo\t15\n", "port\tdepth\nNarvik\t20", "port\tdepth\nOslo\t15")
	same(t, "Port      Depth\nNarvik    20 m\nOslo      15 m\n", "Port      Depth\nNarvik    20 m",
		"Port      Depth\nOslo      15 m")
	same(t, "+------+----+\n| port | m  |\n+======+====+\n| Oslo | 15 |\n+------+----+\n",
		"| port | m  |\n+======+====+\n| Oslo | 15 |")
	same(t, "12 | 13\n14 | 15", "12 | 13", "14 | 15")
	same(t, "Region | 2019 | 2020\nNorth | 5 | 7\nSouth |  | 9", "Region | 2019 | 2020\nNorth | 5 | 7",
		"Region | 2019 | 2020\nSouth |  | 9")
	same(t, "| | 2019 | 2020\nNorth | 5 | 7\nSouth |  | 9", "| | 2019 | 2020\nNorth | 5 | 7",
		"| | 2019 | 2020\nSouth |  | 9")
	same(t, "price: 3\nprice: 4\nprice: 5", "price: 3", "price: 4", "price: 5")
	same(t, "call: f() | result: a = b\ncall: g() | result: c = d", "call: f() | result: a = b",
		"call: g() | result: c = d")
}

// TestProseIsNoTable: two spaces behind a sentence, a bar in a line, and lines of one length are prose.
func TestProseIsNoTable(t *testing.T) {
	same(t, "One is here.  Two is\nthere.  Three is nowhere.\nFour.  Five.", "One is here.", "Two is\nthere.",
		"Three is nowhere.", "Four.", "Five.")
	same(t, "Either a|b is written\nor c|d is; both\nare fine;\nsays he.",
		"Either a|b is written\nor c|d is; both\nare fine;\nsays he.")
}

func TestStatementsAreUnits(t *testing.T) {
	const fenced = "Call it:\n\n```go\nx := one()\n// Two is next.\ny := two(\n\tx,\n)\n\nif y {\n\treturn x\n}\n```\nIt works. So there."
	same(t, fenced, "Call it:", "x := one()", "// Two is next.\ny := two(\n\tx,\n)", "if y {\n\treturn x\n}",
		"It works.", "So there.")
	same(t, "def area(r):\n    return 3 * r\n\nprint(area(2))\nx = area(3)", "def area(r):\n    return 3 * r",
		"print(area(2))", "x = area(3)")
	same(t, "~~~\nan unclosed fence\nhas lines", "an unclosed fence", "has lines")
}

// TestLongSentencesAreCutAtClauses, of which those that cannot stand alone say so.
func TestLongSentencesAreCutAtClauses(t *testing.T) {
	clause := func(word string, n int) string { return strings.TrimSpace(strings.Repeat(word+" ", n)) }
	a, b, c := clause("red", 40), clause("green", 40), clause("blue", 40)
	for _, x := range []struct {
		text string
		want []string
		lean []bool
	}{
		{a + "; " + b + ", and " + c + ".", []string{a + ";", b + ",", "and " + c + "."}, []bool{false, false, true}},
		{a + ", which " + b + ", " + c, []string{a + ",", "which " + b + ",", c}, []bool{false, true, true}},
		{a + ", deren " + b + " – " + c, []string{a + ",", "deren " + b + " –", c}, []bool{false, true, false}},
		{clause("red", 100), []string{clause("red", 60), clause("red", 40)}, []bool{false, true}},
	} {
		var got []string
		var lean []bool
		for _, u := range excerpt.Split(x.text) {
			got, lean = append(got, u.Text), append(lean, u.Leans)
		}
		if !slices.Equal(got, x.want) || !slices.Equal(lean, x.lean) {
			t.Errorf("%q\n%v, not\n%q\n%v", got, lean, x.want, x.lean)
		}
	}
}

// TestLongUnits: what has no clause, no space or no sense is cut all the same, and nothing of it is lost.
func TestLongUnits(t *testing.T) {
	for name, passage := range map[string]string{
		"words":       strings.Repeat("word ", 5000),
		"no spaces":   strings.Repeat("x", 50_000),
		"Chinese":     strings.Repeat("海", 5000),
		"a row":       "a | b\n" + strings.Repeat("cell ", 3000) + "| " + strings.Repeat("word ", 3000),
		"a line":      "```\n" + strings.Repeat("f(x);", 5000) + "\n```",
		"NUL":         strings.Repeat("a\x00b\x00 ", 5000),
		"not UTF-8":   strings.Repeat("a\xff\xfe b ", 5000),
		"long header": "x | " + strings.Repeat("name ", 100) + "\n1 | 2\n3 | 4",
	} {
		got := strings.Join(units(t, passage), "")
		if n := letters(passage); letters(got) < n-20 {
			t.Errorf("%s: %d letters of %d", name, letters(got), n)
		}
	}
}

func letters(s string) (n int) {
	for _, r := range s {
		if r > ' ' && r != utf8.RuneError && r != '|' && r != '`' {
			n++
		}
	}
	return n
}

// FuzzSplit: any text is cut into units that stand in it one behind the other.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{
		ship, call, "a | b\n1 | 2\n", "|a|\n|-|\n|b|", "```\nx\n```", "x := 1\n\ty()\n}", "a\tb\nc\td",
		"A  b\nC  d\nE  f", "\xff\x00, und das; or", strings.Repeat("a, and b; c – d: ", 30), "海海海，海", "~~~~\n~~~\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, passage string) { units(t, passage) })
}

// TestSplitIsLinear looks for texts whose time grows faster than their length, when it is asked for.
func TestSplitIsLinear(t *testing.T) {
	doubling.Search(t, []string{
		"word ", "a, and b; ", "| a | b |\n", "|---|---|\n", "```\n", "~~~", "\t", "    ", "x := f(", ")\n", "a\tb\n",
		"a  b  c\n", "- item\n", "1. ", "\n\n", "海", "\xff", "\x00", "Dr. ", "z. B. ", "\"", "(", "// c\n",
		"{\n", "}\n",
	}, func(text string) { excerpt.Split(text) })
}

// TestColumnsOfTwoRows: a row is quoted below both rows that name its columns.
func TestColumnsOfTwoRows(t *testing.T) {
	const passage = "Port | 2023 |  | 2024\nPort | Q1 | Q2 | Q1\nOslo | 1 | 2 | 3\nBergen | 4 | 5 | 6"
	units := excerpt.Split(passage)
	if len(units) != 2 {
		t.Fatalf("%+v", units)
	}
	for i, want := range []string{"Oslo | 1 | 2 | 3", "Bergen | 4 | 5 | 6"} {
		u := units[i]
		head := passage[u.Columns.Start:u.Columns.End]
		if u.Text != want || head != "Port | 2023 |  | 2024\nPort | Q1 | Q2 | Q1" {
			t.Errorf("%q below %q, want %q", u.Text, head, want)
		}
	}
}
