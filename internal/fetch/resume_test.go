package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// hub serves one file through net/http's own range and If-Range logic, and misbehaves as told.
type hub struct {
	mu       sync.Mutex
	body     []byte
	tag      string // ETag; "": none
	modified time.Time
	limit    int           // bytes after which the next answers stop; 0: never
	limits   int           // how many answers do
	block    chan struct{} // responses wait for this (or the client) before they break off; nil: at once
	blind    bool          // If-Range is not looked at
	head     http.Header   // further headers
	seen     []http.Header
	reached  chan struct{} // receives when an answer stops
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.seen = append(h.seen, r.Header.Clone())
	body, limit := h.body, 0
	if h.limits > 0 {
		h.limits, limit = h.limits-1, h.limit
	}
	if h.tag != "" {
		w.Header().Set("ETag", h.tag)
	}
	maps.Copy(w.Header(), h.head)
	block, reached := h.block, h.reached
	h.mu.Unlock()
	if h.blind {
		r.Header.Del("If-Range")
	}
	if limit > 0 {
		w = &stopping{w, limit, r, block, reached}
	}
	http.ServeContent(w, r, "file.bin", h.modified, bytes.NewReader(body))
}

func (h *hub) change(body []byte, tag string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.body, h.tag = body, tag
}

func (h *hub) requests() []http.Header {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen
}

// stopping is a connection that breaks off, or falls silent, after some bytes.
type stopping struct {
	http.ResponseWriter
	left    int
	r       *http.Request
	block   chan struct{}
	reached chan struct{}
}

func (s *stopping) Write(b []byte) (int, error) {
	if len(b) <= s.left {
		s.left -= len(b)
		return s.ResponseWriter.Write(b)
	}
	_, _ = s.ResponseWriter.Write(b[:s.left])
	_ = http.NewResponseController(s.ResponseWriter).Flush()
	if s.reached != nil {
		s.reached <- struct{}{}
	}
	if s.block != nil {
		select {
		case <-s.block:
		case <-s.r.Context().Done():
		}
	}
	panic(http.ErrAbortHandler)
}

