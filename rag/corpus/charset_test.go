package corpus

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"

	"github.com/sluice-rag/sluice/rag/corpus/charset"
	"github.com/sluice-rag/sluice/rag/corpus/chunk"
)

// encodedTexts yields the texts of testdata/encodings.tsv with the encodings that each is tried in.
func encodedTexts(t testing.TB, f func(language, name string, e encoding.Encoding, text string)) {
	t.Helper()
	for line := range strings.Lines(string(must(os.ReadFile("testdata/encodings.tsv")))) {
		parts := strings.Split(strings.TrimSpace(line), "\t")
		for name := range strings.SplitSeq(parts[1], ",") {
			f(parts[0], name, must(htmlindex.Get(name)), parts[2])
		}
	}
}

// TestCharsets: texts in 19 languages and 19 encodings, by length in characters. An encoding that decodes to the same
// text counts as right.
func TestCharsets(t *testing.T) {
	lengths := []int{20, 40, 80, 160, 1000}
	right, all := map[int]int{}, map[int]int{}
	encodedTexts(t, func(language, name string, e encoding.Encoding, text string) {
		for _, n := range lengths {
			part := []rune(text)
			part = part[:min(n, len(part))]
			raw := must(e.NewEncoder().String(string(part)))
			if strings.IndexFunc(raw, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
				continue
			}
			all[n]++
			got := charset.Guess(raw)
			if back, ok := charset.DecodedAs(got, raw); ok && back == string(part) {
				right[n]++
			} else if n > 20 {
				t.Errorf("%d characters of %s in %s are taken for %q", n, language, name, got)
			}
		}
	})
	for _, n := range lengths {
		t.Logf("%4d characters: %d of %d right", n, right[n], all[n])
	}
	if right[20] < 31 {
		t.Errorf("%d of %d texts of 20 characters are right, 31 were", right[20], all[20])
	}
}

// TestEncodingPlaces: a file in any encoding is read as its text, its metadata name the encoding, and the source range
// of a chunk has the chunk's text.
func TestEncodingPlaces(t *testing.T) {
	check := func(name string, e encoding.Encoding, text, raw string, o FileOptions) {
		t.Run(name, func(t *testing.T) {
			docs, skips := load(t, LoadOptions{FileOptions: o}, write(t, t.TempDir(), "a.txt", raw))
			if len(docs) != 1 || docs[0].Text != text || docs[0].Repaired > 0 {
				t.Fatalf("%+v, skipped %v", docs, skips)
			}
			if e != nil && docs[0].Meta["encoding"] == "" {
				t.Error("the encoding is not in the metadata")
			}
			chunks, err := chunk.Split(docs[0], ChunkOptions{Size: 20, Count: countTokens})
			if err != nil || len(chunks) < 2 {
				t.Fatalf("%d chunks, %v", len(chunks), err)
			}
			for _, c := range chunks {
				source := raw[c.Start:c.End]
				if e != nil {
					source = must(e.NewDecoder().String(source))
				}
				if source != c.Text {
					t.Errorf("bytes %d to %d are %q, the chunk is %q", c.Start, c.End, source, c.Text)
				}
			}
		})
	}
	encodedTexts(t, func(language, name string, e encoding.Encoding, text string) {
		raw := must(e.NewEncoder().String(text))
		check(language+" in "+name, e, text, raw, FileOptions{})
		check(language+" as "+name, e, text, raw, FileOptions{Encoding: name})
		check(language+" in utf-8", nil, text, text, FileOptions{})
		for _, wide := range []struct {
			name string
			e    encoding.Encoding
		}{{"utf-16le", unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)},
			{"utf-16be", unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)},
			{"utf-32le", utf32.UTF32(utf32.LittleEndian, utf32.IgnoreBOM)},
			{"utf-32be", utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM)}} {
			two := text + " " + text // a text in CJK without a space or line has no NUL
			check(language+" in "+wide.name, wide.e, two, must(wide.e.NewEncoder().String(two)), FileOptions{})
			check(language+" in "+wide.name+" with a mark", wide.e, text,
				must(wide.e.NewEncoder().String("\ufeff"+text)),
				FileOptions{})
		}
	})
	japanese := "灯台守は毎朝、風の強さと波の高さを日誌に書きとめた。"
	raw := must(must(htmlindex.Get("iso-2022-jp")).NewEncoder().String(strings.Repeat(japanese+"\n", 3)))
	docs, _ := load(t, LoadOptions{}, write(t, t.TempDir(), "a.txt", raw))
	if len(docs) != 1 || !strings.HasPrefix(docs[0].Text, japanese) || docs[0].Meta["encoding"] != "iso-2022-jp" {
		t.Errorf("ISO-2022-JP: %+v", docs)
	}
	csv := must(htmlindex.Get("windows-1252"))
	docs, _ = load(t, LoadOptions{}, write(t, t.TempDir(), "a.csv",
		must(csv.NewEncoder().String("Größe;Preis in €\n12 Fuß;30\n"))))
	if len(docs) != 1 || docs[0].Text != "Größe: 12 Fuß | Preis in €: 30" {
		t.Errorf("csv: %+v", docs)
	}
	if err := (FileOptions{Encoding: "klingon"}).check(); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

