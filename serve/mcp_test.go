package serve

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/serve/mcp"
)

const (
	deferred = "When does a deferred function run, in which order?"
	newest   = "2026-07-28" // versions of the protocol, without sessions and with them
	older    = "2025-06-18"
)

// mcpClient is a session of the official client that keeps the notifications of progress.
type mcpClient struct {
	*sdk.ClientSession
	mu       sync.Mutex
	progress []*sdk.ProgressNotificationParams
}

// connect begins a session over a transport in a version of the protocol.
func connect(t testing.TB, over sdk.Transport, version string) (*mcpClient, error) {
	t.Helper()
	c := &mcpClient{}
	var err error
	c.ClientSession, err = sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.progress = append(c.progress, r.Params)
		}}).Connect(t.Context(), over, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

// reports returns the notifications of progress so far.
func (c *mcpClient) reports() []*sdk.ProgressNotificationParams {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.progress)
}

// withKey adds a key to the requests of a client.
type withKey struct{ key string }

func (k withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	if r = r.Clone(r.Context()); k.key != "" {
		r.Header.Set("Authorization", "Bearer "+k.key)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// overHTTP returns a transport to a server, which is closed at the test's end.
func overHTTP(t testing.TB, w http.Handler, key, query string) sdk.Transport {
	t.Helper()
	s := httptest.NewServer(w)
	t.Cleanup(s.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return &sdk.StreamableClientTransport{Endpoint: s.URL + "/mcp" + query, MaxRetries: -1,
		HTTPClient: &http.Client{Transport: withKey{key}}, DisableStandaloneSSE: true}
}

// overStreams serves a world's base over a pair of streams and returns a transport to it.
func overStreams(t testing.TB, w *world, change func(*mcp.Options)) sdk.Transport {
	t.Helper()
	o := mcp.Options{Retrieve: retrieve.DefaultOptions(), Ask: answer.DefaultOptions()}
	o.Base = func(context.Context) (mcp.Base, error) { return mcp.Base{Name: "sea", Sluice: w.sluice}, nil }
	if change != nil {
		change(&o)
	}
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- mcp.Stdio(context.WithoutCancel(t.Context()), o, in, out) }()
	t.Cleanup(func() {
		_ = toServer.Close()
		_ = fromServer.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return &sdk.IOTransport{Reader: fromServer, Writer: toServer}
}

// transports are the ways to reach a world's base.
func transports(t testing.TB, w *world) map[string]func(t testing.TB) sdk.Transport {
	t.Helper()
	return map[string]func(t testing.TB) sdk.Transport{
		"streams": func(t testing.TB) sdk.Transport { return overStreams(t, w, nil) },
		"HTTP":    func(t testing.TB) sdk.Transport { return overHTTP(t, w, "", "") },
	}
}

// call calls a tool and decodes its structured result; failed is the text of an error.
func call[T any](t testing.TB, c *mcpClient, tool string, arguments any) (out T, failed string) {
	t.Helper()
	r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return out, err.Error()
	}
	if r.IsError {
		return out, r.Content[0].(*sdk.TextContent).Text
	}
	raw, err := json.Marshal(r.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	return as[T](t, string(raw)), ""
}

type arguments = map[string]any

// TestMCP runs the official client over both transports, with sessions and without.
func TestMCP(t *testing.T) {
	w := newWorld(t, nil)
	for name, over := range transports(t, w) {
		for _, version := range []string{newest, older} {
			t.Run(name+" "+version, func(t *testing.T) {
				c, err := connect(t, over(t), version)
				if err != nil {
					t.Fatal(err)
				}
				checkTools(t, c)
				checkDocuments(t, c)
				checkWrong(t, c)
			})
		}
	}
}

func checkTools(t *testing.T, c *mcpClient) {
	t.Helper()
	list, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if tool.OutputSchema == nil || !tool.Annotations.ReadOnlyHint {
			t.Errorf("%+v", tool)
		}
	}
	if want := []string{"ask", "gate", "get_document", "list_documents", "search"}; !slices.Equal(names, want) {
		t.Errorf("%v", names)
	}
	decided, failed := call[mcp.Decided](t, c, "gate", arguments{"query": deferred})
	if failed != "" || !decided.Decision.Retrieve || decided.Decision.ContextID != "defer" || decided.Store != "sea" {
		t.Errorf("%s %+v", failed, decided)
	}
	found, failed := call[mcp.Searched](t, c, "search", arguments{"query": deferred, "k": 2})
	if failed != "" || len(found.Results) != 2 || found.Results[0].ID != "defer" || found.Taken == nil {
		t.Errorf("%s %+v", failed, found)
	}
	found, failed = call[mcp.Searched](t, c, "search", arguments{"query": unrelated})
	if failed != "" || len(found.Results) != 0 || found.Decision == nil || found.Decision.Retrieve {
		t.Errorf("%s %+v", failed, found)
	}
	found, failed = call[mcp.Searched](t, c, "search", arguments{"query": unrelated, "gate": "open",
		"where": []string{"topic=sea"}})
	if failed != "" || len(found.Results) != 2 || found.Decision != nil {
		t.Errorf("%s %+v", failed, found)
	}
	p := &sdk.CallToolParams{Name: "ask", Arguments: arguments{"question": deferred, "style": "write"}}
	p.SetProgressToken("token")
	r, err := c.CallTool(t.Context(), p)
	if err != nil || r.IsError {
		t.Fatal(err, r)
	}
	asked := r.StructuredContent.(arguments)
	if source := asked["sources"].([]any)[0].(arguments); asked["answer"] != "An answer [1]." ||
		asked["retrieved"] != true || source["document"] != "defer" || source["cited"] != true ||
		asked["decision"].(arguments)["retrieve"] != true {
		t.Errorf("%+v", asked)
	}
	for end := time.Now().Add(5 * time.Second); len(c.reports()) < 3 && time.Now().Before(end); {
		time.Sleep(time.Millisecond) // the client tells of them beside the results
	}
	last, steps := 0., []string{}
	for _, p := range c.reports() {
		if p.Progress <= last || p.ProgressToken != "token" {
			t.Errorf("%+v after %v", p, last)
		}
		last, steps = p.Progress, append(steps, p.Message)
	}
	if len(steps) < 3 || !slices.Contains(steps, "gate") {
		t.Errorf("progress: %q", steps)
	}
}

func checkDocuments(t *testing.T, c *mcpClient) {
	t.Helper()
	listed, failed := call[mcp.Listed](t, c, "list_documents", arguments{"topic": "sea", "limit": 1})
	if failed != "" || listed.Total != 2 || len(listed.Documents) != 1 || listed.Documents[0].ID != "herring" {
		t.Errorf("%s %+v", failed, listed)
	}
	read, failed := call[mcp.Read](t, c, "get_document", arguments{"id": "lights"})
	if failed != "" || len(read.Chunks) != 1 || !strings.HasPrefix(read.Chunks[0].Text, "Lighthouses") {
		t.Errorf("%s %+v", failed, read)
	}
	all, err := c.ListResources(t.Context(), nil)
	if err != nil || len(all.Resources) != 4 || all.Resources[0].URI != "sluice://documents/defer" {
		t.Fatalf("%v %+v", err, all)
	}
	one, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: all.Resources[0].URI})
	if err != nil || !strings.HasPrefix(one.Contents[0].Text, "A deferred function") {
		t.Errorf("%v %+v", err, one)
	}
	_, err = c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "sluice://documents/none"})
	if err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("%v", err)
	}
	if _, err = c.ListResources(t.Context(), &sdk.ListResourcesParams{Cursor: "x"}); err == nil {
		t.Error("a wrong cursor passes")
	}
}

