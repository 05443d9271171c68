package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// fuzzer generates requests from openapi.json, and corrupts many of them.
type fuzzer struct {
	*rand.Rand
	spec       *spec
	operations []string // "post /v1/gate"
}

// fuzzRequests names the variable with the number of requests; fuzzServer names the variable with the URL of a server
// to test.
const fuzzRequests, fuzzServer = "SLUICE_FUZZ_REQUESTS", "SLUICE_FUZZ_SERVER"

func newFuzzer(t *testing.T) (f *fuzzer, requests int) {
	t.Helper()
	s, err := loadSpec()
	if err != nil {
		t.Fatal(err)
	}
	requests = 1500
	if text := os.Getenv(fuzzRequests); text != "" {
		if requests, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s=%q: %v", fuzzRequests, text, err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SLUICE_FUZZ_SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SLUICE_FUZZ_SEED=%d %s=%d", seed, fuzzRequests, requests)
	f = &fuzzer{Rand: rand.New(rand.NewPCG(seed, 1)), spec: s}
	for path, methods := range s.paths {
		for method, op := range methods {
			n := 1
			if op.RequestBody != nil {
				n = 8
			}
			f.operations = append(f.operations, slices.Repeat([]string{method + " " + path}, n)...)
		}
	}
	slices.Sort(f.operations)
	return f, requests
}

// pick returns one of some values.
func pick[T any](f *fuzzer, from ...T) T { return from[f.IntN(len(from))] }

// resolve follows a reference within the document.
func (f *fuzzer) resolve(schema map[string]any) map[string]any {
	for {
		ref, ok := schema["$ref"].(string)
		if !ok {
			return schema
		}
		schema = f.spec.schemas[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any)
	}
}

// value returns a value that usually fits a schema.
func (f *fuzzer) value(schema map[string]any, depth int) any {
	schema = f.resolve(schema)
	if f.IntN(60) == 0 || depth > 12 {
		return f.anything(3)
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if list, ok := schema[key].([]any); ok {
			return f.value(list[f.IntN(len(list))].(map[string]any), depth+1)
		}
	}
	if v, ok := schema["const"]; ok {
		return v
	}
	if list, ok := schema["enum"].([]any); ok {
		return list[f.IntN(len(list))]
	}
	kind, _ := schema["type"].(string)
	if list, ok := schema["type"].([]any); ok {
		kind = list[f.IntN(len(list))].(string)
	}
	number := func(key string, initial float64) float64 {
		if v, ok := schema[key].(float64); ok {
			return v
		}
		return initial
	}
	switch kind {
	case "string":
		return f.text()
	case "integer":
		low := number("minimum", -3)
		return math.Floor(low + f.Float64()*(min(number("maximum", 20), low+40)-low+1))
	case "number":
		low := number("minimum", -2)
		return low + f.Float64()*(min(number("maximum", 3), low+10)-low)
	case "boolean":
		return f.IntN(2) == 0
	case "array":
		items, _ := schema["items"].(map[string]any)
		list := []any{}
		for range int(number("minItems", 0)) + f.IntN(4) {
			list = append(list, f.value(items, depth+1))
		}
		return list
	case "object":
		return f.object(schema, depth)
	case "null":
		return nil
	}
	return f.anything(2)
}

func (f *fuzzer) object(schema map[string]any, depth int) any {
	out := map[string]any{}
	required, _ := schema["required"].([]any)
	properties, _ := schema["properties"].(map[string]any)
	share := pick(f, .05, .1, .5)
	for name, of := range properties {
		if slices.Contains(required, any(name)) || f.Float64() < share {
			out[name] = f.value(of.(map[string]any), depth+1)
		}
	}
	if f.IntN(40) == 0 {
		out[f.text()] = f.anything(2)
	}
	return out
}

// text returns a text as in names, models, messages and settings, or nonsense.
func (f *fuzzer) text() string {
	switch f.IntN(12) {
	case 0:
		return pick(f, "", " ", "\x00", "\u2028", "𝔘𝔫𝔦", strings.Repeat("a", 3000), "<|im_end|>",
			"../../etc/passwd", "a\r\nSet-Cookie: x=y", "%00", "'; DROP TABLE", "{{7*7}}", "\ufeff", "null", "\\")
	case 1:
		b := make([]byte, f.IntN(20))
		for i := range b {
			b[i] = byte(f.IntN(128))
		}
		return string(b)
	}
	return pick(f, "default", "sluice", "sluice/sea", "words", "script", "sea", "topic=sea", "auto", "document",
		inScope, unrelated, "user", "f")
}

