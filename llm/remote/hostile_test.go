package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/upstream"
	"github.com/sluice-rag/sluice/llm"
)

func TestErrorsOfServers(t *testing.T) {
	const openAI = `{"error":{"message":"%s","type":"invalid_request_error","param":null,"code":"%s"}}`
	for name, c := range map[string]struct {
		status int
		body   string
		want   APIError
		kind   error
		says   string
	}{
		"wrong key": {401, fmt.Sprintf(openAI, "Incorrect API key provided: "+key, "invalid_api_key"),
			APIError{Status: 401, Type: "invalid_request_error", Code: "invalid_api_key",
				Message: "Incorrect API key provided: [key]"}, nil, "the key is missing"},
		"no such model": {404, fmt.Sprintf(openAI, "The model x does not exist", "model_not_found"),
			APIError{Status: 404, Type: "invalid_request_error", Code: "model_not_found",
				Message: "The model x does not exist"}, nil, "check the model's name"},
		"OpenAI too long": {400, fmt.Sprintf(openAI, "too long", "context_length_exceeded"),
			APIError{Status: 400, Type: "invalid_request_error", Code: "context_length_exceeded", Message: "too long"},
			llm.ErrPromptTooLong, "shorten"},
		"llama too long": {400,
			`{"error":{"code":400,"message":"exceeds","type":"exceed_context_size_error","n_prompt_tokens":900,"n_ctx":512}}`, APIError{Status: 400, Type: "exceed_context_size_error", Message: "exceeds"}, llm.ErrPromptTooLong, "exceeds"},
		"vLLM too long": {400,
			`{"object":"error","message":"This model's maximum context length is 2048 tokens. However, you requested 3000","type":"BadRequestError","param":null,"code":400}`, APIError{Status: 400, Type: "BadRequestError", Message: "This model's maximum context length is 2048 tokens. However, you requested 3000"}, llm.ErrPromptTooLong, ""},
		"busy": {429, `{"error":{"message":"slow down","code":"rate_limit"}}`,
			APIError{Status: 429, Code: "rate_limit", Message: "slow down"}, llm.ErrBusy, "slow down"},
		"error as a string": {500, `{"error":"it broke"}`, APIError{Status: 500, Message: "it broke"}, nil,
			"HTTP 500: it broke"},
		"FastAPI":           {422, `{"detail":"bad field"}`, APIError{Status: 422, Message: "bad field"}, nil, ""},
		"a page":            {502, `<html><h1>Bad gateway</h1>`, APIError{Status: 502, Message: "a web page"}, nil, ""},
		"nothing":           {403, ``, APIError{Status: 403}, nil, "the key is missing"},
		"a terminal's bell": {400, "\x1b[31mred\x07", APIError{Status: 400, Message: "[31mred"}, nil, ""},
	} {
		s := serve(t, status(c.status, c.body))
		_, err := open(t, s, func(o *Options) { o.Retries = 0 }).Generate(t.Context(), hello(), nil)
		var got *APIError
		if !errors.As(err, &got) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		plain := *got
		plain.kind = nil
		if plain != c.want || c.kind != nil && !errors.Is(err, c.kind) || c.kind == nil && errors.Unwrap(err) != nil {
			t.Errorf("%s: %+v, wraps %v", name, plain, errors.Unwrap(err))
		}
		if !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPromptTooLongHasNumbers(t *testing.T) {
	s := serve(t, status(400,
		`{"error":{"code":400,"type":"exceed_context_size_error","n_prompt_tokens":900,"n_ctx":512}}`))
	_, err := open(t, s).Generate(t.Context(), hello(), nil)
	var long *llm.PromptTooLongError
	if !errors.As(err, &long) || long.Tokens != 900 || long.Limit != 511 {
		t.Errorf("%v", err)
	}
}

func TestHugeErrorsAreCut(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(400)
		for range 1 << 12 {
			if _, err := io.WriteString(w, strings.Repeat("no ", 1000)); err != nil {
				return
			}
		}
	})
	if _, err := open(t, s).Generate(t.Context(), hello(), nil); err == nil || len(err.Error()) > 2*maxErrorMessage {
		t.Errorf("%d bytes", len(fmt.Sprint(err)))
	}
}

