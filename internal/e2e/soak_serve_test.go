//go:build native

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
)

// soakTime is how long TestSoakServe runs: SLUICE_SOAK_SERVE ("10m"), else some seconds.
func soakTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("SLUICE_SOAK_SERVE")
	if text == "" {
		return 6 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("SLUICE_SOAK_SERVE=%q: %v", text, err)
	}
	return d
}

const (
	soakRoom    = 12           // requests that the server takes at a time
	soakClients = 2 * soakRoom // that have one under way each, all the time
)

// soak is a load on a server, and what has become of it.
type soak struct {
	t      *testing.T
	s      *server
	client *http.Client
	stop   context.Context

	mu       sync.Mutex
	statuses map[string]int // "status path"
	slowest  time.Duration
	left     int // streams that the client ended
	cut      int // connections of slow clients that the server ended
	problems []string
}

func (k *soak) problem(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.problems) < 20 {
		k.problems = append(k.problems, fmt.Sprintf(format, args...))
	}
}

// questions are in scope and out of it.
func soakQuestion(r *rand.Rand) string {
	return []string{"When does a deferred function run, in which order?",
		"What does sending on a closed channel cause?",
		"Which plankton does the herring feed on?", "Who wrote the second symphony?",
		"Why do lighthouses warn ships?"}[r.IntN(5)]
}

// request sends one of the mix. It returns whether the server refused it.
func (k *soak) request(r *rand.Rand) (refused bool) {
	q := soakQuestion(r)
	path, body := "/v1/gate", fmt.Sprintf(`{"query":%q}`, q)
	switch n := r.IntN(100); {
	case n < 15:
		path, body = "/v1/embeddings", fmt.Sprintf(`{"model":"all-MiniLM-L6-v2","input":[%q,"%s"]}`, q,
			strings.Repeat("more words ", 1+r.IntN(60)))
	case n < 45:
		path, body = "/v1/retrieve", fmt.Sprintf(`{"query":%q,"gate":"auto","k":2}`, q)
	case n < 60:
		return k.chat(r, q, n < 50)
	}
	begun := time.Now()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, k.s.url+path, strings.NewReader(body))
	if err != nil {
		k.t.Error(err)
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := k.client.Do(req)
	if err != nil {
		k.problem("%s: %v", path, err)
		return false
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(resp.Body)
	return k.answered(path, resp, text, err, begun)
}

// answered counts an answer.
func (k *soak) answered(path string, resp *http.Response, text []byte, err error, begun time.Time) (refused bool) {
	k.mu.Lock()
	k.statuses[strconv.Itoa(resp.StatusCode)+" "+path]++
	k.slowest = max(k.slowest, time.Since(begun))
	k.mu.Unlock()
	refused = resp.StatusCode == http.StatusTooManyRequests
	if resp.StatusCode != http.StatusOK && !refused {
		k.problem("%s: %d %.300s", path, resp.StatusCode, text)
	}
	if wait, _ := strconv.Atoi(resp.Header.Get("Retry-After")); refused && wait < 1 {
		k.problem("%s: 429 without a Retry-After: %v", path, resp.Header)
	}
	if err != nil {
		k.problem("%s: %d, then %v", path, resp.StatusCode, err)
	}
	return refused
}

// chat streams an answer; with leaves the client goes after the first piece.
func (k *soak) chat(r *rand.Rand, q string, leaves bool) (refused bool) {
	const path = "/v1/chat/completions"
	model := []string{"sluice", "default"}[r.IntN(2)]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	body := fmt.Sprintf(`{"model":%q,"stream":true,"max_tokens":6,"messages":[{"role":"user","content":%q}]}`, model, q)
	begun := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, k.s.url+path, strings.NewReader(body))
	if err != nil {
		k.t.Error(err)
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := k.client.Do(req)
	if err != nil {
		k.problem("%s: %v", path, err)
		return false
	}
	defer resp.Body.Close() //nolint:errcheck // it was read, or is to be broken off
	if leaves && resp.StatusCode == http.StatusOK {
		_, _ = bufio.NewReader(resp.Body).ReadString('\n')
		k.mu.Lock()
		k.left++
		k.mu.Unlock()
		return false
	}
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode == http.StatusOK && !bytes.Contains(text, []byte("data: [DONE]")) {
		k.problem("%s: a stream without an end: %.300s", path, text)
	}
	return k.answered(path, resp, text, err, begun)
}

// clients have requests under way until stop ends.
func (k *soak) clients(all *sync.WaitGroup) {
	for i := range soakClients {
		all.Go(func() {
			r := rand.New(rand.NewPCG(18, uint64(i)))
			for k.stop.Err() == nil {
				if k.request(r) {
					time.Sleep(time.Duration(5+r.IntN(20)) * time.Millisecond) // shorter than Retry-After
				}
			}
		})
	}
}

// loris are clients that send a request a byte at a time, until stop ends. The server ends them, or they go.
func (k *soak) loris(all *sync.WaitGroup, n int) {
	for range n {
		all.Go(func() {
			for k.stop.Err() == nil {
				c, err := (&net.Dialer{}).DialContext(k.stop, "tcp", strings.TrimPrefix(k.s.url, "http://"))
				if err != nil {
					return
				}
				for _, b := range []byte("POST /v1/gate HTTP/1.1\r\nHost: localhost\r\nX-Slow: " +
					strings.Repeat("a", 10_000)) {
					_, err := c.Write([]byte{b})
					if err != nil {
						k.mu.Lock()
						k.cut++
						k.mu.Unlock()
					}
					if err != nil || k.stop.Err() != nil {
						break
					}
					time.Sleep(50 * time.Millisecond)
				}
				_ = c.Close()
			}
		})
	}
}

// resources are a server's resources in use.
type resources struct{ rss, goroutines, fds float64 }

// resourcesNow reads them from /metrics, which a full server answers, too.
func (k *soak) resourcesNow() (r resources) {
	k.t.Helper()
	resp, err := k.client.Get(k.s.url + "/metrics") //nolint:noctx // the client has a limit
	if err != nil {
		k.t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		for name, at := range map[string]*float64{"process_resident_memory_bytes": &r.rss,
			"go_goroutines":    &r.goroutines,
			"process_open_fds": &r.fds} {
			if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
				*at, _ = strconv.ParseFloat(value, 64)
			}
		}
	}
	if r.rss == 0 || r.goroutines == 0 || r.fds == 0 {
		k.t.Fatalf("/metrics does not have it all: %+v", r)
	}
	return r
}

