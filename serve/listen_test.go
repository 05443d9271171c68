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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/ingest"
)

// listening serves a world until the test ends or stop is called; stop returns the result of Serve.
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

// client returns an HTTP client whose connections are closed at the end of the test.
func client(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestDrain checks that a shutdown lets the request under way finish, refuses new ones, and answers GET /readyz
// meanwhile.
func TestDrain(t *testing.T) {
	w := newWorld(t, nil)
	address, stop := listening(t, w)
	inside, leave := make(chan struct{}), make(chan struct{})
	w.encoder.After = func([]string) { inside <- struct{}{}; <-leave }
	c := client(t)
	ask := func(c *http.Client) (status int, body string, err error) {
		r, err := c.Post("http://"+address+"/v1/gate", "application/json", strings.NewReader(`{"query":"a"}`))
		if err != nil {
			return 0, "", err
		}
		defer r.Body.Close() //nolint:errcheck // it was read
		text, err := io.ReadAll(r.Body)
		return r.StatusCode, string(text), err
	}
	answered := make(chan error, 1)
	go func() {
		status, body, err := ask(c)
		if err == nil && status != http.StatusOK {
			err = errors.New(body)
		}
		answered <- err
	}()
	<-inside
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	for !w.draining.Load() {
		time.Sleep(time.Millisecond)
	}
	if status, body, err := ask(client(t)); err != nil || status != 503 || failure(t, body).Code != "shutting_down" {
		t.Errorf("another request: %d %s, %v", status, body, err)
	}
	r, err := client(t).Get("http://" + address + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if r.StatusCode != 503 || failure(t, string(body)).Code != "ending" {
		t.Errorf("%d %s", r.StatusCode, body)
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
	if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address); err == nil {
		_ = conn.Close()
		t.Error("it listens although it has ended")
	}
}

// waitingModel begins an answer, signals that, and goes on when its context ends.
type waitingModel struct {
	*doubles.Model
	begun chan struct{}
}

func (m waitingModel) Generate(ctx context.Context, _ llm.Request, stream func(string) error) (llm.Result, error) {
	if stream != nil {
		if err := stream("Once "); err != nil {
			return llm.Result{}, err
		}
	}
	m.begun <- struct{}{}
	<-ctx.Done()
	return llm.Result{Finish: llm.FinishCancelled}, ctx.Err()
}

// TestDrainEnds checks that a request that does not end in time gets an error, and that streams of answers and of jobs
// get an event.
func TestDrainEnds(t *testing.T) {
	model := waitingModel{doubles.NewModel(""), make(chan struct{})}
	w := (&world{model: model.Model, other: model}).open(t, func(c *Config) { c.Limits.Drain = 20 * time.Millisecond })
	address, stop := listening(t, w)
	embeds := make(chan struct{})
	w.encoder.Fail = func([]string) error {
		embeds <- struct{}{}
		for !w.draining.Load() {
			time.Sleep(time.Millisecond)
		}
		return context.Canceled
	}
	c := client(t)
	answers := make(chan string, 3)
	send := func(method, path, body string) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		r.Header.Set("Content-Type", "application/json")
		answer, err := c.Do(r)
		if err != nil {
			answers <- err.Error()
			return
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		events := strings.Split(strings.TrimSpace(string(text)), "\n\n")
		answers <- fmt.Sprintf("%d %v %v %s", answer.StatusCode, len(events) > 1, err, events[len(events)-1])
	}
	chat := `{"model":"default","messages":[{"role":"user","content":"Tell me."}],"stream":`
	go send(http.MethodPost, "/v1/chat/completions", chat+`true}`)
	<-model.begun
	go send(http.MethodPost, "/v1/chat/completions", chat+`false}`)
	<-model.begun
	id := w.handIn(t, "a.md", "About ropes.")
	<-embeds
	go send(http.MethodGet, "/v1/jobs/"+id+"/events", "")
	for w.underWay.Load() < 3 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(10 * time.Millisecond) // the first event
	if err := stop(); err != nil {
		t.Error(err)
	}
	said := []string{<-answers, <-answers, <-answers}
	slices.Sort(said)
	const end = `{"error":{"message":"the server is ending","type":"unavailable_error","code":"shutting_down"`
	for i, want := range []string{"200 true <nil> data: ", "200 true <nil> data: ", "503 false <nil> "} {
		if want += end; !strings.HasPrefix(said[i], want) {
			t.Errorf("%q, want %q", said[i], want)
		}
	}
}

// TestChunkedRequestsCloseTheirConnection checks that after a request with both a length and chunks nothing more is
// read from its connection, because a proxy may take it for two requests.
func TestChunkedRequestsCloseTheirConnection(t *testing.T) {
	w := newWorld(t, nil)
	address, _ := listening(t, w)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // it was read
	const query = `{"query":"herring"}`
	fmt.Fprintf(conn, "POST /v1/gate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"+
		"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", len(query), query)
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	text, err := io.ReadAll(conn)
	if err != nil || !strings.Contains(string(text), "Connection: close") ||
		strings.Count(string(text), "HTTP/1.1 ") != 1 || !strings.HasPrefix(string(text), "HTTP/1.1 200") {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestClientLeaves checks that the work for a client ends when it leaves.
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
		_, err := w.sluice.Ask(r.Context(), "Do you hear me?", overlay.On(answer.DefaultOptions(),
			answer.Options{Gate: answer.GateClosed}))
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

// TestSlowBody checks that a body that does not arrive holds its connection only for a limited time.
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

// TestHeaders checks that a client's headers are not copied into the response, and that invalid ids are replaced.
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

// TestOtherProcess checks that a server that follows its stores soon finds what another process writes.
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
	if _, err := other.Ingest(t.Context(), []string{path}, ingest.Options{NoChunk: true}); err != nil {
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
