package llm

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/test/race"
)

// The library's text filter (llm/binding/text.cpp) decides what of a completion may be shown. It is plain C++, so it is
// tested here without llama.cpp: compiled with a small driver and compared with a reference that sees the whole text at
// once.

type filterCase struct{ stops, pieces []string }

type filterResult struct {
	pieces  []string
	stopped bool
	rest    string
	escaped string
}

func runFilter(t *testing.T, cases []filterCase) []filterResult {
	t.Helper()
	cxx, err := exec.LookPath("g++")
	if err != nil {
		t.Skip("SKIP: no g++ to compile the text filter with")
	}
	bin := filepath.Join(t.TempDir(), "filter")
	build := exec.Command(cxx, "-std=c++17", "-O1", "-Wall", "-Wextra", "-o", bin,
		"binding/testdata/text_filter.cpp", "binding/text.cpp")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var in bytes.Buffer
	list := func(l []string) {
		fmt.Fprintln(&in, len(l))
		for _, s := range l {
			fmt.Fprintln(&in, hex.EncodeToString([]byte(s)))
		}
	}
	for _, c := range cases {
		list(c.stops)
		list(c.pieces)
	}
	cmd := exec.Command(bin)
	cmd.Stdin = &in
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var results []filterResult
	var lines []string
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		if s.Text() != "." {
			lines = append(lines, s.Text())
			continue
		}
		var r filterResult
		for i, line := range lines {
			line, stop := strings.CutSuffix(line, "!")
			r.stopped = r.stopped || stop
			text, _ := hex.DecodeString(line)
			switch i {
			case len(lines) - 2:
				r.rest = string(text)
			case len(lines) - 1:
				r.escaped = string(text)
			default:
				r.pieces = append(r.pieces, string(text))
			}
		}
		results, lines = append(results, r), nil
	}
	return results
}

// wholeText decodes all text at once, as the reference: malformed bytes are U+FFFD, an unfinished rune at the end is
// dropped, and the text is cut at the stop string that completes first.
func wholeText(c filterCase) (text string, stopped bool) {
	all := []byte(strings.Join(c.pieces, ""))
	ends := []int{0} // of pieces
	for _, p := range c.pieces {
		ends = append(ends, ends[len(ends)-1]+len(p))
	}
	for _, end := range ends { // the filter looks after each piece
		text = decode(all[:end])
		cut := -1
		for _, s := range c.stops {
			if i := strings.Index(text, s); s != "" && i >= 0 && (cut < 0 || i < cut) {
				cut = i
			}
		}
		if cut >= 0 {
			return text[:cut], true
		}
	}
	return text, false
}

func decode(b []byte) string {
	var sb strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			if !utf8.FullRune(b) {
				break
			}
			// utf8 reports one byte at a time; a maximal subpart is one replacement (Unicode 15, 3.9, table 3-11).
			for n = 1; n < len(b) && !utf8.FullRune(b[:n]) && !utf8.FullRune(append(b[:n:n], b[n])); n++ {
			}
		}
		sb.WriteRune(r)
		b = b[n:]
	}
	return sb.String()
}

func TestTextFilter(t *testing.T) {
	race.Skip(t)
	cases := []filterCase{
		{nil, []string{"hello", " world"}},
		{nil, []string{"\xf0\x9f", "\x98", "\x80", "!"}},    // a rune in three pieces
		{nil, []string{"a\xff", "b\xc0\x80c", "\xe2\x82"}},  // malformed, overlong, unfinished
		{nil, []string{"\xed\xa0\x80", "\xf4\x90\x80\x80"}}, // a surrogate, beyond Unicode
		{nil, []string{"nul\x00", "\x00"}},
		{[]string{"STOP"}, []string{"ab", "S", "T", "OX", "ST", "OP", "never"}},
		{[]string{"\n\n", "\nQ:"}, []string{"a\n", "b\n", "Q", ":c"}},
		{[]string{"é"}, []string{"caf\xc3", "\xa9 noir"}},
		{[]string{"aab"}, []string{"a", "a", "a", "b"}},
		{[]string{"abc", "b"}, []string{"a", "b", "c"}},
		{[]string{"x"}, []string{"x"}},
	}
	rng := rand.New(rand.NewPCG(3, 4))
	alphabet := []string{"a", "b", "ab", "ba", "é", "\xc3", "\xa9", "€", "\xe2\x82", "\xac", "\x00", "\xff", "\n"}
	words := func(n int) []string {
		out := make([]string, rng.IntN(n))
		for i := range out {
			for range rng.IntN(4) {
				out[i] += alphabet[rng.IntN(len(alphabet))]
			}
		}
		return out
	}
	for range 3000 {
		c := filterCase{pieces: words(8)}
		for _, s := range words(3) {
			if s != "" && utf8.ValidString(s) {
				c.stops = append(c.stops, s)
			}
		}
		cases = append(cases, c)
	}
	for i, r := range runFilter(t, cases) {
		want, stopped := wholeText(cases[i])
		got := strings.Join(r.pieces, "") + r.rest
		if got != want || r.stopped != stopped {
			t.Fatalf("%q: got %q (stopped %v), want %q (stopped %v)", cases[i], got, r.stopped, want, stopped)
		}
		for _, p := range r.pieces {
			if !utf8.ValidString(p) {
				t.Fatalf("%q: piece %q is not UTF-8", cases[i], p)
			}
		}
		if strings.ReplaceAll(r.escaped, "\xc0\x80", "\x00") != r.rest || strings.Contains(r.escaped, "\x00") {
			t.Fatalf("%q escaped as %q", r.rest, r.escaped)
		}
	}
}
