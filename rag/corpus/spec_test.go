package corpus

import (
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/rag/corpus/chunk"
)

// goDoc returns the folder of Go's own documents. Toolchains fetched on demand lack it, the local one has it.
func goDoc(t testing.TB) string {
	t.Helper()
	cmd := exec.Command("go", "env", "GOROOT")
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN=local")
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("SKIP: go env GOROOT: %v", err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "doc")
	if _, err := os.Stat(filepath.Join(dir, "go_spec.html")); err != nil {
		t.Skipf("SKIP: no Go specification here: %v", err)
	}
	return dir
}

func TestGoSpecification(t *testing.T) {
	path := filepath.Join(goDoc(t), "go_spec.html")
	docs, skips := load(t, LoadOptions{}, path)
	if len(docs) != 1 || len(skips) != 0 {
		t.Fatalf("%d documents, %v skipped", len(docs), skips)
	}
	d := docs[0]
	if d.ID != "go_spec.html" || d.Title != "The Go Programming Language Specification" || d.Repaired != 0 {
		t.Errorf("id %q, title %q, %d repaired", d.ID, d.Title, d.Repaired)
	}
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	headings := regexp.MustCompile(`(?s)<h[2-6](?: id="([^"]+)")?[^>]*>(.*?)</h[2-6]>`).FindAllSubmatch(source, -1)
	if len(headings) < 100 || len(headings) != len(d.Sections) {
		t.Errorf("%d sections, the file has %d headings", len(d.Sections), len(headings))
	}
	for i, h := range headings {
		if s := d.Sections[i]; s.Anchor != string(h[1]) || s.Heading[len(s.Heading)-1] != plainHTML(string(h[2])) {
			t.Errorf("section %d is %q #%s, want %s #%s", i, s.Heading, s.Anchor, h[2], h[1])
		}
	}

	numbers := regexp.MustCompile(`(?m)^\s*\d+\. `) // of lists, which the source does not write
	for _, preset := range []string{"256/2", "512/10", "64/8"} {
		o := ChunkOptions{MaxTokens: 512, Count: countTokens}
		if o.Size, o.Overlap, err = chunk.Preset(preset); err != nil {
			t.Fatal(err)
		}
		var dropped []Skipped
		o.OnSkip = func(s Skipped) { dropped = append(dropped, s) }
		chunks, err := chunk.Split(d, o)
		if err != nil {
			t.Fatal(err)
		}
		if o.Size >= 256 && len(dropped) != 0 { // at 64 the table of operators has a chunk of its own
			t.Errorf("%s: dropped %v", preset, dropped)
		}
		checkChunks(t, d, o, chunks, dropped)
		found, small := false, 0
		for _, c := range chunks {
			found = found || c.Heading == d.Title+" › Types › Slice types" && c.Anchor == "Slice_types" &&
				strings.HasPrefix(c.Text, "A slice is a descriptor for a contiguous segment of an underlying array")
			if c.Tokens < o.Size/8 {
				small++
			}
			if want := letters(plainHTML(string(source[c.Start:c.End]))); want != letters(c.Text) &&
				want != letters(numbers.ReplaceAllString(c.Text, "")) {
				t.Errorf("%s: source bytes %d to %d are not its text:\n%s\n%s", c.ID, c.Start, c.End, want,
					letters(c.Text))
			}
		}
		if !found {
			t.Errorf("%s: no chunk of section Slice types", preset)
		}
		t.Logf("%s: %d chunks, %d below 1/%d of the size", preset, len(chunks), small, 8)
	}
}

var (
	anyTag  = regexp.MustCompile(`(?s)<!--.*?-->|</?[a-zA-Z][^>]*>`)
	markers = strings.NewReplacer("-", "", "|", "")
)

func plainHTML(s string) string {
	return strings.Join(strings.Fields(html.UnescapeString(anyTag.ReplaceAllString(s, ""))), " ")
}

// letters is s without white space and without the characters that the reader inserts.
func letters(s string) string { return markers.Replace(squeeze(s)) }
