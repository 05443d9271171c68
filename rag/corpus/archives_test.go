package corpus

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
)

// tarred returns a tar file of headers with contents.
func tarred(t testing.TB, headers ...tar.Header) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		text := h.Gname // carries the content
		h.Gname, h.Size, h.Mode = "", int64(len(text)), 0o644
		if h.Typeflag != tar.TypeReg && h.Typeflag != 0 {
			h.Size = 0
		}
		err := w.WriteHeader(&h)
		if err == nil && h.Size > 0 {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func member(name, text string) tar.Header { return tar.Header{Name: name, Gname: text} }

// packed is text as a writer packs it.
func packed(t testing.TB, text string, writer func(io.Writer) io.WriteCloser) string {
	t.Helper()
	var b bytes.Buffer
	w := writer(&b)
	_, err := io.WriteString(w, text)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func gz(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }

func zst(w io.Writer) io.WriteCloser { return must(zstd.NewWriter(w)) }

// limited returns the default limits with the non-zero values of a.
func limited(a ArchiveLimits) ArchiveLimits { return overlay.On(DefaultArchiveLimits(), a) }

// TestArchives: files in archives are documents with the paths that they would have in a folder of the archive's name.
func TestArchives(t *testing.T) {
	dir := must(filepath.EvalSymlinks(t.TempDir()))
	book := string(must(os.ReadFile("testdata/harbour.docx")))
	write(t, dir, "all.zip", zipped(t, "guide/tide.md", "# Tide\n\nThe tide turns.", "a.docx", book, "lines.jsonl",
		`{"id":"one","text":"A line."}`, "guide/", "", `win\dows.txt`, "From Windows.", "n\x81.txt", "An old name.",
		"../up.txt", "No.", "/root.txt", "No.", "C:/c.txt", "No.", "a/../../b.txt", "No.", "nul\x00.txt", "No.",
		"guide/tide.md", "Twice.", ".hidden/a.txt", "No.", "__MACOSX/a.txt", "No.", "node_modules/r.md", "No.",
		"picture.png", "\x89PNG", "bytes.txt", "\x00\x01\x02\x03\x04\x05", "empty.txt", "",
		"inner.zip", zipped(t, "deep.txt", "One deep.", "more.zip", zipped(t, "no.txt", "Too deep."))))
	write(t, dir, "notes.tar.gz", packed(t, tarred(t, member("./a.txt", "In a tar file."),
		tar.Header{Name: "link.txt", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink},
		tar.Header{Name: "hard.txt", Linkname: "a.txt", Typeflag: tar.TypeLink},
		tar.Header{Name: "device.txt", Typeflag: tar.TypeChar}, tar.Header{Name: "dir/", Typeflag: tar.TypeDir},
		member("a.txt", "Again."), member("../b.txt", "No.")), gz))
	write(t, dir, "one.md.gz", packed(t, "# One\n\nAlone.", gz))
	write(t, dir, "z.txt.zst", packed(t, "In Zstandard.", zst))
	write(t, dir, "z.tar.zst", packed(t, tarred(t, member("in.txt", "A tar file in Zstandard.")), zst))
	for _, name := range []string{"notes.tar.xz", "notes.tar.bz2", "wide.txt.xz"} {
		write(t, dir, name, string(must(os.ReadFile("testdata/"+name))))
	}
	docs, skips := load(t, LoadOptions{}, dir)
	var got []string
	for _, d := range docs {
		first, _, _ := strings.Cut(d.Text, "\n")
		got = append(got, fmt.Sprintf("%s = %s", d.ID, first))
		if d.Path != filepath.Join(dir, strings.SplitN(d.Source, dir+"/", 2)[1]) && d.Line == 0 {
			t.Errorf("%s has path %s", d.Source, d.Path)
		}
	}
	want := []string{
		"all.zip/guide/tide.md = The tide turns.", "all.zip/a.docx = Ships moor at the quay. The tide",
		"one = A line.", "all.zip/win/dows.txt = From Windows.", "all.zip/nü.txt = An old name.",
		"all.zip/inner.zip/deep.txt = One deep.",
		"notes.tar.bz2/notes/tide.md = The tide turns at noon.", "notes.tar.bz2/notes/wind.txt = The bora is cold.",
		"notes.tar.gz/a.txt = In a tar file.",
		"notes.tar.xz/notes/tide.md = The tide turns at noon.", "notes.tar.xz/notes/wind.txt = The bora is cold.",
		"one.md.gz/one.md = Alone.", "z.tar.zst/in.txt = A tar file in Zstandard.", "z.txt.zst/z.txt = In Zstandard.",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	reasons := map[string]error{"all.zip/../up.txt": ErrFormat, "all.zip//root.txt": ErrFormat,
		"all.zip/C:/c.txt": ErrFormat, "all.zip/a/../../b.txt": ErrFormat, "all.zip/nul\ufffd.txt": ErrFormat,
		"all.zip/guide/tide.md": ErrDuplicate, "all.zip/.hidden/a.txt": ErrHidden, "all.zip/__MACOSX/a.txt": ErrIgnored,
		"all.zip/node_modules/r.md": ErrIgnored, "all.zip/picture.png": ErrUnknown, "all.zip/bytes.txt": ErrFormat,
		"all.zip/empty.txt": ErrNoWords, "all.zip/inner.zip/more.zip": ErrUnknown,
		"notes.tar.gz/link.txt": ErrUnknown, "notes.tar.gz/hard.txt": ErrUnknown, "notes.tar.gz/device.txt": ErrUnknown,
		"notes.tar.gz/a.txt": ErrDuplicate, "notes.tar.gz/../b.txt": ErrFormat, "wide.txt.xz": ErrFormat}
	checkSkips(t, dir, skips, reasons)
	for _, d := range docs {
		if a := ArchiveOf(d.Path); a == "" || !strings.HasPrefix(d.Path, a+"/") {
			t.Errorf("%s is in the archive %q", d.Path, a)
		}
	}
	if a := ArchiveOf(filepath.Join(dir, "all.zip")); a != "" {
		t.Error(a)
	}
	flat := DefaultArchiveLimits()
	flat.Nesting = 0
	docs, _ = load(t,
		LoadOptions{FileOptions: FileOptions{Include: []string{"tide.md"}, Archives: flat}},
		dir)
	if len(docs) != 3 {
		t.Errorf("%d documents with an include", len(docs))
	}
}

// checkSkips compares what was skipped, by its path below dir, with the reasons wanted.
func checkSkips(t *testing.T, dir string, skips []Skipped, reasons map[string]error) {
	t.Helper()
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

// TestHostileArchives: bombs, broken and encrypted archives end with a reason, and what was read before stays.
func TestHostileArchives(t *testing.T) {
	encrypted := []byte(zipped(t, "secret.txt", "Hidden words."))
	for i := range encrypted {
		if bytes.HasPrefix(encrypted[i:], []byte("PK\x03\x04")) {
			encrypted[i+6] |= 1
		}
		if bytes.HasPrefix(encrypted[i:], []byte("PK\x01\x02")) {
			encrypted[i+8] |= 1
		}
	}
	spaces := strings.Repeat(" ", 80<<20)
	var many, noise []string
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 50 {
		many = append(many, fmt.Sprint(i, ".txt"), "Words.")
		text := make([]byte, 4<<10)
		for j := range text {
			text[j] = byte('a' + random.IntN(26))
		}
		noise = append(noise, fmt.Sprint(i, ".txt"), string(text))
	}
	good := zipped(t, noise...)
	damaged := []byte(good)
	copy(damaged[3000:], "damage")
	for name, c := range map[string]struct {
		file, content string
		limits        ArchiveLimits
		read          int // documents; -1: any number
		says          string
	}{
		"a bomb": {"a.zip", zipped(t, "a.txt", "Words.", "b.txt", spaces), ArchiveLimits{}, 1,
			"for each of its own"},
		"a bomb of gzip": {"a.txt.gz", packed(t, spaces, gz), ArchiveLimits{}, 0, "for each of its own"},
		"a tar bomb": {"a.tgz", packed(t, tarred(t, member("a.png", spaces)), gz), ArchiveLimits{}, 0,
			"for each of its"},
		"a bomb of zst": {"a.tar.zst", packed(t, tarred(t, member("a.txt", "Words."), member("b.txt", spaces)), zst),
			ArchiveLimits{}, 1, "for each of"},
		"too many bytes": {"a.zip", good, limited(ArchiveLimits{MaxBytes: 9 << 10}), 2, "more than 9216 bytes"},
		"too many": {"a.zip", zipped(t, many...), limited(ArchiveLimits{MaxEntries: 7}), 7,
			"more than 7 entries"},
		"encrypted":       {"a.zip", string(encrypted), ArchiveLimits{}, 0, "encrypted"},
		"none":            {"a.zip", "words", ArchiveLimits{}, 0, "a broken archive"},
		"empty":           {"a.zip", "", ArchiveLimits{}, 0, "a broken archive"},
		"half a zip":      {"a.zip", good[:len(good)/2], ArchiveLimits{}, 0, "a broken archive"},
		"a damaged entry": {"a.zip", string(damaged), ArchiveLimits{}, 49, "unreadable source"},
		"half a gz": {"a.txt.gz", packed(t, strings.Join(noise, " "), gz)[:9000], ArchiveLimits{}, 0,
			"unexpected EOF"},
		"half a tar": {"a.tar", tarred(t, member("a.txt", "Words."), member("b.txt", spaces))[:99999],
			ArchiveLimits{}, 1, "unexpected EOF"},
		"no gz":  {"a.gz", "words", ArchiveLimits{}, 0, "a broken archive"},
		"no xz":  {"a.txt.xz", "words and more words", ArchiveLimits{}, 0, "a broken archive"},
		"no bz2": {"a.txt.bz2", "words", ArchiveLimits{}, 0, "bzip2"},
		"no zst": {"a.txt.zst", "words", ArchiveLimits{}, 0, "magic"},
		"no tar": {"a.tar", strings.Repeat("words", 999), ArchiveLimits{}, 0, "a broken archive"},
	} {
		t.Run(name, func(t *testing.T) {
			var skips []Skipped
			read := 0
			for _, err := range Load(t.Context(), []string{write(t, t.TempDir(), c.file, c.content)},
				LoadOptions{FileOptions: FileOptions{Archives: c.limits},
					OnSkip: func(s Skipped) { skips = append(skips, s) }}) {
				if err == nil {
					read++
				}
			}
			if read != c.read || len(skips) == 0 || !strings.Contains(skips[len(skips)-1].Err.Error(), c.says) {
				t.Errorf("%d documents, skipped %v, want %d and %q", read, skips, c.read, c.says)
			}
		})
	}
	for _, err := range Load(t.Context(), []string{write(t, t.TempDir(), "a.zip", good[:len(good)/2])},
		LoadOptions{Strict: true}) {
		if !errors.Is(err, ErrFormat) {
			t.Errorf("strict: %v", err)
		}
	}
}

// fuzzArchive fuzzes an archive: nothing that it holds leads out of it, or takes long.
func fuzzArchive(f *testing.F, ext string, seeds ...string) {
	f.Helper()
	for _, s := range append(seeds, "", "PK") {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte) {
		path := write(t, dir, "x"+ext, string(content))
		defer soon(t)()
		for d, err := range Load(t.Context(), []string{path}, LoadOptions{MaxFileBytes: 1 << 20,
			FileOptions: FileOptions{Archives: limited(ArchiveLimits{MaxBytes: 64 << 20, MaxEntries: 1000})}}) {
			if err != nil {
				return
			}
			if !strings.HasPrefix(d.Path, path+"/") || strings.Contains(d.Path, "/../") {
				t.Fatalf("%q leads out of the archive", d.Path)
			}
			size := len(d.Text)
			if !Converted(d.Path) {
				size = 1 << 20
			}
			checkDocument(t, d, size)
		}
	})
}

func FuzzZip(f *testing.F) {
	fuzzArchive(f, ".zip", zipped(f, "a.txt", "Words.", "b/c.md", "# X\n\ny"),
		zipped(f, "a.zip", zipped(f, "b.txt", "Words.")),
		zipped(f, "../a.txt", "Words.", "a.jsonl", `{"text":"Words."}`))
}

func FuzzTar(f *testing.F) {
	fuzzArchive(f, ".tar", tarred(f, member("a.txt", "Words."), member("b/c.md", "# X\n\ny")),
		tarred(f, tar.Header{Name: "l", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink}, member("a.zip", "PK")))
}

func FuzzGzip(f *testing.F) { fuzzArchive(f, ".txt.gz", packed(f, "Words.", gz)) }

func FuzzZstd(f *testing.F) { fuzzArchive(f, ".txt.zst", packed(f, "Words.", zst)) }

func FuzzXz(f *testing.F) {
	fuzzArchive(f, ".tar.xz", string(must(os.ReadFile("testdata/notes.tar.xz"))),
		string(must(os.ReadFile("testdata/wide.txt.xz"))))
}

func FuzzBzip2(f *testing.F) {
	fuzzArchive(f, ".tar.bz2", string(must(os.ReadFile("testdata/notes.tar.bz2"))))
}
