//go:build native

package embed

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/test/race"
)

// TestLongTextsWithoutSpaces: what is read of a long text gives the ids of the whole one, wherever it is cut, and
// whatever is left out of it.
func TestLongTextsWithoutSpaces(t *testing.T) {
	race.Skip(t)
	needLibrary(t)
	tok := openEncoder(t, minilm(t), Options{}).tok
	if tok.wordChars != 100 {
		t.Fatalf("words of %d characters", tok.wordChars)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	pieces := []string{"a", "lighthouse", "keeper", ",", ";", "(", "灯", "塔", "й", "e\u0301", "é", "\u200b", "\x01", "7",
		"ß", "-", "[SEP]", "[MASK]", "\ufffd", "ก", "ำ", "ﬁ", "Ⅷ"}
	blanks := []string{" ", "\n", "\t ", "   ", "\u00a0", "\u3000"}
	for round := range 60 {
		var b strings.Builder
		size := 3000 + rng.IntN(12000)
		if round%4 == 0 {
			size = condenses + rng.IntN(20000)
		}
		some := pieces[:1+rng.IntN(len(pieces))]
		gap := 1 + rng.IntN(400)
		for b.Len() < size {
			piece := some[rng.IntN(len(some))]
			for range 1 + rng.IntN(1+rng.IntN(200)) {
				b.WriteString(piece)
			}
			if rng.IntN(gap) == 0 {
				for range 1 + rng.IntN(30) {
					b.WriteString(blanks[rng.IntN(len(blanks))])
				}
			}
		}
		text, limit := b.String(), 8+rng.IntN(400)
		e, err := tok.encoding(text)
		if err != nil {
			t.Fatal(err)
		}
		want, wantCut := truncate(e.IDs, limit, tok.closing)
		ids, _, err := tok.encodeHead(text, limit)
		if err != nil {
			t.Fatal(err)
		}
		got, cut := truncate(ids, limit, tok.closing)
		if !slices.Equal(want, got) || cut != wantCut {
			t.Errorf("round %d, limit %d, cut %v, want %v: %d ids, want %d", round, limit, cut, wantCut, len(got),
				len(want))
		}
		if all, err := tok.encode(text); err != nil || !slices.Equal(all, e.IDs) {
			t.Errorf("round %d: %d ids of the condensed text, want %d: %v", round, len(all), len(e.IDs), err)
		}
	}
	for _, text := range []string{strings.Repeat("a", 8_000_000), strings.Repeat("ab,", 3_000_000),
		strings.Repeat("灯塔", 1_000_000), strings.Repeat(" ", 8_000_000), strings.Repeat("й", 4_000_000)} {
		begun := time.Now()
		if _, _, err := tok.encodeHead(text, 256); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 2*time.Second { // it took 10 s and more
			t.Errorf("%.4q… takes %v", text, took)
		}
	}
}