func TestRetries(t *testing.T) {
	ok := says("stop", "a")
	for name, c := range map[string]struct {
		handlers []http.HandlerFunc
		requests int
		ok       bool
	}{
		"unavailable twice": {[]http.HandlerFunc{status(503, ""), status(500, ""), ok}, 3, true},
		"busy":              {[]http.HandlerFunc{status(429, "", "Retry-After", "0"), ok}, 2, true},
		"busy until the past": {[]http.HandlerFunc{status(429, "", "Retry-After", "Mon, 02 Jan 2006 15:04:05 GMT"),
			ok}, 2, true},
		"for ever":        {[]http.HandlerFunc{status(503, "")}, 3, false},
		"too long a wait": {[]http.HandlerFunc{status(429, "", "Retry-After", "3600"), ok}, 1, false},
		"no money": {[]http.HandlerFunc{status(429, `{"error":{"code":"insufficient_quota"}}`), ok}, 1,
			false},
		"a mistake of ours":     {[]http.HandlerFunc{status(400, ""), ok}, 1, false},
		"not implemented":       {[]http.HandlerFunc{status(501, ""), ok}, 1, false},
		"after the first bytes": {[]http.HandlerFunc{raw("data: " + delta("a") + "\n\n"), ok}, 1, false},
	} {
		s := serve(t, c.handlers...)
		var log bytes.Buffer
		_, err := open(t, s, func(o *Options) {
			o.Retries, o.Logger = 2, logTo(&log)
		}).Generate(t.Context(), hello(), nil)
		if (err == nil) != c.ok || len(s.all()) != c.requests {
			t.Errorf("%s: %d requests, %v", name, len(s.all()), err)
		}
		if retried := c.requests - 1; strings.Count(log.String(), "trying again") != retried {
			t.Errorf("%s: the log is %q", name, log.String())
		}
	}
}

func TestRetryAfterIsHeeded(t *testing.T) {
	g := &Generator{o: Options{Retries: 3, backoff: time.Millisecond}}
	for seconds, want := range map[time.Duration]bool{time.Second: true, time.Minute: true, time.Minute + 1: false} {
		wait, again := g.retry(&APIError{Status: 503, RetryAfter: seconds}, 0)
		if again != want || want && wait != seconds {
			t.Errorf("%v: %v, %v", seconds, wait, again)
		}
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{"7": 7 * time.Second, "-1": 0, "": 0, "soon": 0,
		"Fri, 02 Jan 2026 03:04:15 GMT": 10 * time.Second, "99999999999": 0} {
		if got := upstream.RetryAfter(value, now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

func TestWaitsGrowAndDiffer(t *testing.T) {
	g := &Generator{o: Options{Retries: 100, backoff: 500 * time.Millisecond}}
	distinct := map[time.Duration]bool{}
	for attempt := range 100 {
		full := min(500*time.Millisecond<<min(attempt, 16), 20*time.Second)
		wait, again := g.retry(&APIError{Status: 503}, attempt)
		if !again || wait < full/2 || wait > full {
			t.Errorf("attempt %d: %v of %v", attempt, wait, full)
		}
		distinct[wait] = true
	}
	if len(distinct) < 50 {
		t.Errorf("only %d different waits", len(distinct))
	}
}

func TestServerThatIsNotThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	l.Close()
	var log bytes.Buffer
	_, err = Open(t.Context(), Options{BaseURL: url, Retries: 2, backoff: time.Millisecond, Logger: logTo(&log)})
	if err == nil || !strings.Contains(err.Error(), "refused") || strings.Count(log.String(), "trying again") != 2 {
		t.Errorf("%v %s", err, log.String())
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = Open(ctx, Options{BaseURL: url, Retries: 2, backoff: time.Hour, Logger: quiet()})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a back-off of an hour: %v", err)
	}
}

func TestHostileStreams(t *testing.T) {
	piece := "data: " + delta("so far") + "\n\n"
	endless := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			flush(w, piece)
		}
	}
	drip := func(part string) http.HandlerFunc { // never ends a line
		return func(w http.ResponseWriter, r *http.Request) {
			flush(w, piece)
			for tick := time.NewTicker(time.Millisecond); r.Context().Err() == nil; {
				select {
				case <-tick.C:
					flush(w, part)
				case <-r.Context().Done():
					tick.Stop()
				}
			}
		}
	}
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		want error
		text bool
	}{
		"silent before the header": {func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}, ErrTimeout, false},
		"silent in the middle": {func(w http.ResponseWriter, r *http.Request) {
			flush(w, piece)
			<-r.Context().Done()
		}, ErrTimeout, true},
		"a byte at a time":     {drip("x"), ErrTimeout, true},
		"endless":              {endless, ErrTooLarge, true},
		"a huge line":          {raw(piece + "data: " + strings.Repeat("x", 2*maxLine)), ErrTooLarge, true},
		"no JSON":              {raw(piece + "data: {oops\n\n"), ErrResponse, true},
		"another kind of JSON": {raw(piece + `data: {"choices":7}` + "\n\n"), ErrResponse, true},
		"no [DONE]":            {raw(piece), ErrIncomplete, true},
		"cut in an event":      {raw(piece + `data: {"choices":[{"del`), ErrIncomplete, true},
		"cut in a chunk": {func(w http.ResponseWriter, _ *http.Request) {
			flush(w, piece)
			panic(http.ErrAbortHandler)
		}, ErrIncomplete, true},
		"a web page": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<html>hello")
		}, ErrResponse, false},
		"not streamed": {object(`{"choices":[{"message":{"content":"x"}}]}`), ErrResponse, false},
		"an error, status 200": {object(`{"error":{"message":"overloaded","code":429}}`),
			&APIError{Status: 200, Message: "overloaded"}, false},
		"an error in a stream": {raw(piece + `data: {"error":{"message":"lost it","code":500,"type":"server_error"}}` +
			"\n\n"), &APIError{Status: 500, Type: "server_error", Message: "lost it"}, true},
		"an event of errors": {raw(piece + "event: error\ndata: lost it\n\n"), &APIError{Message: "lost it"}, true},
		"an old llama-server's": {raw(piece + `error: {"code":500,"message":"lost it"}` + "\n\n"),
			&APIError{Status: 500, Message: "lost it"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := open(t, serve(t, c.h), func(o *Options) {
				o.MaxResponse = 4 << 20
				if errors.Is(c.want, ErrTimeout) {
					o.Timeout = 500 * time.Millisecond // the first piece comes within it
				}
			})
			var got strings.Builder
			r, err := g.Generate(t.Context(), hello(), func(p string) error { got.WriteString(p); return nil })
			ok := errors.Is(err, c.want)
			if want, is := c.want.(*APIError); is {
				var api *APIError
				ok = errors.As(err, &api) && *api == *want
			}
			if !ok || strings.HasPrefix(r.Text, "so far") != c.text || r.Text != got.String() || r.Finish != "" {
				t.Errorf("%v; %d bytes, finish %q", err, len(r.Text), r.Finish)
			}
		})
	}
}