// watch reads resources for a while.
func (k *soak) watch(within time.Duration) (all []resources) {
	every := max(within/40, 50*time.Millisecond)
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(every) {
		all = append(all, k.resourcesNow())
	}
	return all
}

func medianOf(all []resources, of func(resources) float64) float64 {
	v := make([]float64, len(all))
	for i, r := range all {
		v[i] = of(r)
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// soakServer returns a server with little room over a calibrated store.
func soakServer(t *testing.T, bin string, more ...string) (s *server, store string) {
	t.Helper()
	store = filepath.Join(t.TempDir(), "store")
	run(t, bin, "ingest", "-q", "--no-chunk", "--store", store, writeFile(t, "a.jsonl", doubles.Contexts))
	run(t, bin, "calibrate", "-q", "--store", store, "--queries", writeFile(t, "q.jsonl", doubles.Questions))
	return startServer(t, bin, append([]string{"--store", store, "--stale-tolerance", "1", "--log-level", "error",
		"--slots", "4", "--cache-tokens", "8192", "--context-tokens", "2048"}, more...)...), store
}

// TestSoakServe puts a server under twice the load that it takes: it answers 200 or 429 and nothing else, holds no more
// and more memory, goroutines and descriptors, and follows what another process changes meanwhile.
func TestSoakServe(t *testing.T) {
	bin, length := binary(t), soakTime(t)
	s, store := soakServer(t, bin, "--max-requests", strconv.Itoa(soakRoom), "--queue", "4")
	stop, end := context.WithCancel(t.Context())
	defer end()
	k := &soak{t: t, s: s, stop: stop, statuses: map[string]int{}, client: &http.Client{Timeout: time.Minute,
		Transport: &http.Transport{MaxIdleConnsPerHost: 2 * soakClients}}}
	defer k.client.CloseIdleConnections()
	idle := k.resourcesNow()
	var all sync.WaitGroup
	k.clients(&all)
	k.loris(&all, 4)
	k.watch(length / 4) // warms up
	steady := k.watch(length / 2)
	first, last := steady[:len(steady)/3], steady[2*len(steady)/3:]
	k.followed(bin, store)
	k.watch(length / 4)
	end()
	all.Wait()
	k.client.CloseIdleConnections()
	k.verdict(length, idle, first, last)
	if err := s.end(t); err != nil {
		t.Errorf("%v\n%s", err, s.stderr)
	}
}

// verdict returns what was wrong.
func (k *soak) verdict(length time.Duration, idle resources, first, last []resources) {
	k.t.Helper()
	for _, p := range k.problems {
		k.t.Error(p)
	}
	busy, total := 0, 0
	for what, n := range k.statuses {
		total += n
		if strings.HasPrefix(what, "429") {
			busy += n
		}
	}
	if busy == 0 || total-busy < 20 {
		k.t.Errorf("twice the load that it takes, and %d of %d requests were refused: %v", busy, total, k.statuses)
	}
	rss := func(r resources) float64 { return r.rss }
	grown := medianOf(last, rss)/medianOf(first, rss) - 1
	most := .05
	if length < 2*time.Minute {
		most = .25 // it is not warm yet
	}
	if grown > most {
		k.t.Errorf("memory grew by %.1f %% from %.0f MiB in the steady phase", 100*grown, medianOf(first, rss)/(1<<20))
	}
	goroutines, fds := func(r resources) float64 { return r.goroutines }, func(r resources) float64 { return r.fds }
	for what, of := range map[string]func(resources) float64{"goroutines": goroutines, "descriptors": fds} {
		if from, to := medianOf(first, of), medianOf(last, of); to > 1.1*from+4 {
			k.t.Errorf("%s grew from %.0f to %.0f in the steady phase", what, from, to)
		}
	}
	if length >= time.Minute && k.cut == 0 {
		k.t.Error("clients that send a byte at a time are never cut off")
	}
	var now resources
	over := func() bool { // the store's connections and mappings stay
		return now.goroutines > idle.goroutines+6 || now.fds > idle.fds+16
	}
	for range 100 { // what was under way ends, and connections are found to be closed
		if now = k.resourcesNow(); !over() {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if over() {
		k.t.Errorf("when all have gone it holds %+v, before %+v", now, idle)
	}
	k.t.Logf("%v: %v, %d streams left by their clients, slowest answer %v; memory %+.1f %% from %.0f MiB; goroutines "+
		"%.0f → %.0f idle, %.0f loaded; descriptors %.0f → %.0f", length, k.statuses, k.left, k.slowest, 100*grown,
		medianOf(first, rss)/(1<<20), idle.goroutines, now.goroutines,
		medianOf(last, goroutines), idle.fds, now.fds)
}

// followed has another process ingest and calibrate, and waits until the server uses both.
func (k *soak) followed(bin, store string) {
	k.t.Helper()
	const more = `{"id":"puffin","topic":"sea","text":"Puffins dig their burrows on grassy cliffs above the sea."}`
	run(k.t, bin, "ingest", "-q", "--no-chunk", "--store", store, writeFile(k.t, "more.jsonl", more))
	const question = "Where do puffins dig their burrows?"
	until := func(what, path, body, wanted string) {
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			status, text := k.s.post(k.t, "", path, body)
			if status == http.StatusOK && strings.Contains(text, wanted) {
				return
			}
			if status != http.StatusOK && status != http.StatusTooManyRequests || time.Now().After(end) {
				k.t.Errorf("%s: %d %s", what, status, text)
				return
			}
		}
	}
	until("ingested by another process", "/v1/retrieve", fmt.Sprintf(`{"query":%q,"k":1}`, question), `"puffin"`)
	questions := doubles.Questions + `{"context_id":"puffin","text":"` + question + `"}` + "\n"
	run(k.t, bin, "calibrate", "-q", "--store", store, "--threshold", "0.0625", "--queries",
		writeFile(k.t, "q2.jsonl", questions))
	until("calibrated by another process", "/v1/gate", fmt.Sprintf(`{"query":%q}`, question), `"threshold":0.0625`)
}

// TestServeDrainsUnderLoad checks that after SIGTERM, streamed answers under way are completed and new requests are
// refused.
func TestServeDrainsUnderLoad(t *testing.T) {
	s, _ := soakServer(t, binary(t))
	const streams = 4
	var begun, all sync.WaitGroup
	var whole atomic.Int64
	begun.Add(streams)
	for i := range streams {
		all.Go(func() {
			once := sync.OnceFunc(begun.Done)
			defer once()
			body := fmt.Sprintf(`{"model":"default","stream":true,"max_tokens":40,`+
				`"messages":[{"role":"user","content":"Tell the story of lighthouse number %d."}]}`, i)
			//nolint:noctx // the test ends with it
			resp, err := http.Post(s.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close() //nolint:errcheck // it was read
			lines := bufio.NewReader(resp.Body)
			line, err := lines.ReadString('\n')
			once()
			rest, err2 := io.ReadAll(lines)
			if err = errors.Join(err, err2); err != nil || resp.StatusCode != http.StatusOK ||
				!strings.Contains(line+string(rest), "[DONE]") {
				t.Errorf("%d, %v: %.200s", resp.StatusCode, err, line+string(rest))
				return
			}
			whole.Add(1)
		})
	}
	begun.Wait()
	if err := s.end(t); err != nil {
		t.Errorf("%v\n%s", err, s.stderr)
	}
	all.Wait()
	if whole.Load() != streams {
		t.Errorf("%d of %d streams came to their end", whole.Load(), streams)
	}
	var refused *url.Error
	if _, err := http.Get(s.url + "/healthz"); !errors.As(err, &refused) { //nolint:noctx,bodyclose // it is an error
		t.Errorf("after the end: %v", err)
	}
}
