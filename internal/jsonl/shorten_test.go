package jsonl

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func shortened(t testing.TB, text string, most, limit int) (Line, error) {
	t.Helper()
	for line, err := range Shortened(strings.NewReader(text), int64(limit), most) {
		return line, err
	}
	t.Fatalf("no line in %q", text)
	return Line{}, nil
}

func TestStringsAreShortened(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"a":"0123456789","b":[1234567]}`, `{"a":"0123","b":[1234567]}`},
		{`{"a":"äöüäöü"}`, `{"a":"äö"}`},
		{`{"a":"abcä…"}`, `{"a":"abcä"}`},
		{`{"a":"\"\"\"\""}`, `{"a":"\"\""}`},
		{`{"a":"\u00e4\u00e4"}`, `{"a":"\u00e4"}`},
		{`{"a":"\ud83d\ude00\ud83d\ude00"}`, `{"a":"\ud83d\ude00"}`},
		{`{"a":"abc\\","b":"\\"}`, `{"a":"abc\\","b":"\\"}`},
		{`{"longkey":"x"}`, `{"long":"x"}`},
	} {
		line, err := shortened(t, c.in+"\n", 4, 1<<20)
		if err != nil || string(line.Raw) != c.want || line.Cut != int64(len(c.in)-len(c.want)) {
			t.Errorf("%s: %s, cut %d, %v, want %s", c.in, line.Raw, line.Cut, err, c.want)
		}
	}
	// The limit is for what is held: a line that is long by its strings alone passes.
	long := `{"a":"` + strings.Repeat("x", 1<<20) + `"}`
	if line, err := shortened(t, long, 4, 1<<10); err != nil || string(line.Raw) != `{"a":"xxxx"}` {
		t.Errorf("%s, %v", line.Raw, err)
	}
}

func FuzzShortened(f *testing.F) {
	for _, s := range []string{`{"a":"b"}`, `{"a":"\ud83d\ude00ä"}`, `["\\","\"",1]`, `"\u`, "{\"\xff\":1}"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, text string, most int) {
		if most < 1 || text == "" || strings.ContainsAny(text, "\r\n") {
			return
		}
		line, err := shortened(t, text, most, 1<<20)
		if err != nil {
			t.Skip()
		}
		if len(line.Raw)+int(line.Cut) != len(text) {
			t.Fatalf("%q: %d bytes and %d cut", text, len(line.Raw), line.Cut)
		}
		if json.Valid([]byte(text)) && !json.Valid(line.Raw) {
			t.Fatalf("%q became %q", text, line.Raw)
		}
		if utf8.ValidString(text) && !utf8.Valid(line.Raw) {
			t.Fatalf("%q became invalid UTF-8 %q", text, line.Raw)
		}
	})
}
