package corpus

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// countTokens is about what a WordPiece tokenizer does: two special tokens, a token per punctuation
// mark and per four letters of a word.
func countTokens(text string) (int, error) {
	n, word := 2, 0
	for _, r := range text + " " {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			word++
			continue
		}
		n, word = n+(word+3)/4, 0
		if !unicode.IsSpace(r) {
			n++
		}
	}
	return n, nil
}

// load loads paths and returns documents and skips; errors fail the test.
func load(t testing.TB, o LoadOptions, paths ...string) ([]*Document, []Skipped) {
	t.Helper()
	var docs []*Document
	var skips []Skipped
	o.OnSkip = func(s Skipped) { skips = append(skips, s) }
	for d, err := range Load(context.Background(), paths, o) {
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, d)
	}
	return docs, skips
}

// write makes a file below dir and returns its path.
func write(t testing.TB, dir, name, content string) string {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	p := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(p, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(p)
	if err != nil {
		t.Fatalf("%v (run with -update)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", p, diff)
	}
}

// squeeze removes white space.
func squeeze(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
}

// checkChunks asserts what Split promises for any document.
func checkChunks(t interface{ Fatalf(string, ...any) }, d *Document, o ChunkOptions, chunks []Chunk, skips []Skipped) {
	seen := map[string]bool{}
	for _, c := range chunks {
		n, _ := o.Count(c.EmbedText())
		if n > o.Size || n != c.Tokens {
			t.Fatalf("%s: %d tokens, said %d, limit %d: %q", c.ID, n, c.Tokens, o.Size, c.EmbedText())
		}
		if n, _ := o.Count(c.Text); n > o.Size {
			t.Fatalf("%s: text alone has %d tokens, limit %d", c.ID, n, o.Size)
		}
		if seen[c.ID] {
			t.Fatalf("id %s twice", c.ID)
		}
		seen[c.ID] = true
		if c.Start < 0 || c.Start >= c.End {
			t.Fatalf("%s: range %d to %d", c.ID, c.Start, c.End)
		}
		if !utf8.ValidString(c.Text) || !utf8.ValidString(c.ID) || !utf8.ValidString(c.Heading) {
			t.Fatalf("%q: invalid UTF-8", c.ID)
		}
		if !hasWord(c.Text) {
			t.Fatalf("chunk without words: %q", c.Text)
		}
	}
	// Coverage: walk the text and let each chunk take the longest run it holds.
	if len(skips) > 0 {
		return
	}
	rest := squeeze(d.Text)
	for _, c := range chunks {
		text := squeeze(c.Text)
		if i := overlapLength(text, rest); i > 0 {
			rest = rest[i:]
		} else if merged := takeMerged(c.Text, rest); merged > 0 {
			rest = rest[merged:]
		}
	}
	if rest != "" {
		t.Fatalf("not covered by any chunk, in order: %.80q", rest)
	}
}

// overlapLength returns the length of the longest suffix of text that rest begins with.
func overlapLength(text, rest string) int {
	for i := 0; i < len(text); i++ {
		if utf8.RuneStart(text[i]) && strings.HasPrefix(rest, text[i:]) {
			return len(text) - i
		}
	}
	return 0
}

// takeMerged is overlapLength for a chunk of merged sections: lines that rest does not go on with
// are headings.
func takeMerged(text, rest string) int {
	taken := 0
	for line := range strings.Lines(text) {
		if l := squeeze(line); strings.HasPrefix(rest[taken:], l) {
			taken += len(l)
		}
	}
	return taken
}