func hubCache(t *testing.T, h http.Handler, opts ...Option) (*Cache, Want) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c, err := Open(t.TempDir(),
		append([]Option{WithRetries(3, time.Millisecond), WithClient(srv.Client())}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c, Want{Name: "thing", URL: srv.URL + "/thing"}
}

func again(t *testing.T, c *Cache, opts ...Option) *Cache {
	t.Helper()
	next, err := Open(c.Root(), append([]Option{WithRetries(3, time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// An unpinned file is resumed by a later process when the server says that it is the same version, and only then.
func TestResumeOfAnUnpinnedFile(t *testing.T) {
	first, second := body(400_000), append(body(400_000)[1:], 7)
	for name, test := range map[string]struct {
		before, after string // entity tags
		body          []byte
		blind         bool
		least, most   int64 // bytes that the second process downloads
	}{
		"same version":           {`"a"`, `"a"`, first, false, 1, 399_999},
		"another version":        {`"a"`, `"b"`, second, false, 400_000, 400_000},
		"If-Range is ignored":    {`"a"`, `"b"`, second, true, 400_000, 400_000},
		"no name of the version": {"", "", second, false, 400_000, 400_000},
		"a weak tag":             {`W/"a"`, `W/"a"`, second, false, 400_000, 400_000},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hub{body: first, tag: test.before, limit: 150_000, limits: 1, blind: test.blind}
			c, w := hubCache(t, h, WithRetries(0, 0))
			if _, err := c.HTTP(t.Context(), w, nil); !errors.Is(err, ErrIncomplete) {
				t.Fatalf("want ErrIncomplete, got %v", err)
			}
			h.change(test.body, test.after)
			next := again(t, c)
			path, err := next.HTTP(t.Context(), w, nil)
			if err != nil {
				t.Fatal(err)
			}
			mustHave(t, path, test.body)
			if n := next.Downloaded(); n < test.least || n > test.most {
				t.Errorf("brought %d bytes, want %d to %d", n, test.least, test.most)
			}
			if left, err := os.ReadDir(c.Path("partial")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v %v", left, err)
			}
		})
	}
}

func TestResumeByDate(t *testing.T) {
	h := &hub{body: body(300_000), modified: time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC), limit: 100_000, limits: 2}
	c, w := hubCache(t, h)
	path, err := c.HTTP(t.Context(), w, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustHave(t, path, h.body)
	if n := c.Downloaded(); n != 300_000 {
		t.Errorf("brought %d bytes", n)
	}
	if got := h.requests()[1].Get("If-Range"); got != "Mon, 06 May 2024 07:08:09 GMT" {
		t.Errorf("If-Range: %q", got)
	}
}

// A process that died after the last byte and before the file got its name.
func TestCompletePartialFile(t *testing.T) {
	h := &hub{body: body(5000), tag: `"v"`}
	c, w := hubCache(t, h)
	path, err := c.HTTP(t.Context(), w, nil)
	if err != nil {
		t.Fatal(err)
	}
	part := partial{c.Path("partial", "url-"+digest([]byte(w.URL)))}
	if err := os.Rename(path, part.path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(part.path+".version", []byte(`"v"`), 0o644); err != nil {
		t.Fatal(err)
	}
	next := again(t, c)
	if path, err = next.HTTP(t.Context(), w, nil); err != nil {
		t.Fatal(err)
	}
	mustHave(t, path, h.body)
	if next.Downloaded() != 0 {
		t.Errorf("brought %d bytes again", next.Downloaded())
	}
}

const helperEnv = "SLUICE_TEST_DOWNLOAD"

// TestKilledProcess kills a downloading process for good; the next one goes on where it was.
func TestKilledProcess(t *testing.T) {
	if job := os.Getenv(helperEnv); job != "" {
		root, url, _ := strings.Cut(job, " ")
		c, err := Open(root)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.HTTP(t.Context(), Want{Name: "thing", URL: url}, nil)
		t.Fatalf("it was to be killed: %v", err)
	}
	h := &hub{body: body(3_000_000), tag: `"v"`, limit: 2_000_000, limits: 1, block: make(chan struct{}),
		reached: make(chan struct{}, 1)}
	c, w := hubCache(t, h)
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledProcess$")
	cmd.Env = append(os.Environ(), helperEnv+"="+c.Root()+" "+w.URL)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-h.reached
	part := partial{c.Path("partial", "url-"+digest([]byte(w.URL)))}
	for part.size() == 0 { // the bytes are on their way to the other process
		time.Sleep(time.Millisecond)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	have := part.size()
	path, err := c.HTTP(t.Context(), w, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustHave(t, path, h.body)
	if n := c.Downloaded(); n != int64(len(h.body))-have {
		t.Errorf("%d bytes were there of %d, %d came", have, len(h.body), n)
	}
	if got := h.requests()[1].Get("Range"); got != "bytes="+strconv.FormatInt(have, 10)+"-" {
		t.Errorf("asked for %q", got)
	}
}

func TestCancelledDownloadIsKept(t *testing.T) {
	h := &hub{body: body(1_000_000), tag: `"v"`, limit: 600_000, limits: 1, block: make(chan struct{}),
		reached: make(chan struct{}, 1)}
	c, w := hubCache(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-h.reached; cancel() }()
	if _, err := c.HTTP(ctx, w, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("want Canceled, got %v", err)
	}
	if n := len(h.requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
	path, err := c.HTTP(t.Context(), w, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustHave(t, path, h.body)
}

func TestSilentServer(t *testing.T) {
	h := &hub{body: body(500_000), tag: `"v"`, limit: 200_000, limits: 2, block: make(chan struct{})}
	said := []string{}
	c, w := hubCache(t, h, WithStall(300*time.Millisecond),
		WithLog(func(f string, args ...any) { said = append(said, fmt.Sprintf(f, args...)) }))
	path, err := c.HTTP(t.Context(), w, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustHave(t, path, h.body)
	if len(said) < 2 || !strings.Contains(said[0], errStalled.Error()) {
		t.Errorf("remarks: %q", said)
	}
}

// A file that breaks more often than there are retries still comes if each attempt brings a good part.
func TestRetriesCountFromTheLastProgress(t *testing.T) {
	h := &hub{body: body(8 * worthwhile), tag: `"v"`, limit: worthwhile + 5000, limits: 6}
	c, w := hubCache(t, h, WithRetries(1, time.Millisecond))
	path, err := c.HTTP(t.Context(), w, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustHave(t, path, h.body)
	h2 := &hub{body: body(100_000), tag: `"v"`, limit: 1000, limits: 1000}
	c, w = hubCache(t, h2, WithRetries(3, time.Millisecond))
	if _, err := c.HTTP(t.Context(), w, nil); !errors.Is(err, ErrIncomplete) || len(h2.requests()) != 4 {
		t.Errorf("%d requests, %v", len(h2.requests()), err)
	}
}

// The hub redirects to its storage, and states the digest of large files on the way.
func TestRedirectAndStatedDigest(t *testing.T) {
	h := &hub{body: body(300_000), tag: `"v"`, limit: 100_000, limits: 1}
	store := httptest.NewServer(h)
	defer store.Close()
	var stated atomic.Pointer[string]
	good, bad := digest(h.body), digest([]byte("other"))
	stated.Store(&bad)
	c, w := hubCache(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Linked-Etag", `"`+*stated.Load()+`"`)
		http.Redirect(w, r, store.URL+"/storage?signature=secret", http.StatusFound)
	}))
	_, err := c.HTTP(t.Context(), w, nil)
	var m *MismatchError
	if !errors.As(err, &m) || m.Want != bad {
		t.Fatalf("a file that is not what the hub states: %v", err)
	}
	stated.Store(&good)
	path, err := c.HTTP(t.Context(), w, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustHave(t, path, h.body)
	if got := h.requests(); got[1].Get("Range") == "" || got[1].Get("If-Range") != `"v"` {
		t.Errorf("the storage was not asked for the rest: %v", got[1])
	}
}

func TestRefusals(t *testing.T) {
	for status, hint := range map[int]string{404: "404", 401: "give its path", 403: "give its path", 410: "410"} {
		store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
			_ *http.Request) {
			w.WriteHeader(status)
		}))
		c, w := hubCache(t, http.RedirectHandler(store.URL+"/?signature=secret", http.StatusFound))
		_, err := c.HTTP(t.Context(), w, nil)
		if !errors.Is(err, ErrHTTP) || !strings.Contains(err.Error(), w.URL) || !strings.Contains(err.Error(), hint) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%d: %v", status, err)
		}
		store.Close()
	}
	c, w := hubCache(t,
		http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}))
	if _, err := c.HTTP(t.Context(), w, nil); err == nil || !strings.Contains(err.Error(), "redirects") {
		t.Errorf("a circle: %v", err)
	}
}

func TestNoRoom(t *testing.T) {
	h := &hub{body: body(300_000), tag: `"v"`}
	c, w := hubCache(t, h)
	c.free = func(string) (int64, bool) { return 299_999, true }
	_, err := c.HTTP(t.Context(), w, nil)
	if !errors.Is(err, ErrWrite) || !strings.Contains(err.Error(), "300000") ||
		!strings.Contains(err.Error(), "299999") || c.Downloaded() != 0 {
		t.Errorf("%d bytes came: %v", c.Downloaded(), err)
	}
	c.free = freeBytes
	if n, ok := freeBytes(c.Root()); ok && n <= 0 {
		t.Skip("SKIP: the disk is full")
	}
	if _, err := c.HTTP(t.Context(), w, nil); err != nil {
		t.Error(err)
	}
}

// FuzzAnswer checks that bytes are appended only where they belong, for any response of a server.
func FuzzAnswer(f *testing.F) {
	f.Add(206, "bytes 10-19/20", `"a"`, int64(10), `"a"`)
	f.Add(416, "bytes */10", `"a"`, int64(10), `"a"`)
	f.Add(200, "", "", int64(0), "")
	f.Fuzz(func(t *testing.T, status int, rng, tag string, have int64, version string) {
		have = max(0, have)
		p := partial{t.TempDir() + "/x"}
		resp := &http.Response{StatusCode: status, Header: http.Header{"Content-Range": {rng}, "Etag": {tag}},
			Request: &http.Request{Header: http.Header{}}}
		from, done, err := p.answer(resp, "http://host/x", have, version)
		if err == nil && from != 0 && (from != have || have < 0) {
			t.Errorf("goes on at %d of %d", from, have)
		}
		if done && (err != nil || version == "") {
			t.Errorf("complete without a version: %v", err)
		}
	})
}
