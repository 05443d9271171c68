package corpus

import (
	"encoding/json"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestUnquoteInPlace: a string decoded in place equals one decoded into new memory, with the same offsets, also if its
// errors take more bytes than they replace.
func TestUnquoteInPlace(t *testing.T) {
	pieces := []string{"word ", "\xff", "\xe2\x82", `\n`, `\u0000`, `\ud800`, `\ud83d\ude00`, `\ufffd`, "\ufffd",
		"ä", "😀", `\"`, `\\`, `\/`, strings.Repeat("plain text ", 900), `\u00e4`}
	rng := rand.New(rand.NewPCG(43, 1))
	for n := range 3000 {
		var b strings.Builder
		b.WriteByte('"')
		for range rng.IntN(12) {
			b.WriteString(pieces[rng.IntN(len(pieces))])
		}
		if n%10 == 0 {
			b.WriteString(strings.Repeat("\xff", rng.IntN(50)))
		}
		lit := b.String() + `"`
		if !json.Valid([]byte(lit)) {
			t.Fatalf("%q", lit)
		}
		text, m, repaired := unquote([]byte(lit), 7, false, nil)
		inPlace, m2, repaired2 := unquote([]byte(lit), 7, true, nil)
		if text != inPlace || repaired != repaired2 || !slices.Equal(m, m2) {
			t.Fatalf("%q:\n%q, %d, %v\n%q, %d, %v", lit, text, repaired, m, inPlace, repaired2, m2)
		}
		var want string
		if err := json.Unmarshal([]byte(lit), &want); err != nil {
			t.Fatal(err)
		}
		if want = strings.ReplaceAll(want, "\x00", ""); text != want {
			t.Fatalf("%q is %q, want %q", lit, text, want)
		}
	}
}

// TestBigJSONLine: the text of a long line is decoded in place.
func TestBigJSONLine(t *testing.T) {
	line := `{"id":"a","title":"T","text":"` + strings.Repeat("a word and ", 2<<20) + `"}`
	raw := []byte(line)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	d, err := parseJSONLine(raw, 0, true, nil)
	runtime.ReadMemStats(&after)
	if err != nil || d.ID != "a" || d.Title != "T" || len(d.Text) != 11*2<<20 {
		t.Fatal(err, d.ID, d.Title, len(d.Text))
	}
	if n := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(line)); n > .1 {
		t.Errorf("%.2f bytes are allocated for each byte of a line", n)
	}
	again, err := parseJSONLine([]byte(line), 0, false, nil)
	if err != nil || again.Text != d.Text || d.ID != again.ID {
		t.Error("the text differs from one that is decoded beside the line")
	}
}
