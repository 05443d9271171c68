package corpus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/rag/corpus/chunk"
)

func TestLoadFolder(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "b.txt", "Second.")
	write(t, dir, "a/z.md", "# Z\n\nDeep.")
	write(t, dir, "a/README.HTML", "<p>Upper case extension</p>")
	write(t, dir, "c.jsonl", `{"id":"one","text":"Line one."}`+"\n"+`{"id":"one","text":"Again."}`)
	write(t, dir, ".hidden.txt", "never")
	write(t, dir, ".git/config.txt", "never")
	write(t, dir, "\xff.txt", "Text.")
	write(t, dir, "kb/sluice.db", "a database")
	write(t, dir, "kb/segments/000000.vec", "vectors")
	write(t, dir, "kb/calibration/default.1.journal.jsonl", `{"id":"j","text":"Never."}`)
	write(t, dir, "image.png", "\x89PNG")
	write(t, dir, "binary.txt", "\x00\x01\x02\x03 text \x04\x05")
	write(t, dir, "latin.txt", "gr\xfc\xdfe\xe4\xf6\xfc\xe9")
	write(t, dir, "empty.txt", " \n")
	write(t, dir, "big.txt", strings.Repeat("word ", 100))
	write(t, dir, "utf32.txt", "\xff\xfe\x00\x00a\x00\x00\x00")
	if err := os.Symlink(dir, filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "b.txt"), filepath.Join(dir, "link.txt")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "dangling.txt")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.txt"), 0o600); err != nil {
		t.Fatal(err)
	}

	docs, skips := load(t, LoadOptions{MaxFileBytes: 400}, dir)
	var got []string
	for _, d := range docs {
		got = append(got, d.ID+" = "+strings.TrimPrefix(d.Source, dir+"/"))
	}
	// link.txt is b.txt
	want := []string{"a/README.HTML = a/README.HTML", "a/z.md = a/z.md", "b.txt = b.txt", "one = c.jsonl:1",
		"latin.txt = latin.txt", "utf32.txt = utf32.txt"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("documents (-want +got):\n%s", diff)
	}
	reasons := map[string]error{
		".hidden.txt": ErrHidden, ".git": ErrHidden, "kb": ErrStore, "\xff.txt": ErrFormat,
		"image.png": ErrUnknown, "binary.txt": ErrFormat,
		"empty.txt": ErrNoWords, "big.txt": ErrTooLarge, "c.jsonl:2": ErrDuplicate,
		"loop":         ErrUnknown,
		"dangling.txt": fs.ErrNotExist, "pipe.txt": ErrUnknown,
	}
	for _, s := range skips {
		name := strings.TrimPrefix(s.Source, dir+"/")
		if want := reasons[name]; want == nil || !errors.Is(s.Err, want) {
			t.Errorf("%s skipped: %v, want %v", name, s.Err, want)
		}
		delete(reasons, name)
	}
	if len(reasons) > 0 {
		t.Errorf("not reported: %v", reasons)
	}
}

// TestDocumentIDs: the same folder gives the same ids from everywhere, through a link as well.
func TestDocumentIDs(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "docs/sub/x.txt", "Text.")
	if err := os.Symlink(filepath.Join(dir, "docs"), filepath.Join(dir, "linked")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	var chunks []string
	for _, root := range []string{"docs", dir + "/docs", "./docs/", "linked"} {
		docs, _ := load(t, LoadOptions{}, root)
		if len(docs) != 1 || docs[0].ID != "sub/x.txt" || docs[0].Source != filepath.Join(root, "sub/x.txt") {
			t.Fatalf("%s: %+v", root, docs)
		}
		c, err := chunk.Split(docs[0], ChunkOptions{Size: 16, Count: countTokens})
		if err != nil {
			t.Fatal(err)
		}
		chunks = append(chunks, c[0].ID)
	}
	t.Chdir("docs")
	docs, _ := load(t, LoadOptions{}, ".")
	if docs[0].ID != "sub/x.txt" {
		t.Errorf("in the folder: %s", docs[0].ID)
	}
	for _, id := range chunks {
		if id != chunks[0] {
			t.Errorf("chunk ids differ: %v", chunks)
		}
	}
	if docs, _ := load(t, LoadOptions{}, "sub/x.txt"); docs[0].ID != "x.txt" {
		t.Errorf("a file given: %s", docs[0].ID)
	}
}