// checkWrong checks that bad calls are errors that state the value, after which the session goes on.
func checkWrong(t *testing.T, c *mcpClient) {
	t.Helper()
	for _, x := range []struct {
		tool      string
		arguments any
		want      string
	}{
		{"gate", arguments{}, "query"},
		{"gate", arguments{"query": 7}, "query"},
		{"gate", arguments{"query": " "}, "query: a text is needed"},
		{"gate", arguments{"query": "x", "unheard_of": 1}, "unheard_of"},
		{"search", arguments{"query": "x", "k": 0}, "0"},
		{"search", arguments{"query": "x", "k": 101}, "101"},
		{"search", arguments{"query": "x", "mode": "quantum"}, "quantum"},
		{"search", arguments{"query": "x", "where": []string{"colour=red"}}, "colour"},
		{"get_document", arguments{"id": "none"}, "none"},
		{"list_documents", arguments{"limit": 501}, "501"},
		{"unknown", arguments{}, "unknown"},
		{"ingest", arguments{"documents": []any{}}, "ingest"},
	} {
		if _, failed := call[arguments](t, c, x.tool, x.arguments); !strings.Contains(failed, x.want) {
			t.Errorf("%s %v: %q", x.tool, x.arguments, failed)
		}
	}
	if _, failed := call[mcp.Decided](t, c, "gate", arguments{"query": "a\x00b " + deferred}); failed != "" {
		t.Errorf("NUL: %s", failed)
	}
	long := arguments{"query": strings.Repeat("deferred ", 1<<17)}
	if _, failed := call[mcp.Decided](t, c, "gate", long); failed != "" {
		t.Errorf("a megabyte: %s", failed)
	}
}

