package web

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testKey = "key-0123456789abcdef"

// lines collects what is logged.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serve starts a server without a robots.txt, which ends with the test.
func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	return serveAll(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		h(w, r)
	})
}

// serveAll is serve with a robots.txt of its own.
func serveAll(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func addrOf(t testing.TB, s *httptest.Server) netip.AddrPort {
	t.Helper()
	a, err := netip.ParseAddrPort(strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// open is Open for a test: fast retries, and what is logged.
func open(t testing.TB, o Options) (*Client, *lines) {
	t.Helper()
	log := &lines{}
	o.Logger, o.backoff = slog.New(slog.NewTextHandler(log, nil)), time.Millisecond
	if o.Provider == "" {
		o.Provider, o.URL = SearXNG, "http://127.0.0.1:1"
	}
	c, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		if strings.Contains(log.String(), testKey) {
			t.Errorf("the key is in the log: %s", log)
		}
	})
	return c, log
}

// fetcher returns a client that may fetch from one server only though it is on this machine.
func fetcher(t testing.TB, s *httptest.Server, o Options) *Client {
	t.Helper()
	o.exempt = []netip.AddrPort{addrOf(t, s)}
	c, _ := open(t, o)
	return c
}
