package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
)

// listening serves a world until the test ends, or stop is called, which returns what Serve does.
func listening(t *testing.T, w *world) (address string, stop func() error) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Serve(ctx, l) }()
	var result error
	done := false
	stop = func() error {
		if cancel(); !done {
			result, done = <-ended, true
		}
		return result
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String(), stop
}

// client sends requests over connections that it closes at the end.
func client(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestDrain: when the server ends, the request under way is finished, and no other is taken.
func TestDrain(t *testing.T) {
	w := newWorld(t, nil)
	address, stop := listening(t, w)
	inside, leave := make(chan struct{}), make(chan struct{})
	w.encoder.After = func([]string) { inside <- struct{}{}; <-leave }
	c := client(t)
	answered := make(chan error, 1)
	go func() {
		r, err := c.Post("http://"+address+"/v1/gate", "application/json", strings.NewReader(`{"query":"a"}`))
		if err == nil {
			_ = r.Body.Close()
			if r.StatusCode != 200 {
				err = errors.New(r.Status)
			}
		}
		answered <- err
	}()
	<-inside
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	for !w.draining.Load() {
		time.Sleep(time.Millisecond)
	}
	if status, body := do(t, w, get("/readyz")); status != 503 || failure(t, body).Code != "ending" {
		t.Errorf("%d %s", status, body)
	}
	for {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			break // nobody listens any more
		}
		_ = conn.Close()
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-stopped:
		t.Fatalf("it ended before its request: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(leave)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestDrainEnds: a request that does not end in time is cut off.
func TestDrainEnds(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.Drain = 20 * time.Millisecond })
	address, stop := listening(t, w)
	inside := make(chan struct{}, 1)
	w.encoder.After = func([]string) {
		select {
		case inside <- struct{}{}:
		default:
		}
		time.Sleep(30 * time.Millisecond)
	}
	c := client(t)
	answered := make(chan error, 1)
	go func() {
		body := `{"queries":["` + strings.Repeat(`a","`, 200) + `b"]}`
		r, err := c.Post("http://"+address+"/v1/gate", "application/json", strings.NewReader(body))
		if err == nil {
			_ = r.Body.Close()
		}
		answered <- err
	}()
	<-inside
	if err := stop(); err != nil {
		t.Error(err)
	}
	<-answered
}

// TestClientLeaves: the work of a client that has left ends.
func TestClientLeaves(t *testing.T) {
	w := newWorld(t, nil)
	address, _ := listening(t, w)
	inside, ended := make(chan struct{}), make(chan error, 1)
	w.model.Wait = func(ctx context.Context) error {
		close(inside)
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}
	w.routes = append(w.routes, endpoint{"POST /v1/ask", keyed, func(out http.ResponseWriter, r *http.Request) error {
		if err := decode(r, &struct{}{}); err != nil {
			return err
		}
		_, err := w.sluice.Ask(r.Context(), "Do you hear me?", sluice.AskOptions{Gate: sluice.GateClosed})
		return err
	}, ""})
	w.Server.handler = w.middleware(w.run(w.routes[len(w.routes)-1]))
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn,
		"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
	<-inside
	_ = conn.Close()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the model works on")
	}
}

// TestSlowBody: a body that does not come takes its connection for a limited time only.
func TestSlowBody(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.Read = 50 * time.Millisecond })
	address, _ := listening(t, w)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the server has closed it
	fmt.Fprintf(conn, "POST /v1/gate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Content-Length: 20\r\n\r\n{\"qu")
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if r.StatusCode != http.StatusRequestTimeout || failure(t, string(body)).Code != "slow_body" {
		t.Errorf("%d %s", r.StatusCode, body)
	}
}

// TestHeaders: what a client writes into headers stays out of the response, and ids that are none are replaced.
func TestHeaders(t *testing.T) {
	w := newWorld(t, nil)
	for given, kept := range map[string]bool{"abc-1.2_3": true, "a b": false, strings.Repeat("x", 65): false,
		"<b>": false} {
		r := get("/healthz")
		r.Header.Set("X-Request-Id", given)
		out := httptest.NewRecorder()
		w.ServeHTTP(out, r)
		if got := out.Header().Get("X-Request-Id"); (got == given) != kept || got == "" {
			t.Errorf("%q became %q", given, got)
		}
	}
}

// TestOtherProcess: what another process writes is found soon, by a server that follows its stores.
func TestOtherProcess(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.Follow = time.Millisecond })
	address, _ := listening(t, w)
	other, err := sluice.Open(t.Context(), sluice.Config{Store: filepath.Join(w.dir, "store"),
		Embedder: doubles.NewEncoder(), Generator: w.model})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close() //nolint:errcheck // a test's
	path := filepath.Join(w.dir, "b.jsonl")
	const text = "An anchor holds a ship in its place."
	if err := os.WriteFile(path, []byte(`{"id":"anchor","text":"`+text+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Ingest(t.Context(), []string{path}, sluice.IngestOptions{NoChunk: true}); err != nil {
		t.Fatal(err)
	}
	c := client(t)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		r, err := c.Post("http://"+address+"/v1/retrieve", "application/json",
			strings.NewReader(`{"query":"What does an anchor hold?","k":1}`))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if strings.Contains(string(body), text) {
			return
		}
		if r.StatusCode != 200 || time.Now().After(end) {
			t.Fatalf("%d %s", r.StatusCode, body)
		}
	}
}
