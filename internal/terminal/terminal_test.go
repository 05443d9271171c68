package terminal_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/internal/terminal"
)

func TestNoTerminalIsPlain(t *testing.T) {
	s := terminal.Of(&bytes.Buffer{}, []string{"TERM=xterm"})
	if s != (terminal.Screen{}) || s.Terminal() || s.Bold("x") != "x" || s.Bad("") != "" {
		t.Errorf("%+v", s)
	}
	long := strings.Repeat("word ", 100)
	if got := s.Wrap(long+"\nb", "> ", "  "); got != "> "+strings.TrimRight(long, " ")+"\n  b\n" {
		t.Errorf("broken: %q", got)
	}
}

func TestWrap(t *testing.T) {
	s := terminal.Screen{Columns: 20}
	for _, c := range []struct{ text, first, rest, want string }{
		{"short", "- ", "  ", "- short\n"},
		{"", "- ", "  ", "-\n"},
		{"one two three four five", "- ", "  ", "- one two three four\n  five\n"},
		{"averyveryveryverylongword and more", "", "", "averyveryveryverylongword\nand more\n"},
		{"    indented code that is long", "", "  ", "    indented code\n  that is long\n"},
		{"name   value that is long", "", "       ", "name   value that is\n       long\n"},
		{"two\nlines", "> ", "| ", "> two\n| lines\n"},
		{"漢字漢字漢字 漢字漢字", "", "", "漢字漢字漢字\n漢字漢字\n"},
	} {
		if diff := cmp.Diff(c.want, s.Wrap(c.text, c.first, c.rest)); diff != "" {
			t.Errorf("%q: %s", c.text, diff)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text  string
		cells int
		tail  bool
		want  string
	}{
		{"abcdef", 6, false, "abcdef"}, {"abcdef", 4, false, "abc…"}, {"abcdef", 4, true, "…def"},
		{"漢字漢字", 5, false, "漢字…"}, {"漢字漢字", 4, true, "…字"}, {"abc", 0, false, "…"},
	} {
		if got := terminal.Cut(c.text, c.cells, c.tail); got != c.want {
			t.Errorf("%q in %d cells is %q, want %q", c.text, c.cells, got, c.want)
		}
	}
}

// TestWriterBreaksLikeWrap streams a text in pieces of every size.
func TestWriterBreaksLikeWrap(t *testing.T) {
	text := "The quick brown fox jumps over the lazy dog.\n\n- a list, with   spaces\n漢字漢字漢字漢字 漢字漢字漢字漢字 end"
	want := "The quick brown fox\njumps over the lazy\ndog.\n\n- a list, with  \nspaces\n漢字漢字漢字漢字\n漢字漢字漢字漢字 end"
	want = strings.ReplaceAll(want, "with  \n", "with\n")
	for size := 1; size <= len(text); size++ {
		var b bytes.Buffer
		w := terminal.NewWriter(&b, terminal.Screen{Columns: 20})
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if _, err := io.WriteString(w, rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Fatalf("pieces of %d: %s", size, diff)
		}
	}
	var b bytes.Buffer
	if _, err := io.WriteString(terminal.NewWriter(&b, terminal.Screen{}), text); err != nil || b.String() != text {
		t.Errorf("no terminal, and not passed on: %q", b.String())
	}
}

func TestHanging(t *testing.T) {
	var b bytes.Buffer
	h := terminal.NewHanging(&b, terminal.Screen{Columns: 20}, 5)
	for _, piece := range []string{"name one two th", "ree four\nna", "me a\nrest"} {
		if _, err := io.WriteString(h, piece); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Flush(); err != nil || b.String() != "name one two three\n     four\nname a\nrest" {
		t.Errorf("%q, %v", b.String(), err)
	}
}

func TestTable(t *testing.T) {
	table := terminal.Table{Columns: []terminal.Column{{Title: "ID", Keep: true}, {Title: "N", Right: true},
		{Title: "TITLE"}, {Title: "SOURCE", Path: true}}}
	table.Add("a", "7", "A title that is rather long", "/some/where/below/a.md")
	table.Add("bcd", "1234", "", "b.md")
	plain := "ID      N  TITLE                        SOURCE\n" +
		"a       7  A title that is rather long  /some/where/below/a.md\n" +
		"bcd  1234                               b.md\n"
	if diff := cmp.Diff(plain, table.Text(terminal.Screen{})); diff != "" {
		t.Error(diff)
	}
	narrow := "ID      N  TITLE         SOURCE\n" +
		"a       7  A title that…  …below/a.md\n" +
		"bcd  1234                b.md\n"
	got := table.Text(terminal.Screen{Columns: 40})
	for line := range strings.Lines(got) {
		if terminal.Width(strings.TrimSuffix(line, "\n")) > 40 {
			t.Errorf("%q is wider than 40", line)
		}
	}
	if !strings.Contains(got, "A title") || !strings.Contains(got, "a.md") || got == plain {
		t.Errorf("%s\nwant about\n%s", got, narrow)
	}
	table.Columns[1].Spare, table.Columns[3].Spare, table.Columns[2].Keep = true, true, true
	if diff := cmp.Diff("ID   TITLE\na    A title that is rather long\nbcd\nno room for: N, SOURCE (--json\nhas all)\n",
		table.Text(terminal.Screen{Columns: 33})); diff != "" {
		t.Error(diff)
	}
	if coloured := table.Text(terminal.Screen{Columns: 80, Colour: true}); !strings.HasPrefix(coloured, "\x1b[1mID") {
		t.Errorf("%q", coloured)
	}
}