// anything returns an arbitrary value.
func (f *fuzzer) anything(depth int) any {
	switch n := f.IntN(9); {
	case n == 0 && depth > 0:
		return []any{f.anything(depth - 1), f.anything(depth - 1)}
	case n == 1 && depth > 0:
		return map[string]any{f.text(): f.anything(depth - 1)}
	case n == 2:
		return nil
	case n == 3:
		return f.IntN(2) == 0
	case n == 4:
		return pick[any](f, 0, -1, 1, 1e308, -1e308, 5e-324, math.MaxInt64, math.MinInt64, 1<<53, json.Number("1e400"))
	case n == 5:
		return f.NormFloat64() * 1e3
	}
	return f.text()
}

// spoil corrupts a body's bytes.
func (f *fuzzer) spoil(b []byte) []byte {
	for range 1 + f.IntN(3) {
		if len(b) == 0 {
			return []byte{byte(f.IntN(256))}
		}
		i := f.IntN(len(b))
		switch f.IntN(6) {
		case 0:
			b[i] = byte(f.IntN(256))
		case 1:
			b = b[:i]
		case 2:
			some := pick(f, "{", "[", `"`, ",", ":", "null", "\x00", "\xff", "1e9", `"a":1,`)
			b = slices.Insert(b, i, []byte(some)...)
		case 3:
			j := i + f.IntN(len(b)-i)
			b = slices.Delete(b, i, j)
		case 4: // a repeated name
			b = bytes.Replace(b, []byte("{"), []byte(`{"model":"x",`), 1)
		case 5:
			b = append(bytes.Repeat([]byte(pick(f, "[", `{"a":`)), f.IntN(3000)), b...)
		}
	}
	return b
}

// request returns the next request.
func (f *fuzzer) request() *http.Request {
	method, path, _ := strings.Cut(pick(f, f.operations...), " ")
	var body []byte
	if op := f.spec.paths[path][method]; op.RequestBody != nil {
		schema := map[string]any{"$ref": op.RequestBody.Content["application/json"].Schema.Ref}
		if schema["$ref"] == "" {
			schema = map[string]any{}
		}
		body, _ = json.Marshal(f.value(schema, 0))
		if f.IntN(4) == 0 {
			body = f.spoil(body)
		}
	}
	method = strings.ToUpper(method)
	if f.IntN(50) == 0 {
		method = pick(f, "GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "BREW")
	}
	r := httptest.NewRequest(http.MethodGet, "http://localhost/", bytes.NewReader(body))
	r.Method = method
	r.URL.Path = wild.ReplaceAllStringFunc(path, func(string) string { return f.text() })
	if f.IntN(80) == 0 {
		r.URL.Path = pick(f, "/", "//", "/v1", "/v1/chat/completions/", "/v1/../metrics", "/%2e%2e/", "/"+f.text())
	}
	r.Header.Set("Content-Type", pick(f, "application/json", "application/json", "application/json; charset=utf-8"))
	if f.IntN(40) == 0 {
		r.Header.Set("Content-Type", pick(f, "", "text/plain", "multipart/form-data; boundary=x", "application/json;;",
			f.text()))
	}
	for _, name := range []string{"Authorization", "Sluice-Store", "X-Request-Id", "Origin", "Accept",
		"Transfer-Encoding", "Accept-Encoding", "If-None-Match"} {
		if f.IntN(60) == 0 {
			r.Header.Set(name, f.text())
		}
	}
	return r
}

// TestFuzzedRequests checks that the server never fails, and that its responses match openapi.json. The language model
// is a double with a few words.
func TestFuzzedRequests(t *testing.T) {
	f, requests := newFuzzer(t)
	w := newWorld(t, nil)
	statuses := map[int]int{}
	for i := range requests {
		r := f.request()
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		out := httptest.NewRecorder()
		w.ServeHTTP(out, r)
		statuses[out.Code]++
		if out.Code >= 500 {
			t.Errorf("request %d: %s %q: %d %.500s\n%.2000q", i, r.Method, r.URL.Path, out.Code, out.Body.String(),
				body)
		}
		for name, values := range out.Header() {
			if strings.ContainsAny(strings.Join(values, ""), "\r\n") || name == "Set-Cookie" {
				t.Errorf("request %d: header %s: %q", i, name, values)
			}
		}
		if i%8 == 0 || requests < 10000 {
			f.spec.check(t, r, out.Code, out.Header().Get("Content-Type"), out.Body.String())
		}
		if t.Failed() && i%100 == 0 {
			break
		}
		w.log.Reset()
		w.model.Reset("An answer [1].")
	}
	t.Logf("%d requests: %v", requests, statuses)
	if statuses[200] < requests/10 || statuses[400] < requests/10 {
		t.Errorf("too few of one kind: %v", statuses)
	}
}

// TestFuzzedConnections sends bytes that are hardly HTTP to a listening server, some of them in pieces.
func TestFuzzedConnections(t *testing.T) {
	f, requests := newFuzzer(t)
	w := newWorld(t, nil)
	server := httptest.NewServer(w)
	defer server.Close()
	for i := range requests / 20 {
		raw := f.spoil(f.wire())
		if err := exchange(server.Listener.Addr().String(), raw); err != nil {
			t.Errorf("connection %d: %v\n%.1000q", i, err, raw)
		}
	}
	answer, err := http.Get(server.URL + "/healthz") //nolint:noctx // a local server
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", answer, err)
	}
	_ = answer.Body.Close()
	http.DefaultClient.CloseIdleConnections()
}