// TestFilesAreToldApart: files of the same name below two folders are two documents, and one file that is reached by
// several ways is one.
func TestFilesAreToldApart(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "one/README.md", "First.")
	write(t, dir, "two/README.md", "Second.")
	lines := `{"id":"README.md","text":"A line."}` + "\n"
	write(t, dir, "two/c.jsonl", lines)
	write(t, dir, "one/d.jsonl", lines+lines)
	if err := os.Symlink(filepath.Join(dir, "one"), filepath.Join(dir, "linked")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	docs, skips := load(t, LoadOptions{}, "one", "two", dir+"/one", "linked", "two/README.md", "two/c.jsonl", ".")
	var got []string
	for _, d := range docs {
		got = append(got, fmt.Sprintf("%s %s %d %s", d.ID, strings.TrimPrefix(d.Path, dir), d.Line,
			strings.TrimPrefix(d.Folder, dir)))
	}
	want := []string{"README.md /one/README.md 0 /one", "README.md /one/d.jsonl 1 /one",
		"README.md /two/README.md 0 /two",
		"README.md /two/c.jsonl 1 /two"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(skips) != 2 || !errors.Is(skips[0].Err, ErrDuplicate) || !strings.HasSuffix(skips[0].Source, "d.jsonl:2") ||
		!strings.Contains(skips[1].Err.Error(), "a link to a folder") {
		t.Errorf("skipped %v", skips)
	}
}

func TestNothingToRead(t *testing.T) {
	dir := t.TempDir()
	hidden := t.TempDir()
	write(t, hidden, ".x.txt", "never")
	for _, c := range []struct {
		path string
		also error
	}{{dir, nil}, {hidden, ErrHidden}, {dir + "/missing.txt", fs.ErrNotExist}} {
		var errs []error
		for d, err := range Load(context.Background(), []string{c.path}, LoadOptions{}) {
			if d != nil {
				t.Errorf("%s: a document", c.path)
			}
			errs = append(errs, err)
		}
		if len(errs) != 1 || !errors.Is(errs[0], ErrNoDocument) || c.also != nil && !errors.Is(errs[0], c.also) ||
			!strings.Contains(errs[0].Error(), c.path) {
			t.Errorf("%s: %v", c.path, errs)
		}
	}
}

func TestStrict(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.jsonl", `{"id":"1","text":"One."}`+"\n{\n"+`{"id":"2","text":"Two."}`)
	write(t, dir, "ignored.png", "x") // an unknown kind in a folder is not a fault
	var ids []string
	var last error
	for d, err := range Load(context.Background(), []string{dir}, LoadOptions{Strict: true}) {
		if last = err; err == nil {
			ids = append(ids, d.ID)
		}
	}
	if len(ids) != 1 || !errors.Is(last, ErrFormat) || !strings.Contains(last.Error(), "a.jsonl:2") {
		t.Errorf("strict: %v, %v", ids, last)
	}
	docs, skips := load(t, LoadOptions{}, dir)
	if len(docs) != 2 || len(skips) != 2 {
		t.Errorf("not strict: %d documents, skipped %v", len(docs), skips)
	}
}

func TestLoadStops(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		write(t, dir, fmt.Sprintf("%d.txt", i), "Text.")
	}
	n := 0
	for range Load(context.Background(), []string{dir, dir}, LoadOptions{}) {
		if n++; n == 2 {
			break
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n = 0
	var last error
	for _, err := range Load(ctx, []string{dir}, LoadOptions{}) {
		n++
		last = err
		cancel()
	}
	if n != 2 || !errors.Is(last, context.Canceled) {
		t.Errorf("%d yielded, the last with %v", n, last)
	}
}

// TestEncodings: the source range of a chunk, decoded independently, is its text.
func TestEncodings(t *testing.T) {
	utf16le := func(s string) string {
		b := "\xff\xfe"
		for _, u := range utf16.Encode([]rune(s)) {
			b += string([]byte{byte(u), byte(u >> 8)})
		}
		return b
	}
	utf16be := func(s string) string {
		b := "\xfe\xff"
		for _, u := range utf16.Encode([]rune(s)) {
			b += string([]byte{byte(u >> 8), byte(u)})
		}
		return b
	}
	latin := strings.Repeat("<p>filler</p>", 30)
	for _, c := range []struct {
		name, file, content, text, source string
		repaired                          int
	}{
		{"plain", "x.txt", "  Hëllo wörld.\n", "Hëllo wörld.", "Hëllo wörld.", 0},
		{"bom", "x.txt", "\ufeffHëllo.", "Hëllo.", "Hëllo.", 0},
		{"utf16le", "x.txt", utf16le("Ünï 😀 text 中文."), "Ünï 😀 text 中文.", utf16le("Ünï 😀 text 中文.")[2:], 0},
		{"utf16be", "x.md", utf16be("# H\n\nÜnï *a* 中."), "Ünï a 中.", utf16be("Ünï *a* 中.")[2:], 0},
		{"utf16 odd", "x.txt", utf16le("abc") + "x", "abc\ufffd", utf16le("abc")[2:] + "x", 1},
		{"utf16 lone", "x.txt", "\xff\xfea\x00\x00\xd8b\x00", "a\ufffdb", "a\x00\x00\xd8b\x00", 1},
		{"nul", "x.txt", strings.Repeat("long enough ", 9) + "a\x00b.", strings.Repeat("long enough ", 9) + "ab.",
			strings.Repeat("long enough ", 9) + "a\x00b.", 1},
		{"invalid", "x.txt", "Söme länger text is \xff here.", "Söme länger text is \ufffd here.",
			"Söme länger text is \xff here.", 1},
		{"nfd", "x.txt", "Ko\u0308ln und A\u030angstro\u0308m.", "Köln und Ångström.",
			"Ko\u0308ln und A\u030angstro\u0308m.", 0},
		{"nfd html", "x.html", "<p>Ko<i>&#x308;</i>ln</p>", "Köln", "Ko<i>&#x308;</i>ln", 0},
		{"latin1 html", "x.html", `<meta charset="iso-8859-1">` + latin + "<h1>T</h1><p>Gr\xfc\xdfe</p>", "Grüße",
			"Gr\xfc\xdfe", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			docs, skips := load(t, LoadOptions{}, write(t, t.TempDir(), c.file, c.content))
			if len(docs) != 1 {
				t.Fatalf("skipped: %v", skips)
			}
			if docs[0].Repaired != c.repaired {
				t.Errorf("%d repaired, want %d", docs[0].Repaired, c.repaired)
			}
			chunks, err := chunk.Split(docs[0], ChunkOptions{Size: 200, Count: countTokens})
			if err != nil {
				t.Fatal(err)
			}
			last := chunks[len(chunks)-1]
			if source := c.content[last.Start:last.End]; last.Text != c.text || source != c.source {
				t.Errorf("text %q from %q, want %q from %q", last.Text, source, c.text, c.source)
			}
		})
	}
	docs, _ := load(t, LoadOptions{}, write(t, t.TempDir(), "x.html",
		`<meta charset="shift_jis">`+strings.Repeat("filler ", 50)+"\x83\x65"))
	if len(docs) != 1 || !strings.HasSuffix(docs[0].Text, "テ") || docs[0].Meta["encoding"] != "shift_jis" {
		t.Errorf("declared as Shift JIS: %+v", docs)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestLongLines: lines are streamed; one above the limit is reported with its number and the next is read.
func TestLongLines(t *testing.T) {
	long := strings.Repeat("x ", 200<<10)
	path := write(t, t.TempDir(), "x.jsonl",
		`{"id":"1","text":"`+long+`"}`+"\n"+`{"id":"2","text":"`+long+long+`"}`+"\r\n\n"+`{"id":"3","text":"End."}`)
	docs, skips := load(t, LoadOptions{MaxFileBytes: 500 << 10}, path)
	if len(docs) != 2 || docs[0].Text != long || docs[1].ID != "3" || docs[1].Source != path+":4" {
		t.Errorf("%d documents", len(docs))
	}
	if len(skips) != 1 || skips[0].Source != path+":2" || !errors.Is(skips[0].Err, ErrTooLarge) {
		t.Errorf("skipped %v", skips)
	}
	content := must(os.ReadFile(path))
	c, err := chunk.Split(docs[1], ChunkOptions{NoChunk: true})
	if err != nil || len(c) != 1 || c[0].ID != "3" || string(content[c[0].Start:c[0].End]) != "End." {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestUnreadable(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("SKIP: permissions do not bind the superuser")
	}
	dir := t.TempDir()
	write(t, dir, "a.txt", "Text.")
	if err := os.Chmod(write(t, dir, "b.txt", "Text."), 0); err != nil {
		t.Fatal(err)
	}
	if _, skips := load(t, LoadOptions{}, dir); len(skips) != 1 || !errors.Is(skips[0].Err, fs.ErrPermission) {
		t.Errorf("skipped %v", skips)
	}
}
