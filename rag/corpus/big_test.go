package corpus

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

// paragraph is about n bytes of words in one line.
func paragraph(n int) string {
	const words = "the pump opens its second valve when pressure falls below three bars "
	return strings.Repeat(words, n/len(words)+1)
}

// The first chunk of a paragraph of any length comes when its own text has been measured, and a cancelled context ends
// the rest at once.
func TestBigParagraphComesInPieces(t *testing.T) {
	measured := 0
	o := ChunkOptions{Size: 256, Overlap: 2, Count: func(text string) (int, error) {
		measured += len(text)
		return countTokens(text)
	}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	chunks, last := 0, error(nil)
	for _, last = range Chunks(ctx, &Document{ID: "d", Text: paragraph(16 << 20)}, o) {
		if last != nil {
			break
		}
		if chunks++; chunks == 1 {
			if measured > 1<<20 {
				t.Errorf("%d bytes were measured before the first chunk", measured)
			}
			cancel()
			measured = 0
		}
	}
	if !errors.Is(last, context.Canceled) || chunks != 1 || measured > 4<<10 {
		t.Errorf("%d chunks, %d more bytes measured, %v", chunks, measured, last)
	}
}

// Many tiny sections, long sections and one huge section: pieces come in the order of the text.
func TestPiecesAreTheWhole(t *testing.T) {
	var text strings.Builder
	for i := range 40 {
		text.WriteString("# Tiny\n\nA few words.\n\n")
		if i%5 == 0 {
			text.WriteString("# Long\n\n" + paragraph(i*700) + "\n\n")
		}
	}
	d := &Document{ID: "d"}
	if !parseMarkdown(d, decode([]byte(text.String()))) {
		t.Fatal("hostile")
	}
	for _, size := range []int{12, 32, 100, 256} {
		o := ChunkOptions{Size: size, Overlap: 2, Count: countTokens}
		chunks, err := Split(d, o)
		if err != nil {
			t.Fatal(err)
		}
		checkChunks(t, d, o, chunks, nil)
		if !slices.IsSortedFunc(chunks, func(a, b Chunk) int { return a.Start - b.Start }) {
			t.Errorf("size %d: out of order", size)
		}
		n := 0
		for _, err := range Chunks(t.Context(), d, o) {
			if n++; err != nil || n == 3 {
				break
			}
		}
		if n != 3 {
			t.Errorf("size %d: %d pieces before the end that was asked for", size, n)
		}
	}
}
