package corpus

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// countTokens approximates a WordPiece tokenizer: two special tokens, a token per punctuation mark and per four letters
// of a word.
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

// compiled is the folder that keeps the compiled reader of PDF files for the tests, and for the processes of fuzzing,
// which find it in their environment: compiling it for coverage takes 6 s.
var compiled string

func TestMain(m *testing.M) {
	const inherited = "SLUICE_TEST_COMPILED"
	if compiled = os.Getenv(inherited); compiled != "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "sluice-corpus")
	if err == nil {
		err = os.Setenv(inherited, dir)
	}
	if err != nil {
		panic(err)
	}
	compiled = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// load loads paths and returns documents and skips; errors fail the test.
func load(t testing.TB, o LoadOptions, paths ...string) ([]*Document, []Skipped) {
	t.Helper()
	var docs []*Document
	var skips []Skipped
	o.OnSkip = func(s Skipped) { skips = append(skips, s) }
	if o.CacheDir == "" {
		o.CacheDir = compiled
	}
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

// checkChunks asserts what Split guarantees for any document.
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
		if !doc.HasWord(c.Text) {
			t.Fatalf("chunk without words: %q", c.Text)
		}
	}
	checkCoverage(t, d, chunks, len(skips) > 0)
}

// checkCoverage asserts that every character of the text is in a chunk, and that each chunk has, in
// order, all characters that come from its source range. (Its text may hold headings besides.)
func checkCoverage(t interface{ Fatalf(string, ...any) }, d *Document, chunks []Chunk, dropped bool) {
	covered := 0 // all of d.Text before this
	for _, c := range chunks {
		first := sort.Search(len(d.Text), func(i int) bool { return d.Offsets.Start(i) >= c.Start })
		if gap := uncovered(d, min(covered, first), first); gap != "" && !dropped && !sharedAtom(d, first-1) {
			t.Fatalf("before %s, in no chunk: %.80q", c.ID, gap)
		}
		rest := c.Text
		for i, r := range d.Text[first:] {
			i += first
			if d.Offsets.Start(i) >= c.End {
				break
			}
			covered = max(covered, i+utf8.RuneLen(r))
			if unicode.IsSpace(r) || sharedAtom(d, i) {
				continue
			}
			at := strings.IndexRune(rest, r)
			if at < 0 {
				t.Fatalf("%s has no %q of byte %d in its place: %q", c.ID, r, i, c.Text)
			}
			rest = rest[at+utf8.RuneLen(r):]
		}
	}
	if rest := uncovered(d, covered, len(d.Text)); rest != "" && !dropped {
		t.Fatalf("behind the last chunk: %.80q", rest)
	}
}

// uncovered returns a stretch of the text without white space and without the colons behind terms, which have no place
// in the source.
func uncovered(d *Document, from, to int) string {
	var out strings.Builder
	for i, r := range d.Text[from:to] {
		at := d.Offsets.At(from + i)
		if inserted := at >= 0 && d.Offsets[at].PerSource == 0; !inserted || r != ':' {
			out.WriteRune(r)
		}
	}
	return squeeze(out.String())
}

// sharedAtom reports whether byte i of the text is in a unit of several characters: chunks that share one each have all
// of its source.
func sharedAtom(d *Document, i int) bool {
	k := d.Offsets.At(i)
	if i < 0 || k < 0 || d.Offsets[k].PerText == 1 {
		return false
	}
	s := d.Offsets[k]
	from := s.Text + (i-s.Text)/s.PerText*s.PerText
	return utf8.RuneCountInString(d.Text[from:min(from+s.PerText, len(d.Text))]) > 1 // its end may have been trimmed
}