// TestMCPCancel checks that a cancelled call ends the model's work, and that a client's leaving does, too.
func TestMCPCancel(t *testing.T) {
	begun, ended := make(chan bool, 1), make(chan error, 1)
	w := worldOf(t, func(ctx context.Context, _ llm.Request, _ func(string) error) (llm.Result, error) {
		begun <- true
		<-ctx.Done()
		ended <- ctx.Err()
		return llm.Result{}, ctx.Err()
	})
	for name, over := range transports(t, w) {
		for _, version := range []string{newest, older} {
			t.Run(name+" "+version, func(t *testing.T) {
				c, err := connect(t, over(t), version)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				go func() { <-begun; cancel() }()
				_, err = c.CallTool(ctx, &sdk.CallToolParams{Name: "ask",
					Arguments: arguments{"question": deferred, "style": "write"}})
				if err == nil {
					t.Error("the call has succeeded")
				}
				select {
				case <-ended:
				case <-time.After(10 * time.Second):
					t.Fatal("the model goes on")
				}
				if _, failed := call[mcp.Decided](t, c, "gate", arguments{"query": deferred}); failed != "" {
					t.Error(failed)
				}
			})
		}
	}
}

// TestMCPKeys checks rights: no key, a wrong one, one of another base, and a session of another key.
func TestMCPKeys(t *testing.T) {
	w := twoBases(t, nil)
	for _, key := range []string{"", "a-key-that-nobody-has"} {
		for _, version := range []string{newest, older} {
			if _, err := connect(t, overHTTP(t, w, key, ""), version); err == nil {
				t.Errorf("key %q: a session", key)
			}
		}
	}
	for key, want := range map[string]string{firstKey: "sea", secondKey: "moon", everyKey: "sea"} {
		for _, version := range []string{newest, older} {
			c, err := connect(t, overHTTP(t, w, key, ""), version)
			if err != nil {
				t.Fatal(err)
			}
			if got, failed := call[mcp.Decided](t, c, "gate", arguments{"query": deferred}); got.Store != want {
				t.Errorf("%s: %+v %s", key, got, failed)
			}
		}
	}
	if _, err := connect(t, overHTTP(t, w, secondKey, "?store=sea"), older); err == nil {
		t.Error("a key has the base of another one")
	}
	c, err := connect(t, overHTTP(t, w, everyKey, "?store=moon"), newest)
	if err != nil {
		t.Fatal(err)
	}
	if got, failed := call[mcp.Decided](t, c, "gate", arguments{"query": deferred}); got.Store != "moon" {
		t.Errorf("%+v %s", got, failed)
	}
	begin := with(message(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",`+
		`"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`), firstKey)
	out := httptest.NewRecorder()
	w.ServeHTTP(out, begin)
	session := out.Header().Get("Mcp-Session-Id")
	if out.Code != 200 || session == "" {
		t.Fatalf("%d %s", out.Code, out.Body)
	}
	for key, status := range map[string]int{secondKey: 403, firstKey: 204} {
		end := with(httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "http://localhost/mcp",
			http.NoBody), key)
		end.Header.Set("Mcp-Session-Id", session)
		if status == 204 {
			defer func() {
				out := httptest.NewRecorder()
				if w.ServeHTTP(out, end); out.Code != status {
					t.Errorf("%d %s", out.Code, out.Body)
				}
			}()
			continue
		}
		out := httptest.NewRecorder()
		if w.ServeHTTP(out, end); out.Code != status {
			t.Errorf("%d %s", out.Code, out.Body)
		}
	}
}

// message returns a request with a message of the protocol.
func message(body string) *http.Request {
	r := post("/mcp", body)
	r.Header.Set("Accept", "application/json, text/event-stream")
	return r
}

// TestMCPMessages checks the answers to what is no message, in the protocol's form.
func TestMCPMessages(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.Body = 1 << 16 })
	for body, want := range map[string]string{
		"":                                     "-32600: the message is empty",
		"{":                                    "-32700: the message is not JSON",
		"\xff{}":                               "-32700: the message is not UTF-8: byte 0 is 0xff",
		"[]":                                   "-32600: a batch",
		`{"a":1}`:                              "-32600: this is not a message",
		`"` + strings.Repeat("x", 1<<16) + `"`: "-32000: the body has 65538 bytes, the limit is 65536",
	} {
		status, text := do(t, w, message(body))
		e := as[rpcError](t, text).Error
		got := fmt.Sprintf("%d: %s", e.Code, e.Message)
		if !strings.HasPrefix(got, want) || status < 400 || status > 413 {
			t.Errorf("%.20q: %d %s", body, status, got)
		}
	}
	if status, text := do(t, w, get("/mcp")); status != http.StatusMethodNotAllowed ||
		!strings.Contains(text, `"jsonrpc":"2.0"`) {
		t.Errorf("%d %s", status, text)
	}
}

