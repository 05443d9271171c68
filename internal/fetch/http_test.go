package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// server serves a body, and misbehaves as told.
type server struct {
	body     []byte
	cut      atomic.Int64 // bytes after which the next answers break off; 0: never
	cuts     atomic.Int64 // how many answers break off
	noRange  bool
	status   atomic.Int64 // answered instead of the body, `statuses` times
	statuses atomic.Int64
	requests atomic.Int64
	ranges   sync.Map // Range headers seen
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	s.ranges.Store(r.Header.Get("Range"), true)
	if s.statuses.Add(-1) >= 0 {
		w.WriteHeader(int(s.status.Load()))
		return
	}
	from := 0
	if h := r.Header.Get("Range"); h != "" && !s.noRange {
		_, _ = fmt.Sscanf(h, "bytes=%d-", &from)
		if from >= len(s.body) {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(s.body)-1, len(s.body)))
	}
	rest := s.body[from:]
	w.Header().Set("Content-Length", fmt.Sprint(len(rest)))
	if from > 0 {
		w.WriteHeader(http.StatusPartialContent)
	}
	if n := int(s.cut.Load()); n > 0 && s.cuts.Add(-1) >= 0 && n < len(rest) {
		_, _ = w.Write(rest[:n])
		panic(http.ErrAbortHandler) // the connection breaks
	}
	_, _ = w.Write(rest)
}

