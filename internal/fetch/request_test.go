package fetch

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const secret = "hf_the-token-of-this-test"

// keys records which hosts were sent a key.
type keys struct {
	mu   sync.Mutex
	seen []string
}

func (k *keys) serve(name string, then http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		k.mu.Lock()
		k.seen = append(k.seen, name+" "+r.Header.Get("Authorization"))
		k.mu.Unlock()
		then.ServeHTTP(w, r)
	}
}

// A key goes to the server that was named, also where that redirects to itself, and to no other host or port.
func TestKeysStayWithTheServer(t *testing.T) {
	h, k := &hub{body: body(50_000), tag: `"v"`}, &keys{}
	store := httptest.NewServer(k.serve("store", h))
	defer store.Close()
	mux := http.NewServeMux()
	mux.Handle("/thing", k.serve("hub", http.RedirectHandler("/moved", http.StatusTemporaryRedirect)))
	mux.Handle("/moved", k.serve("hub", http.RedirectHandler(store.URL+"/x", http.StatusFound)))
	c, w := hubCache(t, mux)
	w.Token = secret
	if _, err := c.HTTP(t.Context(), w, nil); err != nil {
		t.Fatal(err)
	}
	if want := []string{"hub Bearer " + secret, "hub Bearer " + secret, "store "}; !slices.Equal(k.seen, want) {
		t.Errorf("%q, want %q", k.seen, want)
	}
	if text, err := c.Text(t.Context(), w, 50_000); err != nil || len(text) != 50_000 || k.seen[5] != "store " {
		t.Errorf("%d %v %q", len(text), err, k.seen)
	}
}

// A redirect off https, or to what is not of the web, is refused once and for all.
func TestRedirectsThatAreRefused(t *testing.T) {
	for _, to := range []string{"http://127.0.0.1:1/x", "file:///etc/passwd", "/again"} {
		asked := 0
		srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
		}))
		c, err := Open(t.TempDir(), WithClient(srv.Client()), WithRetries(3, time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Text(t.Context(), Want{Name: "thing", URL: srv.URL + "/again", Token: secret}, 100)
		if !errors.Is(err, ErrHTTP) || !strings.Contains(err.Error(), "redirect") ||
			strings.Contains(err.Error(), secret) || asked > mostRedirects+1 {
			t.Errorf("%s: %d requests, %v", to, asked, err)
		}
		srv.Close()
	}
}

func TestText(t *testing.T) {
	h := &hub{body: body(1000), tag: `"v"`, limit: 300, limits: 2}
	c, w := hubCache(t, h)
	text, err := c.Text(t.Context(), w, 1000)
	if err != nil || len(text) != 1000 {
		t.Errorf("broken off twice: %d %v", len(text), err)
	}
	if _, err := c.Text(t.Context(), w, 999); !errors.Is(err, ErrHTTP) || !strings.Contains(err.Error(), "999 bytes") {
		t.Errorf("too long: %v", err)
	}
	slow := &hub{body: body(1000), limit: 300, limits: 100, block: make(chan struct{})}
	c, w = hubCache(t, slow, WithStall(20*time.Millisecond))
	if _, err := c.Text(t.Context(), w, 1000); !errors.Is(err, ErrIncomplete) || !errors.Is(err, errStalled) {
		t.Errorf("a server that goes silent: %v", err)
	}
	if n := len(slow.requests()); n < 1 || n > 4 { // a busy machine may give one up before the server sees it
		t.Errorf("%d requests", n)
	}
}