// TestMCPIngest checks that texts are stored, on both transports, and with progress.
func TestMCPIngest(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MCPIngest = true })
	address, _ := listening(t, w)
	over := &sdk.StreamableClientTransport{Endpoint: "http://" + address + "/mcp", MaxRetries: -1,
		DisableStandaloneSSE: true, HTTPClient: client(t)}
	c, err := connect(t, over, older)
	if err != nil {
		t.Fatal(err)
	}
	text := arguments{"documents": []any{arguments{"id": "tax", "text": "The tax is due in March."},
		arguments{"text": "A second text about the moon."}}}
	got, failed := call[mcp.Ingested](t, c, "ingest", text)
	if failed != "" || got.Documents != 2 || got.Passages != 2 || got.Store != "sea" || len(got.Skipped) != 0 {
		t.Errorf("%+v %s", got, failed)
	}
	found, failed := call[mcp.Searched](t, c, "search", arguments{"query": "When is the tax due?", "gate": "open"})
	if failed != "" || found.Results[0].Document != "tax" {
		t.Errorf("%+v %s", found, failed)
	}
	for want, wrong := range map[string]any{"documents: 0 are given": []any{},
		"documents[0].text": []any{arguments{"text": " "}}, "1001 characters": []any{arguments{"text": "x",
			"id": strings.Repeat("x", 1001)}}, "control characters": []any{arguments{"text": "x", "id": "a\x00"}}} {
		_, failed := call[mcp.Ingested](t, c, "ingest", arguments{"documents": wrong})
		if !strings.Contains(failed, want) {
			t.Errorf("%q, want %q", failed, want)
		}
	}
}

var mcpCalls = flag.Int("mcp-calls", 500, "calls of each session of TestMCPLeaks")

// TestMCPLeaks counts what sessions of many calls leave behind: goroutines, open files and memory.
func TestMCPLeaks(t *testing.T) {
	w := newWorld(t, nil)
	for name, over := range transports(t, w) {
		for _, version := range []string{newest, older} {
			t.Run(name+" "+version, func(t *testing.T) {
				c, err := connect(t, over(t), version)
				if err != nil {
					t.Fatal(err)
				}
				work := func(n int) {
					for i := range n {
						if i%50 == 0 {
							_, _ = c.ListResources(t.Context(), nil)
							_, _ = call[mcp.Asked](t, c, "ask", arguments{"question": deferred})
						}
						if _, failed := call[mcp.Decided](t, c, "gate", arguments{"query": deferred}); failed != "" {
							t.Fatal(failed)
						}
					}
				}
				work(*mcpCalls / 10)
				before := held(t, w)
				work(*mcpCalls)
				after := held(t, w)
				t.Logf("%d calls: goroutines %d to %d, files %d to %d, heap %d to %d kB", *mcpCalls, before.goroutines,
					after.goroutines, before.files, after.files, before.heap>>10, after.heap>>10)
				if after.goroutines > before.goroutines+8 || after.files > before.files+4 ||
					after.heap > before.heap+2<<20 {
					t.Errorf("%+v, then %+v", before, after)
				}
			})
		}
	}
}

// holding is what a process holds.
type holding struct {
	goroutines, files int
	heap              uint64
}

func held(t testing.TB, w *world) (h holding) {
	t.Helper()
	w.log.Reset() // what the test itself keeps
	w.model.Reset("An answer [1].")
	http.DefaultClient.CloseIdleConnections()
	for range 2 {
		runtime.GC() // twice, because pools keep what one collection has left
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if list, err := os.ReadDir("/proc/self/fd"); err == nil { // Linux has them there
		h.files = len(list)
	}
	h.goroutines, h.heap = runtime.NumGoroutine(), m.HeapAlloc
	return h
}

// TestMCPLastAnswers checks that calls are answered that are under way when the input ends, and that lines which are
// no messages do not end the session.
func TestMCPLastAnswers(t *testing.T) {
	w := newWorld(t, nil)
	o := mcp.Options{Retrieve: retrieve.DefaultOptions(), Ask: answer.DefaultOptions()}
	o.Base = func(context.Context) (mcp.Base, error) { return mcp.Base{Name: "sea", Sluice: w.sluice}, nil }
	lines := []string{`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
		`"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`, "x"}
	for id := range 20 {
		lines = append(lines, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"gate",`+
			`"arguments":{"query":"x"}}}`, id+1))
	}
	var out strings.Builder
	if err := mcp.Stdio(t.Context(), o, strings.NewReader(strings.Join(lines, "\n")), &out); err != nil {
		t.Fatal(err)
	}
	answered := map[string]bool{}
	for line := range strings.Lines(out.String()) {
		answered[fmt.Sprint(as[arguments](t, line)["id"])] = true
	}
	if len(answered) != 22 || !answered["<nil>"] || !answered["0"] || !answered["20"] {
		t.Errorf("%d answers: %v", len(answered), answered)
	}
}