func body(n int) []byte {
	rng := rand.New(rand.NewPCG(7, 7))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func setup(t *testing.T, s *server, opts ...Option) (*Cache, Want, *[]string) {
	t.Helper()
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	said := &[]string{}
	log := func(format string, args ...any) { *said = append(*said, fmt.Sprintf(format, args...)) }
	c, err := Open(t.TempDir(),
		append([]Option{WithRetries(3, time.Millisecond), WithLog(log), WithClient(srv.Client())}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c, Want{Name: "thing", URL: srv.URL + "/thing", SHA256: digest(s.body), Size: int64(len(s.body))}, said
}

func mustHave(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%s: %d bytes, %v; want %d", path, len(got), err, len(want))
	}
}

func TestDownloadOnce(t *testing.T) {
	s := &server{body: body(600_000)}
	c, w, _ := setup(t, s)
	var last, total int64
	path, err := c.HTTP(t.Context(), w, func(_ string, done, all int64) { last, total = done, all })
	if err != nil {
		t.Fatal(err)
	}
	mustHave(t, path, s.body)
	if last != w.Size || total != w.Size {
		t.Errorf("progress ended at %d of %d", last, total)
	}
	if again, err := c.HTTP(t.Context(), w, nil); err != nil || again != path {
		t.Errorf("second time: %q %v", again, err)
	}
	if s.requests.Load() != 1 || c.Downloaded() != w.Size {
		t.Errorf("%d requests, %d bytes", s.requests.Load(), c.Downloaded())
	}
}

func TestResumesAfterACutConnection(t *testing.T) {
	s := &server{body: body(900_000)}
	s.cut.Store(300_000)
	s.cuts.Store(2)
	c, w, said := setup(t, s)
	path, err := c.HTTP(t.Context(), w, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustHave(t, path, s.body)
	if s.requests.Load() != 3 || len(*said) != 2 {
		t.Errorf("%d requests, remarks: %q", s.requests.Load(), *said)
	}
	if c.Downloaded() >= 2*w.Size {
		t.Errorf("%d bytes for %d: it started from nothing", c.Downloaded(), w.Size)
	}
}

func TestResumesInAnotherProcess(t *testing.T) {
	s := &server{body: body(500_000)}
	s.cut.Store(200_000)
	s.cuts.Store(1)
	c, w, _ := setup(t, s, WithRetries(0, time.Millisecond))
	if _, err := c.HTTP(t.Context(), w, nil); !errors.Is(err, ErrIncomplete) {
		t.Fatalf("want ErrIncomplete, got %v", err)
	}
	c2, err := Open(c.Root())
	if err != nil {
		t.Fatal(err)
	}
	path, err := c2.HTTP(t.Context(), w, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustHave(t, path, s.body)
	if n := c2.Downloaded(); n >= w.Size || n == 0 {
		t.Errorf("the second process brought %d of %d bytes", n, w.Size)
	}
}

func TestServerThatIgnoresRange(t *testing.T) {
	s := &server{body: body(500_000), noRange: true}
	s.cut.Store(200_000)
	s.cuts.Store(1)
	c, w, _ := setup(t, s)
	path, err := c.HTTP(t.Context(), w, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustHave(t, path, s.body)
}

// TestForeignPartialFile checks that a partial file with other content than the server's ends in a mismatch, is
// deleted, and that the next try works.
func TestForeignPartialFile(t *testing.T) {
	s := &server{body: body(100_000)}
	c, w, _ := setup(t, s)
	dir, err := c.Dir("partial")
	if err != nil {
		t.Fatal(err)
	}
	part := dir + "/" + w.SHA256
	for _, junk := range []int{10_000, 100_000, 200_000} {
		if err := os.WriteFile(part, make([]byte, junk), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := c.HTTP(t.Context(), w, nil); !errors.Is(err, ErrMismatch) {
			t.Errorf("junk of %d bytes: %v", junk, err)
		}
		if _, err := os.Stat(part); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("junk of %d bytes is still there: %v", junk, err)
		}
	}
	if _, err := c.HTTP(t.Context(), w, nil); err != nil {
		t.Error(err)
	}
}

func TestWrongContent(t *testing.T) {
	s := &server{body: body(50_000)}
	c, w, _ := setup(t, s)
	for name, bad := range map[string]Want{
		"hash":      {Name: "thing", URL: w.URL, SHA256: digest([]byte("other")), Size: w.Size},
		"too long":  {Name: "thing", URL: w.URL, SHA256: w.SHA256, Size: w.Size - 1},
		"much less": {Name: "thing", URL: w.URL, SHA256: w.SHA256, Size: 10},
	} {
		_, err := c.HTTP(t.Context(), bad, nil)
		var m *MismatchError
		if !errors.As(err, &m) || !strings.Contains(err.Error(), "thing") {
			t.Errorf("%s: %v", name, err)
		}
	}
	bad := w
	bad.Size++ // the server ends too early each time
	if _, err := c.HTTP(t.Context(), bad, nil); !errors.Is(err, ErrIncomplete) && !errors.Is(err, ErrMismatch) {
		t.Errorf("too short: %v", err)
	}
	if left, err := os.ReadDir(c.Path("blobs")); err == nil && len(left) > 0 {
		t.Errorf("a wrong file got a name in the cache: %v", left)
	}
}

func TestStatuses(t *testing.T) {
	s := &server{body: body(1000)}
	c, w, _ := setup(t, s)
	s.status.Store(404)
	s.statuses.Store(1)
	_, err := c.HTTP(t.Context(), w, nil)
	if !errors.Is(err, ErrHTTP) || !strings.Contains(err.Error(), w.URL) || !strings.Contains(err.Error(), "404") {
		t.Errorf("404: %v", err)
	}
	if s.requests.Load() != 1 {
		t.Errorf("a 404 was tried %d times", s.requests.Load())
	}
	s.status.Store(503)
	s.statuses.Store(2)
	if _, err := c.HTTP(t.Context(), w, nil); err != nil {
		t.Errorf("503 twice, then well: %v", err)
	}
}

func TestFullDisk(t *testing.T) {
	s := &server{body: body(400_000)}
	c, w, _ := setup(t, s)
	c.create = func(name string, flag int) (io.WriteCloser, error) {
		f, err := os.OpenFile(name, flag, 0o644)
		return &fullDisk{f, 100_000}, err
	}
	_, err := c.HTTP(t.Context(), w, nil)
	if !errors.Is(err, ErrWrite) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), c.Root()) {
		t.Errorf("full disk: %v", err)
	}
	if s.requests.Load() != 1 {
		t.Errorf("a full disk was tried %d times", s.requests.Load())
	}
}

type fullDisk struct {
	*os.File
	left int
}

func (f *fullDisk) Write(p []byte) (int, error) {
	if len(p) > f.left {
		return 0, &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	f.left -= len(p)
	return f.File.Write(p)
}

func TestCancel(t *testing.T) {
	s := &server{body: body(1000)}
	s.status.Store(503)
	s.statuses.Store(1 << 40)
	c, w, _ := setup(t, s, WithRetries(1000, time.Hour))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.HTTP(ctx, w, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestUnpinned(t *testing.T) {
	s := &server{body: body(1234)}
	c, w, _ := setup(t, s)
	path, err := c.HTTP(t.Context(), Want{Name: "thing", URL: w.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(path, w.SHA256) {
		t.Errorf("%s is not named after its content", path)
	}
}