// A server that is busy is left alone for as long as it says, but not for hours.
func TestBusyServer(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		header [2]string
		want   time.Duration // 0: the error comes at once
	}{
		"seconds":     {429, [2]string{"Retry-After", "7"}, 7 * time.Second},
		"the hub's":   {429, [2]string{"RateLimit", `"resolvers";r=0;t=61`}, 61 * time.Second},
		"unavailable": {503, [2]string{"Retry-After", "2"}, 2 * time.Second},
		"not said":    {429, [2]string{"X", "y"}, time.Millisecond},
		"nonsense":    {429, [2]string{"Retry-After", "-5 minutes"}, time.Millisecond},
		"hours":       {429, [2]string{"Retry-After", "7200"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			first := true
			c, w := hubCache(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if first {
					w.Header().Set(test.header[0], test.header[1])
					w.WriteHeader(test.status)
				}
				first = false
			}))
			var slept []time.Duration
			c.sleep = func(_ context.Context, d time.Duration) error { slept = append(slept, d); return nil }
			_, err := c.Text(t.Context(), w, 10)
			if test.want == 0 {
				if !errors.Is(err, ErrIncomplete) || len(slept) > 0 || !strings.Contains(err.Error(), "2h0m0s") {
					t.Errorf("slept %v, %v", slept, err)
				}
				return
			}
			if err != nil || !slices.Equal(slept, []time.Duration{test.want}) {
				t.Errorf("slept %v, %v", slept, err)
			}
		})
	}
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	h := http.Header{"Retry-After": {"Wed, 06 May 2026 07:08:39 GMT"}}
	if d := retryAfter(h, now); d != 30*time.Second {
		t.Errorf("a date: %v", d)
	}
}

// Small files of the hub have the digest that git gives them.
func TestGitDigest(t *testing.T) {
	h := &hub{body: []byte("{}\n"), tag: `"v"`}
	c, w := hubCache(t, h)
	sum := sha1.Sum([]byte("blob 3\x00{}\n"))
	w.Git = hex.EncodeToString(sum[:])
	if w.Git != "0967ef424bce6791893e9a57bb952f80fd536e93" { // git hash-object
		t.Fatal(w.Git)
	}
	if _, err := c.HTTP(t.Context(), w, nil); err != nil {
		t.Error(err)
	}
	h.change([]byte("[]\n"), `"w"`)
	var m *MismatchError
	if _, err := c.HTTP(t.Context(), w, nil); !errors.As(err, &m) || m.Want != w.Git {
		t.Errorf("another file: %v", err)
	}
	if left, err := os.ReadDir(c.Path("partial")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// A server whose file has another size than was stated is found out before the file has come.
func TestStatedSize(t *testing.T) {
	for _, size := range []int64{1, 299_999, 300_001, math.MaxInt64} {
		h := &hub{body: body(300_000), tag: `"v"`}
		c, w := hubCache(t, h)
		w.Size = size
		var m *MismatchError
		if _, err := c.HTTP(t.Context(), w, nil); !errors.As(err, &m) || m.Got != "300000" {
			t.Errorf("%d: %v", size, err)
		}
		if c.Downloaded() != 0 || len(h.requests()) != 1 {
			t.Errorf("%d: %d bytes in %d requests", size, c.Downloaded(), len(h.requests()))
		}
	}
}

func TestRoom(t *testing.T) {
	h := &hub{body: body(1000), tag: `"v"`}
	c, w := hubCache(t, h)
	c.free = func(string) (int64, bool) { return 5000, true }
	w.SHA256, w.Size = digest(h.body), 1000
	if _, err := c.HTTP(t.Context(), w, nil); err != nil {
		t.Fatal(err)
	}
	began := Want{URL: "http://x/began", Size: 3000}
	if err := os.WriteFile(c.Path("partial", began.key()), body(1000), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		files []Want
		short int64
	}{
		"here":         {[]Want{w, w, w, w, w, w}, 0},
		"begun":        {[]Want{began, {URL: "http://x/1", Size: 3000}}, 0},
		"too much":     {[]Want{began, {URL: "http://x/1", Size: 3001}}, 5001},
		"size unknown": {[]Want{{URL: "http://x/1"}}, 0},
		"absurd": {[]Want{{URL: "http://x/1", Size: math.MaxInt64}, {URL: "http://x/2", Size: 7}},
			math.MaxInt64},
		"absurd, begun": {[]Want{began, {URL: "http://x/1", Size: math.MaxInt64}}, math.MaxInt64},
	} {
		err := c.Room("the model", test.files)
		if test.short == 0 && err != nil || test.short > 0 && (!errors.Is(err, ErrWrite) ||
			!strings.Contains(err.Error(), fmt.Sprint(test.short, " bytes are missing of the model"))) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
