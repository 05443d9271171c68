package remote

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

type plainEvent struct{ Name, Data string }

func readAll(r io.Reader, limit int64) (list []plainEvent, err error) {
	e := newEvents(r, limit, func() {})
	for {
		ev, err := e.next()
		if err != nil {
			return list, err
		}
		list = append(list, plainEvent{ev.name, string(ev.data)})
	}
}

// The streams and what they mean are from the examples of the standard (section 9.2.6) and its list of rules.
func TestEvents(t *testing.T) {
	for name, c := range map[string]struct {
		stream string
		want   []plainEvent
	}{
		"three lines of data":    {"data: YHOO\ndata: +2\ndata: 10\n\n", []plainEvent{{"", "YHOO\n+2\n10"}}},
		"comments, ids":          {": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n", []plainEvent{{"", "first event"}, {"", "second event"}, {"", " third event"}}},
		"fields without a value": {"data\n\ndata\ndata\n\ndata:", []plainEvent{{"", ""}, {"", "\n"}, {"", ""}}},
		"one space is taken":     {"data:test\n\ndata: test\n\n", []plainEvent{{"", "test"}, {"", "test"}}},
		"names": {"event: add\ndata: 1\n\nevent: x\n\ndata: 2\n\n",
			[]plainEvent{{"add", "1"}, {"", "2"}}},
		"CRLF, CR, mixed": {"data: a\r\ndata: b\rdata: c\n\r\ndata: d\r\r",
			[]plainEvent{{"", "a\nb\nc"}, {"", "d"}}},
		"byte order mark":         {"\xef\xbb\xbfdata: a\n\n", []plainEvent{{"", "a"}}},
		"unknown fields":          {"retry: 10\nfoo: bar\ndata: a\n\n", []plainEvent{{"", "a"}}},
		"the old name of errors":  {"error: {\"code\":500}\n\n", []plainEvent{{"error", `{"code":500}`}}},
		"the end without a blank": {"data: a\n\ndata: [DONE]", []plainEvent{{"", "a"}, {"", "[DONE]"}}},
		"nothing":                 {"", nil},
	} {
		for way, r := range map[string]io.Reader{"whole": strings.NewReader(c.stream),
			"by the byte": iotest.OneByteReader(strings.NewReader(c.stream))} {
			got, err := readAll(r, 1<<20)
			if diff := cmp.Diff(c.want, got); diff != "" || !errors.Is(err, io.EOF) {
				t.Errorf("%s, %s: %v %s", name, way, err, diff)
			}
		}
	}
}

func TestEventsHaveLimits(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for name, c := range map[string]struct {
		stream string
		limit  int64
	}{
		"line":   {"data: " + long, 1 << 30},
		"event":  {strings.Repeat("data: "+long[:maxLine/4]+"\n", 5), 1 << 30},
		"stream": {strings.Repeat(": ping\n\n", 1000), 5000},
	} {
		if _, err := readAll(strings.NewReader(c.stream), c.limit); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// plainRead is the standard's algorithm over a whole text, without a thought of speed or limits.
func plainRead(stream string) (list []plainEvent) {
	stream = strings.TrimPrefix(stream, "\xef\xbb\xbf")
	stream = strings.ReplaceAll(strings.ReplaceAll(stream, "\r\n", "\n"), "\r", "\n")
	var data []string
	name := ""
	flush := func() {
		if data != nil {
			list = append(list, plainEvent{name, strings.Join(data, "\n")})
		}
		data, name = nil, ""
	}
	for line := range strings.SplitSeq(stream, "\n") {
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			flush()
		case field == "event":
			name = value
		case field == "error":
			name, data = "error", append(data, value)
		case field == "data":
			data = append(data, value)
		}
	}
	flush()
	return list
}

// FuzzEvents compares the reader with the plain one, whatever the pieces in which the stream comes.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{"data: {}\n\n", ": c\r\n\r\ndata: a\rdata: b\r\n\n", "event: e\ndata\n\n",
		"\xef\xbb\xbfdata: [DONE]", "error: {}\n\r", "data:\n\ndata: x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > maxLine {
			return
		}
		want := plainRead(s)
		for _, r := range []io.Reader{strings.NewReader(s), iotest.HalfReader(strings.NewReader(s))} {
			got, err := readAll(r, 1<<30)
			if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, io.EOF) {
				t.Fatalf("%q: %v %s", s, err, diff)
			}
		}
	})
}

// FuzzAnswer feeds any stream to the reader of answers: the text is what the stream function got, and an end without an
// error has a reason.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("data: " + delta("a") + "\n\ndata: [DONE]\n\n"))
	f.Add([]byte(`data: {"choices":[{"text":"b","finish_reason":"stop","logprobs":{"tokens":["b"],"top_logprobs":[{"c":-1}]}}],"usage":{"prompt_tokens":-1}}` + "\n\ndata: [DONE]\n\n"))
	f.Add([]byte("event: error\ndata: {\"message\":\"no\"}\n\n"))
	f.Add([]byte(`data: {"error":{"code":7,"message":null}}` + "\n\n"))
	g, err := Open(f.Context(), Options{BaseURL: "http://localhost", Model: "m", ContextSize: 100})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { g.Close() })
	f.Fuzz(func(t *testing.T, stream []byte) {
		var got strings.Builder
		a := &answer{req: hello(), stream: func(s string) error { got.WriteString(s); return nil }}
		a.req.LogProbs, a.req.Alternatives = true, 2
		w := g.watch(t.Context())
		defer w.end()
		result, err := a.end(g.read(w, bytes.NewReader(stream), a))
		if result.Text != got.String() || result.PromptTokens < 0 || result.CachedTokens > result.PromptTokens {
			t.Fatalf("%+v, streamed %q", result, got.String())
		}
		if (err == nil) != (result.Finish != "") {
			t.Fatalf("finish %q, error %v", result.Finish, err)
		}
		for _, p := range result.LogProbs {
			if len(p.Top) > 2 {
				t.Fatalf("%d alternatives", len(p.Top))
			}
		}
	})
}
