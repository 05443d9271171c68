package remote

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/llm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "sk-topsecret-0123456789"

// seen is a request that a server got.
type seen struct {
	method, path, auth string
	body               map[string]any
}

// server records what it is sent and answers with the handlers in turn, the last one for ever.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	requests []seen
}

func serve(t *testing.T, handlers ...http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		x := seen{method: r.Method, path: r.URL.Path, auth: r.Header.Get("Authorization")}
		if len(text) > 0 {
			if err := json.Unmarshal(text, &x.body); err != nil {
				t.Errorf("the body is no JSON: %v", err)
			}
		}
		s.mu.Lock()
		s.requests = append(s.requests, x)
		h := handlers[min(len(s.requests), len(handlers))-1]
		s.mu.Unlock()
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) all() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// last returns the last request.
func (s *server) last(t *testing.T) seen {
	t.Helper()
	all := s.all()
	if len(all) == 0 {
		t.Fatal("the server got no request")
	}
	return all[len(all)-1]
}

// open opens a generator on a server that need not be asked about itself.
func open(t *testing.T, s *server, change ...func(*Options)) *Generator {
	t.Helper()
	o := Options{BaseURL: s.URL, Model: "m", ContextSize: 100, APIKey: key, Timeout: 10 * time.Second,
		backoff: time.Millisecond, Logger: quiet()}
	for _, f := range change {
		f(&o)
	}
	g, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// logTo returns a logger for a buffer.
func logTo(b *bytes.Buffer) *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// raw answers with a stream as it stands.
func raw(stream string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = io.WriteString(w, stream)
	}
}

// events answers with a stream of these data and [DONE].
func sends(data ...string) http.HandlerFunc {
	return raw("data: " + strings.Join(append(data, "[DONE]"), "\n\ndata: ") + "\n\n")
}

// says returns a chat stream of pieces that ends for the reason.
func says(reason string, pieces ...string) http.HandlerFunc {
	var data []string
	for _, p := range pieces {
		data = append(data, delta(p))
	}
	return sends(append(data, fmt.Sprintf(`{"choices":[{"index":0,"delta":{},"finish_reason":%q}]}`, reason))...)
}

func delta(piece string) string {
	text, _ := json.Marshal(piece)
	return fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%s},"finish_reason":null}]}`, text)
}

// status answers with an HTTP error.
func status(code int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// object answers with JSON.
func object(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

// flush writes a part of a stream so that it arrives.
func flush(w http.ResponseWriter, part string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, part)
	w.(http.Flusher).Flush()
}

func hello() llm.Request {
	return llm.Request{Messages: []llm.Message{{Role: llm.User, Content: "Hello?"}}}
}
