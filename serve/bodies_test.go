package serve

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// slowBody begins a request from a local address and never sends its body.
func slowBody(t *testing.T, address, from, path string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Content-Length: 20\r\n\r\n{\"qu", path)
	return conn
}

// statusOf reads the status of a connection's response.
func statusOf(t *testing.T, conn net.Conn) int {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, r.Body)
	_ = r.Body.Close()
	return r.StatusCode
}

func (b *bodies) counts() (arriving int, held int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.arriving), b.held
}

func (b *bodies) waits(patience time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.patience = patience
}

// TestSlowBodiesKeepNobodyOut checks that bodies that do not arrive take no room, and that the oldest is cut off if a
// client has too many.
func TestSlowBodiesKeepNobodyOut(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.Requests = 3 })
	address, _ := listening(t, w)
	waitFor := func(n int) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			if got, _ := w.bodies.counts(); got == n {
				return
			} else if time.Now().After(end) {
				t.Fatalf("%d bodies are arriving, want %d", got, n)
			}
		}
	}
	var slow []net.Conn
	for i, path := range []string{"/v1/gate", "/v1/documents", "/v1/chat/completions"} {
		slow = append(slow, slowBody(t, address, "127.0.0.2", path))
		waitFor(i + 1)
	}
	if len(w.room) != 0 {
		t.Errorf("%d slow bodies have room", len(w.room))
	}
	ask := func(from string) int {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := d.DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // it was read
		fmt.Fprint(conn, "POST /v1/gate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
			"Content-Length: 15\r\n\r\n"+`{"query":"abcd"}`[:15])
		return statusOf(t, conn)
	}
	if status := ask("127.0.0.1"); status != http.StatusBadRequest { // the JSON lacks its last byte
		t.Errorf("another client: %d", status)
	}
	w.bodies.waits(time.Hour)
	if status := ask("127.0.0.2"); status != http.StatusTooManyRequests {
		t.Errorf("beyond the share: %d", status)
	}
	w.bodies.waits(0)
	if status := ask("127.0.0.2"); status != http.StatusBadRequest {
		t.Errorf("beyond the share, where a body is old: %d", status)
	}
	if status := statusOf(t, slow[0]); status != http.StatusRequestTimeout {
		t.Errorf("the oldest: %d", status)
	}
	waitFor(2)
	for _, conn := range slow[1:] {
		_ = conn.Close()
	}
	waitFor(0)
}

// TestHeldBodiesAreBounded checks that the bytes of a client's bodies are bounded until their requests are answered.
func TestHeldBodiesAreBounded(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.Body, c.Limits.Upload = 1000, 1000 })
	large := post("/v1/gate", `{"query":"`+strings.Repeat("a", 900)+`"}`)
	var one *body
	w.encoder.After = func([]string) {
		if _, held := w.bodies.counts(); held < 900 {
			t.Errorf("%d bytes are held", held)
		}
	}
	if status, body := do(t, w, large); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	one, err := w.bodies.begin(clientOf(large, key{}, false), http.NewResponseController(nil))
	if err != nil || one.take(15_500) != nil {
		t.Fatal(err)
	}
	if status, body := do(t, w, post("/v1/gate", `{"query":"`+strings.Repeat("a", 900)+`"}`)); status !=
		http.StatusTooManyRequests || failure(t, body).Code != "too_many_bodies" {
		t.Errorf("%d %s", status, body)
	}
	other := post("/v1/gate", `{"query":"`+strings.Repeat("a", 900)+`"}`)
	other.RemoteAddr = "[2001:db8::1]:1"
	if status, body := do(t, w, other); status != http.StatusOK {
		t.Errorf("another client: %d %s", status, body)
	}
	one.end()
	if arriving, held := w.bodies.counts(); arriving != 0 || held != 0 || len(w.bodies.heldByClients) != 0 {
		t.Errorf("%d bodies, %d bytes are left", arriving, held)
	}
}

func TestClientsByAddress(t *testing.T) {
	for address, want := range map[string]string{"192.0.2.1:80": "192.0.2.1", "[2001:db8::1]:80": "2001:db8::/64",
		"[2001:db8::ffff:2]:80": "2001:db8::/64", "[::ffff:192.0.2.1]:80": "::ffff:192.0.2.1", "@": "@",
		"[fe80::1%eth0]:80": "fe80::/64"} {
		r := get("/")
		if r.RemoteAddr = address; clientOf(r, key{}, false) != want {
			t.Errorf("%s is %s, want %s", address, clientOf(r, key{}, false), want)
		}
	}
}
