package jsonl

import (
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func read(t *testing.T, text string, emptyText bool) (items []Item, bad map[int]string) {
	t.Helper()
	bad = map[int]string{}
	for it, err := range Items(strings.NewReader(text), "f.jsonl", emptyText) {
		var line *LineError
		switch {
		case errors.As(err, &line):
			if !errors.Is(err, ErrLine) || line.Source != "f.jsonl" {
				t.Errorf("line error %#v", line)
			}
			bad[line.Line] = line.Err.Error()
		case err != nil:
			t.Fatal(err)
		default:
			items = append(items, it)
		}
	}
	return items, bad
}

func TestItemsGoOnAfterBadLines(t *testing.T) {
	text := "\xef\xbb\xbf" + `{"id":"a","text":"one","more":[1,2]}` + "\r\n" +
		"\n   \n" +
		`{"id":"b"}` + "\n" +
		`{"text":"no id"}` + "\n" +
		`{"id":7,"text":"number"}` + "\n" +
		`not json` + "\n" +
		`[1]` + "\n" +
		`{"id":"c","text":"  "}` + "\n" +
		"{\"id\":\"d\",\"text\":\"\xff\"}\n" +
		`{"id":"e","text":"nul \u0000 inside"}`
	items, bad := read(t, text, false)
	want := []Item{{ID: "a", Text: "one"}, {ID: "e", Text: "nul \x00 inside"}}
	if diff := cmp.Diff(want, items); diff != "" {
		t.Error(diff)
	}
	for line, fragment := range map[int]string{4: `"text" is missing (id "b")`, 5: `"id" is missing`,
		6: `"id" is a JSON number`,
		7: "invalid character", 8: "JSON array where an object", 9: `"text" is empty (id "c")`, 10: "not valid UTF-8"} {
		if !strings.Contains(bad[line], fragment) {
			t.Errorf("line %d: %q does not say %q", line, bad[line], fragment)
		}
	}
}

func TestLineNumbersCountBlankLines(t *testing.T) {
	items, bad := read(t, "\n\n"+`{"id":"x","text":""}`+"\n\n[]", true)
	if len(bad) != 1 || bad[5] == "" || len(items) != 1 {
		t.Fatalf("items %v, bad %v", items, bad)
	}
	if _, bad = read(t, "\xff\n{}", false); bad[1] != "not valid UTF-8" || bad[2] != `"id" is missing` {
		t.Fatal(bad)
	}
}

func TestLongLineIsSkippedAndSaid(t *testing.T) {
	text := strings.Repeat("x", 200_000) + "\nshort\n" + strings.Repeat("y", 100) + "\n"
	var got []string
	for l, err := range Lines(strings.NewReader(text), 100) {
		if err != nil {
			got = append(got, err.Error())
			continue
		}
		got = append(got, string(l.Raw))
	}
	want := []string{"line too long: more than 100 bytes", "short", strings.Repeat("y", 100)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestLinesSayWhereTheyAre checks that offsets and lengths add up for all line endings, and that a line that is too
// long is not held in memory, even one of carriage returns only.
func TestLinesSayWhereTheyAre(t *testing.T) {
	text := "\xef\xbb\xbf{}\r\n\n  x \n" + strings.Repeat("\r", 300_000) + "\n" + "last"
	type line struct {
		raw, text string
		long      bool
	}
	var got []line
	var end int64
	for l, err := range Lines(strings.NewReader(text), 100) {
		if l.Offset != end || l.Number != len(got)+1 {
			t.Errorf("line %d at %d, want line %d at %d", l.Number, l.Offset, len(got)+1, end)
		}
		end += l.Length
		if cap(l.Raw) > 1<<18 {
			t.Errorf("line %d holds %d bytes", l.Number, cap(l.Raw))
		}
		got = append(got, line{string(l.Raw), string(l.Text()), errors.Is(err, ErrLong)})
	}
	want := []line{{"\ufeff{}", "{}", false}, {"", "", false}, {"  x ", "x", false}, {"", "", true},
		{"last", "last", false}}
	if end != int64(len(text)) {
		t.Errorf("%d of %d bytes", end, len(text))
	}
	if !slices.Equal(want, got) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestLongLinesAreTheCallers: a line of many blocks is whole, is not written over by later ones, and costs its size
// twice.
func TestLongLinesAreTheCallers(t *testing.T) {
	long := func(c string, n int) string { return strings.Repeat(c, n) }
	text := "short\n" + long("a", 3*longLine+17) + "\r\n" + long("b", longLine) + "\n" + long("c", 2*longLine) +
		"\nlast"
	var kept []string
	var own []bool
	var raws [][]byte
	for l, err := range Lines(strings.NewReader(text), 1<<30) {
		if err != nil {
			t.Fatal(err)
		}
		own = append(own, l.Own)
		if l.Own {
			raws = append(raws, l.Raw)
		} else {
			kept = append(kept, string(l.Raw))
		}
	}
	if !slices.Equal(own, []bool{false, true, true, true, false}) || !slices.Equal(kept, []string{"short", "last"}) {
		t.Errorf("own %v, short lines %q", own, kept)
	}
	for i, want := range []string{long("a", 3*longLine+17), long("b", longLine), long("c", 2*longLine)} {
		if string(raws[i]) != want {
			t.Errorf("long line %d: %d bytes from %q", i, len(raws[i]), raws[i][:9])
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range Lines(strings.NewReader(long("x", 64<<20)), 1<<30) {
	}
	runtime.ReadMemStats(&after)
	if n := float64(after.TotalAlloc-before.TotalAlloc) / (64 << 20); n > 3.1 { // the text that is read is one of them
		t.Errorf("%.1f bytes are allocated for each byte of a line", n)
	}
}

func TestReadErrorEndsTheSequence(t *testing.T) {
	boom := errors.New("disk on fire")
	r := io.MultiReader(strings.NewReader(`{"id":"a","text":"t"}`+"\n"), iotest.ErrReader(boom))
	var n int
	var last error
	for _, err := range Items(r, "-", false) {
		n++
		last = err
	}
	if n != 2 || !errors.Is(last, boom) || errors.Is(last, ErrLine) {
		t.Fatalf("%d steps, last error %v", n, last)
	}
}

func TestStopsWhenTheCallerDoes(t *testing.T) {
	for range Items(strings.NewReader("bad\nbad\n"), "f", false) {
		break
	}
}

func FuzzItems(f *testing.F) {
	f.Add("{\"id\":\"a\",\"text\":\"b\"}\n{}\n\n[]")
	f.Add("\xef\xbb\xbf{\"id\":\"\\u0000\",\"text\":\"\xff\"}\r\n")
	f.Add("{\"id\":1}")
	f.Fuzz(func(t *testing.T, text string) {
		last := 0
		for it, err := range Items(strings.NewReader(text), "fuzz", false) {
			if err != nil {
				line, ok := errors.AsType[*LineError](err)
				if !ok || !errors.Is(err, ErrLine) || line.Line <= last {
					t.Fatalf("not a line error, or not after line %d: %v", last, err)
				}
				last = line.Line
				continue
			}
			if it.ID == "" || strings.TrimSpace(it.Text) == "" || !utf8.ValidString(it.Text) {
				t.Fatalf("accepted %#v", it)
			}
			if _, err := json.Marshal(it); err != nil {
				t.Fatal(err)
			}
		}
		if n := strings.Count(text, "\n") + 1; last > n {
			t.Fatalf("line %d of %d", last, n)
		}
	})
}
