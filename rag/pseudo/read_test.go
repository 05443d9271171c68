package pseudo

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

const file = `{"context_id":"a","text":"What is a?","id":"1","topic":"x","answers":["b"]}

{"context_id":"a","text":"Why a?"}
{"context_id":"b","text":"What is b?","answerable":true}
not json
{"text":"whose?"}
{"context_id":"b","text":"  "}
{"context_id":7,"text":"seven?"}
{"context_id":"a","text":"Third of a?"}
["context_id"]
{"context_id":"b","text":"` + "\xff" + `"}
{"context_id":"b","text":"Last without an end?"}`

func TestRead(t *testing.T) {
	var bad []int
	got, err := Read(strings.NewReader("\xef\xbb\xbf"+file), ReadOptions{OnBad: func(line int, err error) {
		if err == nil {
			t.Errorf("line %d is bad without a reason", line)
		}
		bad = append(bad, line)
	}})
	want := []Query{{"1", "a", "What is a?"}, {"", "a", "Why a?"}, {"", "b", "What is b?"}, {"", "a", "Third of a?"},
		{"", "b", "Last without an end?"}}
	if err != nil || !slices.Equal(got, want) || !slices.Equal(bad, []int{5, 6, 7, 8, 10, 11}) {
		t.Errorf("%+v, bad %v, %v", got, bad, err)
	}
	got, err = Read(iotest.OneByteReader(strings.NewReader(strings.ReplaceAll(file, "\n", "\r\n"))),
		ReadOptions{PerContext: 1})
	if err != nil || !slices.Equal(got, []Query{want[0], want[2]}) {
		t.Errorf("one per context: %+v, %v", got, err)
	}
}

func TestReadRefuses(t *testing.T) {
	if _, err := Read(strings.NewReader(file), ReadOptions{Strict: true}); !errors.Is(err, ErrQueries) ||
		!strings.Contains(err.Error(), "line 5") {
		t.Errorf("strict: %v", err)
	}
	for name, text := range map[string]string{"empty": "", "blank": "\n\n \n", "only bad lines": "x\n{}\n"} {
		if _, err := Read(strings.NewReader(text), ReadOptions{}); !errors.Is(err, ErrQueries) {
			t.Errorf("%s: %v", name, err)
		}
	}
	broken := io.MultiReader(strings.NewReader(file), iotest.ErrReader(io.ErrNoProgress))
	if _, err := Read(broken, ReadOptions{}); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("read error: %v", err)
	}
}

func TestReadLongLines(t *testing.T) {
	good := `{"context_id":"a","text":"What is a?"}`
	long := fmt.Sprintf(`{"context_id":"a","text":"%s?"}`, strings.Repeat("x", maxLine))
	for name, c := range map[string]struct {
		text string
		bad  []int
		want int
	}{
		"first":         {long + "\n" + good, []int{1}, 1},
		"in the middle": {good + "\n" + long + "\n" + good + "\n", []int{2}, 2},
		"last, no end":  {good + "\n" + long, []int{2}, 1},
	} {
		var bad []int
		got, err := Read(strings.NewReader(c.text),
			ReadOptions{OnBad: func(line int, err error) { bad = append(bad, line) }})
		if err != nil || len(got) != c.want || !slices.Equal(bad, c.bad) {
			t.Errorf("%s: %d queries, bad %v, %v", name, len(got), bad, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(file)
	f.Add(`{"context_id":"a","text":"b"}`)
	f.Add("\xef\xbb\xbf\n{}\r\n[]")
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Count(text, "\n") + 1
		bad := 0
		got, err := Read(strings.NewReader(text), ReadOptions{OnBad: func(line int, err error) {
			if bad++; line < 1 || line > lines || err == nil {
				t.Fatalf("line %d of %d: %v", line, lines, err)
			}
		}})
		if err != nil && !errors.Is(err, ErrQueries) {
			t.Fatal(err)
		}
		if len(got)+bad > lines {
			t.Fatalf("%d queries and %d bad ones in %d lines", len(got), bad, lines)
		}
		for _, q := range got {
			if q.ContextID == "" || strings.TrimSpace(q.Text) == "" {
				t.Fatalf("%+v", q)
			}
		}
		if _, err := Read(strings.NewReader(text), ReadOptions{Strict: true}); (err == nil) != (bad == 0 &&
			len(got) > 0) {
			t.Fatalf("strict: %v with %d bad lines", err, bad)
		}
	})
}
