package printable_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/printable"
)

func TestMessage(t *testing.T) {
	digits, path := strings.Repeat("7", 1_000_000), strings.Repeat("/folder", 50)
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"no such file: " + path, "no such file: " + path},
		{"k must be at most 1000, given " + digits + " (byte 12)",
			"k must be at most 1000, given " + digits[:200] + "…(999700 bytes left out)…" + digits[:100] +
				" (byte 12)"},
		{strings.Repeat("ab ", 400), strings.Repeat("ab ", 400)},
	} {
		if got := printable.Message(c.in); got != c.want {
			t.Errorf("%.200q", got)
		}
	}
	for _, long := range []string{digits, "a b " + strings.Repeat("ö", 300_001) + " c",
		strings.Repeat("wörd ", 100_000), strings.Repeat(" ", 100_000) + "x", strings.Repeat("\xff", 100_000)} {
		got := printable.Message(long)
		if len(got) > 4100 || !strings.Contains(got, "bytes left out)") ||
			utf8.ValidString(long) && !utf8.ValidString(got) {
			t.Errorf("%d bytes: %.200q", len(got), got)
		}
	}
}