func TestRedirects(t *testing.T) {
	var other *server
	stolen := serve(t, says("stop", "stolen"))
	for name, c := range map[string]struct {
		code int
		to   func() string
		ok   bool
	}{
		"another host": {307, func() string { return stolen.URL + "/v1/chat/completions" }, false},
		"another name of it": {308, func() string {
			return strings.Replace(other.URL, "127.0.0.1", "localhost", 1) + "/x"
		}, false},
		"another scheme": {307, func() string {
			return strings.Replace(other.URL, "http:", "https:", 1) + "/x"
		}, false},
		"as a GET":              {302, func() string { return "/x" }, false},
		"the key in a host":     {307, func() string { return "http://" + key + ".example/x" }, false},
		"the same server":       {307, func() string { return "/elsewhere" }, true},
		"the same, permanently": {308, func() string { return other.URL + "/elsewhere" }, true},
	} {
		other = serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, c.to(), c.code)
		}, says("stop", "a"))
		r, err := open(t, other).Generate(t.Context(), hello(), nil)
		if c.ok && (err != nil || r.Text != "a" || other.last(t).path != "/elsewhere" ||
			other.last(t).auth != "Bearer "+key || other.last(t).body["model"] != "m") {
			t.Errorf("%s: %v %+v", name, err, other.last(t))
		}
		if !c.ok && (err == nil || len(other.all()) != 1 || strings.Contains(err.Error(), key)) {
			t.Errorf("%s: %v", name, err)
		}
		if !c.ok && name != "the key in a host" && !errors.Is(err, ErrRedirect) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(stolen.all()); n > 0 {
		t.Errorf("another server got %d requests", n)
	}
	loop := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Path+"x", http.StatusTemporaryRedirect)
	})
	if _, err := open(t, loop).Generate(t.Context(), hello(), nil); !errors.Is(err, ErrRedirect) ||
		len(loop.all()) > 1+maxRedirects {
		t.Errorf("in circles: %v after %d", err, len(loop.all()))
	}
}

// A server may close an idle connection just as it is used again; that costs no answer.
func TestClosedConnectionIsReplaced(t *testing.T) {
	closing := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Close()
	}
	s := serve(t, says("stop", "a"), closing, says("stop", "b"))
	g := open(t, s, func(o *Options) { o.Retries = 0 })
	for _, want := range []string{"a", "b"} {
		if r, err := g.Generate(t.Context(), hello(), nil); err != nil || r.Text != want {
			t.Errorf("%+v %v", r, err)
		}
	}
	if n := len(s.all()); n != 3 {
		t.Errorf("%d requests", n)
	}
}
