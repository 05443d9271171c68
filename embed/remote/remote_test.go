package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/remote"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "sk-topsecret-0123456789"

// server embeds a text as (length, 1, 0), backwards in its answer, or answers as a test wants.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	batches []int
	inputs  []string
	auth    string
	answer  func(w http.ResponseWriter, texts []string) bool // false: answered
}

func serve(t *testing.T) *server {
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Model    string   `json:"model"`
			Input    []string `json:"input"`
			Encoding string   `json:"encoding_format"`
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.URL.Path != "/v1/embeddings" ||
			in.Model != "m" ||
			in.Encoding != "float" {
			t.Errorf("%s: %+v, %v", r.URL.Path, in, err)
		}
		s.mu.Lock()
		s.batches, s.auth = append(s.batches, len(in.Input)), r.Header.Get("Authorization")
		s.inputs = append(s.inputs, in.Input...)
		answer := s.answer
		s.mu.Unlock()
		if answer != nil && !answer(w, in.Input) {
			return
		}
		var data []map[string]any
		for i := len(in.Input) - 1; i >= 0; i-- {
			data = append(data, map[string]any{"index": i, "embedding": []float64{float64(len(in.Input[i])), 1, 0}})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
	}))
	t.Cleanup(s.Close)
	return s
}

// from lets the server answer with a function from now on.
func (s *server) from(answer func(http.ResponseWriter, []string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer, s.batches, s.inputs = answer, nil, nil
}

func options(s *server, change ...func(*Options)) Options {
	o := Options{Server: remote.Options{BaseURL: s.URL, Model: "m", APIKey: key, Timeout: 10 * time.Second,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}}
	for _, f := range change {
		f(&o)
	}
	return o
}

func open(t *testing.T, s *server, change ...func(*Options)) *Encoder {
	t.Helper()
	e, err := Open(t.Context(), options(s, change...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func TestEmbed(t *testing.T) {
	s := serve(t)
	calls := 0
	e := open(t, s, func(o *Options) {
		o.Server.ContextSize = 100
		o.Progress = func(done, total int) {
			calls++
			if total != 150 || done < 1 || done > total {
				t.Errorf("%d of %d", done, total)
			}
		}
	})
	s.from(nil)
	texts := make([]string, 150)
	for i := range texts {
		texts[i] = strings.Repeat("x", i)
	}
	texts[149] = strings.Repeat("ä", 200) // cut at 300 bytes
	texts[148] = "a\x00b\xff"
	got, err := e.Embed(t.Context(), texts, embed.Query)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.batches) != 3 || calls != 3 || s.auth != "Bearer "+key || got.Dim != 3 || got.Truncated != 1 ||
		got.Repaired != 1 || got.Tokens[30] != 10 {
		t.Errorf("%v, %d calls, %q, %+v", s.batches, calls, s.auth, got)
	}
	for i := 1; i < 148; i++ {
		length := math.Hypot(float64(i), 1)
		if v := got.Row(i); math.Abs(float64(v[0])-float64(i)/length) > 1e-6 || v[2] != 0 {
			t.Fatalf("text %d: %v", i, v)
		}
	}
	for _, sent := range s.inputs {
		if sent == "" || len(sent) > 300 || strings.ContainsAny(sent, "\x00") {
			t.Errorf("sent %q", sent)
		}
	}
	if e, err := e.Embed(t.Context(), nil, embed.Document); err != nil || len(e.Data) != 0 {
		t.Errorf("no texts: %v, %v", e, err)
	}
}

func TestRequestsAreBounded(t *testing.T) {
	long := strings.Repeat("x", batchBytes/2)
	texts := []string{long, long, "y", long + long + long, "z"}
	var got []int
	for from := 0; from < len(texts); {
		to := batchEnd(texts, from)
		got, from = append(got, to), to
	}
	if fmt.Sprint(got) != "[2 3 4 5]" {
		t.Errorf("requests end at %v", got)
	}
}

func TestIdentity(t *testing.T) {
	s, other := serve(t), serve(t)
	e := open(t, s)
	if i := e.Info(); i.Name != s.URL+"/v1#m" || i.Dim != 3 || i.MaxTokens != DefaultTokens ||
		!strings.HasPrefix(i.Digest, "sha256:") || i.TokenizerDigest == "" || i.Digest == i.TokenizerDigest {
		t.Errorf("%+v", i)
	}
	if again := open(t, s); !again.Info().Same(e.Info().Encoder) {
		t.Error("the same server and model is another encoder")
	}
	if there := open(t, other); there.Info().Same(e.Info().Encoder) {
		t.Error("another server is the same encoder")
	}
	if short := open(t, s, func(o *Options) { o.Server.ContextSize = 64 }); short.Info().Same(e.Info().Encoder) {
		t.Error("texts that are cut elsewhere have the same digest")
	}
	if n := e.Notice(); !strings.Contains(n, "another process") || strings.Contains(n, key) {
		t.Error(n)
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want error
		says string
	}{
		"too few":     {`{"data":[]}`, remote.ErrResponse, "0 vectors for 1 texts"},
		"twice":       {`{"data":[{"index":1,"embedding":[1,2,3]}]}`, remote.ErrResponse, "not asked for"},
		"other width": {`{"data":[{"index":0,"embedding":[1,2]}]}`, remote.ErrResponse, "2 components, 3 expected"},
		"zero":        {`{"data":[{"index":0,"embedding":[0,0,0]}]}`, remote.ErrResponse, "is zero"},
		"infinite":    {`{"data":[{"index":0,"embedding":[1e300,1e300,0]}]}`, remote.ErrResponse, "not numbers"},
		"a page":      {"<html>", remote.ErrResponse, "embeddings"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			e := open(t, s)
			s.from(func(w http.ResponseWriter, _ []string) bool { _, _ = io.WriteString(w, c.body); return false })
			if _, err := e.Embed(t.Context(), []string{"x"}, embed.Document); !errors.Is(err, c.want) ||
				!strings.Contains(err.Error(), c.says) {
				t.Error(err)
			}
		})
	}
}

func TestErrorsOfTheServer(t *testing.T) {
	s := serve(t)
	s.from(func(w http.ResponseWriter, _ []string) bool {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":{"message":"wrong key `+key+`"}}`)
		return false
	})
	_, err := Open(t.Context(), options(s))
	var api *remote.APIError
	if !errors.As(err, &api) || api.Status != http.StatusUnauthorized || strings.Contains(err.Error(), key) {
		t.Errorf("%v", err)
	}
	if _, err := Open(t.Context(), options(s, func(o *Options) { o.Server.Model = "" })); !errors.Is(err,
		llm.ErrOptions) {
		t.Errorf("no model: %v", err)
	}
}

// A server that is busy is asked again; the log names no key.
func TestRetries(t *testing.T) {
	s, busy := serve(t), 0
	s.from(func(w http.ResponseWriter, _ []string) bool {
		if busy++; busy < 3 {
			w.Header().Set("Retry-After", "0")
			http.Error(w, `{"error":{"message":"later"}}`, http.StatusTooManyRequests)
			return false
		}
		return true
	})
	var log bytes.Buffer
	open(t, s, func(o *Options) {
		o.Server.Retries, o.Server.Logger = 3, slog.New(slog.NewTextHandler(&log, nil))
	})
	if busy != 3 || strings.Count(log.String(), "trying again") != 2 || strings.Contains(log.String(), key) {
		t.Errorf("asked %d times: %s", busy, log.String())
	}
}

func TestCancelAndClose(t *testing.T) {
	s := serve(t)
	e := open(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	s.from(func(http.ResponseWriter, []string) bool { cancel(); time.Sleep(20 * time.Millisecond); return true })
	if _, err := e.Embed(ctx, []string{"x"}, embed.Document); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Embed(t.Context(), []string{"x"}, embed.Document); !errors.Is(err, llm.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
