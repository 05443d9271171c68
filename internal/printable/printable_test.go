package printable

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestNothingReachesTheTerminal(t *testing.T) {
	for in, want := range map[string][2]string{ // as text, as line
		"plain, höher, 日本 👩‍👩‍👧 شكرا‏": {"plain, höher, 日本 👩‍👩‍👧 شكرا‏", "plain, höher, 日本 👩‍👩‍👧 شكرا‏"},
		"a\x1b[31mred\x1b]0;title\a":   {`a\x1b[31mred\x1b]0;title\x07`, `a\x1b[31mred\x1b]0;title\x07`},
		"a\r\nb\n\tc\rd":               {"a\nb\n\tc\\rd", `a\r\nb\n\tc\rd`},
		"csi \u009b31m \x9b del \x7f":  {`csi \x9b31m \x9b del \x7f`, `csi \x9b31m \x9b del \x7f`},
		"a\u202egpj.exe\u2066b\u2028c": {`a\u202egpj.exe\u2066b\u2028c`, `a\u202egpj.exe\u2066b\u2028c`},
		"":                             {"", ""},
	} {
		if got := Text(in); got != want[0] {
			t.Errorf("text %q: %q", in, got)
		}
		if got := Line(in); got != want[1] {
			t.Errorf("line %q: %q", in, got)
		}
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("a\x1b[2J\nb")
	f.Add("\xff\xfe\u009b")
	f.Fuzz(func(t *testing.T, s string) {
		text, line := Text(s), Line(s)
		for _, out := range []string{text, line} {
			if !utf8.ValidString(out) || strings.ContainsFunc(out, func(r rune) bool {
				return unicode.IsControl(r) && r != '\n' && r != '\t'
			}) {
				t.Fatalf("%q became %q", s, out)
			}
		}
		if strings.ContainsAny(line, "\n\t") || Text(text) != text || Line(line) != line {
			t.Fatalf("%q: %q, %q", s, text, line)
		}
	})
}