// TestFuzzedServer sends the requests to a running server, with real models: completions are limited to one token.
func TestFuzzedServer(t *testing.T) {
	url := os.Getenv(fuzzServer)
	if url == "" {
		t.Skipf("%s names no server (http://127.0.0.1:8080)", fuzzServer)
	}
	f, requests := newFuzzer(t)
	statuses := map[int]int{}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{}} // with its own connections
	defer client.CloseIdleConnections()
	for i := range requests {
		r := f.request()
		body, _ := io.ReadAll(r.Body)
		var v map[string]any
		if json.Unmarshal(body, &v) == nil && v != nil && strings.HasSuffix(r.URL.Path, "completions") {
			v["max_tokens"] = 1
			delete(v, "max_completion_tokens")
			body, _ = json.Marshal(v)
		}
		to, err := http.NewRequestWithContext(t.Context(), r.Method, url+r.URL.EscapedPath(), bytes.NewReader(body))
		if err != nil {
			continue // an invalid method
		}
		to.Header.Set("Content-Type", r.Header.Get("Content-Type"))
		answer, err := client.Do(to)
		if err != nil {
			if !strings.Contains(err.Error(), "invalid header") {
				t.Errorf("request %d: %v\n%.2000q", i, err, body)
			}
			continue
		}
		said, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if statuses[answer.StatusCode]++; answer.StatusCode >= 500 {
			t.Errorf("request %d: %s %q: %d %.500s\n%.2000q", i, r.Method, r.URL.Path, answer.StatusCode, said, body)
		}
		if r.Method != http.MethodHead {
			f.spec.check(t, r, answer.StatusCode, answer.Header.Get("Content-Type"), string(said))
		}
	}
	t.Logf("%d requests: %v", requests, statuses)
}

// wire returns a request in its HTTP form.
func (f *fuzzer) wire() []byte {
	r := f.request()
	body, _ := io.ReadAll(r.Body)
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
		"X-Request-Id: %s\r\nConnection: close\r\n\r\n%s", r.Method, r.URL.EscapedPath(), len(body), f.text(), body)
	return b.Bytes()
}

// exchange sends bytes and reads the response, if any, which must not be a server error.
func exchange(address string, raw []byte) error {
	c, err := net.Dial("tcp", address) //nolint:noctx // a local server
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // it was only read
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if _, err := c.Write(raw); err != nil {
		return nil //nolint:nilerr // the server has closed it
	}
	_ = c.(*net.TCPConn).CloseWrite()
	said, _ := io.ReadAll(c)
	line, _, _ := strings.Cut(string(said), "\r\n")
	fields := strings.Fields(line)
	if len(fields) > 1 && strings.HasPrefix(fields[1], "5") && fields[1] != "501" && fields[1] != "505" {
		return fmt.Errorf("%s", said) // net/http's 501 and 505 for unknown transfer codings and versions
	}
	return nil
}

// FuzzBody checks that what decode accepts is JSON without repeated names.
func FuzzBody(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1,"x"],"c":null}}`))
	f.Add([]byte(`{"a":1,"A":2}`))
	f.Add([]byte(`{"\u0061":1,"a":2} x`))
	f.Add([]byte(strings.Repeat("[", 100)))
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		var v any
		if err := decode(r, &v); err != nil {
			if e := asRequestError(err); e.Status != http.StatusBadRequest || e.Message == "" {
				t.Errorf("%q: %+v", body, e)
			}
			return
		}
		if !json.Valid(body) {
			t.Errorf("%q is accepted", body)
		}
	})
}
