package corpus

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/rag/corpus/charset"
	"github.com/sluice-rag/sluice/rag/corpus/chunk"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/html"
	"github.com/sluice-rag/sluice/rag/corpus/markdown"
)

// paragraph is about n bytes of words in one line.
func paragraph(n int) string {
	const words = "the pump opens its second valve when pressure falls below three bars "
	return strings.Repeat(words, n/len(words)+1)
}

// The first chunk of a paragraph of any length is yielded when its own text has been measured, and a cancelled context
// ends the rest at once.
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
	if !markdown.Parse(d, charset.DecodeUTF8(text.String(), nil), nil) {
		t.Fatal("hostile")
	}
	for _, size := range []int{12, 32, 100, 256} {
		o := ChunkOptions{Size: size, Overlap: 2, Count: countTokens}
		chunks, err := chunk.Split(d, o)
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

// With MaxTextBytes the rest of a source is neither read nor held: documents of every kind end at a word.
func TestHeadsOfBigSources(t *testing.T) {
	dir := t.TempDir()
	const most = 1000
	long := paragraph(1 << 20)
	utf16 := "\xff\xfe" + strings.Repeat("w\x00o\x00\x3d\xd8\x00\xde \x00", 1<<16)
	for _, c := range []struct{ name, content string }{
		{"a.txt", long}, {"b.txt", strings.Repeat("höhe ", 1<<18)}, {"c.txt", utf16},
		{"d.txt", strings.Repeat("ä", 1<<19)},
		{"e.md", "# Head\n\n" + long}, {"f.html", "<script>" + strings.Repeat("x", most) + "</script><p>" + long},
		{"g.jsonl", `{"text":"` + strings.ReplaceAll(long, " ", `\n`) + `","id":"g"}`},
		{"h.jsonl", `{"text":"` + strings.Repeat(`😀 `, 1<<16) + `","id":"h"}`},
	} {
		p := write(t, dir, c.name, c.content)
		docs, skips := load(t, LoadOptions{MaxTextBytes: most}, p)
		if len(docs) != 1 || len(skips) != 0 {
			t.Errorf("%s: %d documents, skipped %v", c.name, len(docs), skips)
			continue
		}
		if d := docs[0]; !d.Cut || d.Repaired != 0 || len(d.Text) > most || len(d.Text) < most/2 {
			t.Errorf("%s: %d bytes of text, cut %v, repaired %d", c.name, len(d.Text), d.Cut, d.Repaired)
		}
	}
	p := write(t, dir, "small.txt", "A few words.")
	if docs, _ := load(t, LoadOptions{MaxTextBytes: most}, p); docs[0].Cut || docs[0].Text != "A few words." {
		t.Errorf("a small file: %+v", docs[0])
	}
}

// A long text between tags bypasses the tokenizer, which would keep copies of it, and gives the same text as a short
// one.
func TestBigParagraphsOfHTML(t *testing.T) {
	long := paragraph(1<<20 + 999)
	words := strings.TrimSpace(long)
	source := "<title>T &lt;</title><p>" + long + "a &lt; b &amp; c < d &unknown; <b>" + long + "</b>e\n<script>" +
		long +
		"<p>no</script><nav>" + long + "</nav><textarea>" + long + "<i>f</textarea><pre>\n" + long + "</pre>" + long
	var d Document
	html.Parse(&d, charset.Text{Text: source}, false, nil)
	want := words + " a < b & c < d &unknown; " + words + " e " + words + " <i>f\n\n" + long + "\n\n" + words
	if d.Title != "T <" || d.Text != want {
		at := 0
		for at < min(len(want), len(d.Text)) && d.Text[at] == want[at] {
			at++
		}
		t.Errorf("title %q, %d bytes of text, want %d; they differ from byte %d on: %.60q", d.Title, len(d.Text),
			len(want), at, d.Text[min(at, len(d.Text)):])
	}
	if at := strings.LastIndex(source, "the pump"); d.Offsets.Start(strings.LastIndex(d.Text, "the pump")) != at {
		t.Errorf("the last words are of byte %d, want %d", d.Offsets.Start(strings.LastIndex(d.Text, "the pump")), at)
	}

	source = "<p>" + paragraph(32<<20) + "</p>"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	html.Parse(&Document{}, charset.Text{Text: source}, false, nil)
	runtime.ReadMemStats(&after)
	if n := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(source)); n > 1.5 {
		t.Errorf("%.1f bytes are allocated for each byte of a paragraph", n)
	}
}

// A text file is held in memory once, without growing by copying.
func TestBigFileIsHeldOnce(t *testing.T) {
	path := write(t, t.TempDir(), "a.txt", paragraph(96<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	docs, _ := load(t, LoadOptions{}, path)
	runtime.ReadMemStats(&after)
	if n := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(docs[0].Text)); n > 1.1 {
		t.Errorf("%.2f bytes are allocated for each byte of a file", n)
	}
}

// A parser that ignores the context is left running when the context ends.
func TestALongParseDoesNotHoldUpACancelledContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	entered, leave, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() { <-entered; cancel() }()
	err := doc.Parsing(ctx, doc.LongParse, func() error { close(entered); <-leave; close(left); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(leave)
	<-left
	failed := errors.New("no text")
	for _, bytes := range []int{0, doc.LongParse} {
		if err := doc.Parsing(t.Context(), bytes, func() error { return failed }); !errors.Is(err, failed) {
			t.Errorf("%d bytes: %v", bytes, err)
		}
		p := &doc.Pulse{Ctx: ctx}
		if err := doc.Parsing(t.Context(), bytes,
			func() error { p.Check(); return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("%d bytes: %v", bytes, err)
		}
	}
}

// A parser's panic is an error of its file, on any goroutine, and the other files are read.
func TestAPanickingParserIsAnError(t *testing.T) {
	bug := func() error { var none []int; return fmt.Errorf("%d", none[0]) }
	for _, bytes := range []int{0, doc.LongParse} {
		limit := timeLimit{Pulse: &doc.Pulse{Ctx: t.Context()}, outer: t.Context(), most: time.Hour}
		for name, err := range map[string]error{
			"without a limit": doc.Parsing(t.Context(), bytes, bug), "within a limit": limit.parsing(bug),
		} {
			if !strings.Contains(panics.Stack(err), "TestAPanickingParserIsAnError") {
				t.Errorf("%d bytes, %s: %v, stack %q", bytes, name, err, panics.Stack(err))
			}
		}
	}
}