// TestLines: the lines of a passage, in a file, in other encodings and in archives.
func TestLines(t *testing.T) {
	dir := t.TempDir()
	text := "First line.\n\nÜber dem Fluss lag Nebel, und die Schiffe\nwarteten auf höheres Wasser, fünf Tage.\n"
	wide := must(unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String(text))
	write(t, dir, "a.txt", text)
	write(t, dir, "b.txt", must(must(htmlindex.Get("windows-1252")).NewEncoder().String(text)))
	write(t, dir, "c.txt", wide)
	write(t, dir, "d.zip", zipped(t, "x.txt", "Words.", "in/e.txt", text))
	write(t, dir, "f.tar.gz", packed(t, tarred(t, member("g.txt", "Words."), member("h.txt", wide)), gz))
	docs, skips := load(t, LoadOptions{}, dir)
	found := 0
	for _, d := range docs {
		if !strings.HasPrefix(d.Text, "First") {
			continue
		}
		chunks := must(chunk.Split(d, ChunkOptions{Size: 40, Count: countTokens}))
		for _, c := range chunks {
			if from, to := Lines(t.Context(), c.Source, c.Start, c.End, c.Text); strings.Contains(c.Text, "Über") {
				found++
				if first := strings.HasPrefix(c.Text, "First"); first && from != 1 || !first && from != 3 || to != 4 {
					t.Errorf("%s: lines %d to %d of %q", c.Source, from, to, c.Text)
				}
			}
			if from, _ := Lines(t.Context(), c.Source, c.Start, c.End, "Another text."); from != 0 {
				t.Errorf("%s: another text is in line %d", c.Source, from)
			}
		}
	}
	if found != 5 {
		t.Errorf("%d passages, skipped %v", found, skips)
	}
	if from, _ := Lines(t.Context(), dir+"/d.zip/none.txt", 0, 5, "words"); from != 0 {
		t.Error(from)
	}
}

// TestBinaries: files that are not text are skipped whatever their names.
func TestBinaries(t *testing.T) {
	dir := t.TempDir()
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 3000 {
		_, _ = fmt.Fprintln(z, i, random.Uint64())
	}
	_ = z.Close()
	for i := range 20 {
		noise := make([]byte, 50<<(i%10))
		for j := range noise {
			noise[j] = byte(random.Uint32())
		}
		write(t, dir, fmt.Sprintf("noise%d.txt", i), string(noise))
	}
	write(t, dir, "a.txt", zipped.String())
	write(t, dir, "b.md", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x01")
	write(t, dir, "c.csv", "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00>\x00")
	program := string(must(os.ReadFile(must(os.Executable()))))
	write(t, dir, "d.txt", program[:1<<20])
	write(t, dir, "e.txt", "\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x01\x00H\x00H\x00\x00")
	read := 0
	for d, err := range Load(t.Context(), []string{dir}, LoadOptions{}) {
		if err == nil {
			t.Logf("%s is read as text: %.60q in %s", filepath.Base(d.Path), d.Text, d.Meta["encoding"])
			read++
		}
	}
	if read > 0 {
		t.Errorf("%d binaries are read", read)
	}
}

// FuzzCharset: any bytes become valid text in any encoding, and every character has its place.
func FuzzCharset(f *testing.F) {
	encodedTexts(f, func(_, name string, e encoding.Encoding, text string) {
		f.Add(must(e.NewEncoder().String(text)), name)
	})
	f.Add("\x1b$B%F\x1b(Bx", "iso-2022-jp")
	f.Add("\xff\xfe\x00\x00a\x00\x00\x00", "utf-32le")
	f.Fuzz(func(t *testing.T, raw, name string) {
		if _, err := charset.Named(name); err != nil {
			name = ""
		}
		d := &Document{}
		in, err := charset.Decode(d, raw, name, nil)
		if err != nil {
			return
		}
		d.Text, d.Offsets = in.Text, in.Map
		d.Normalise(nil)
		checkDocument(t, d, len(raw))
	})
}
