package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/test/postgres"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/store"
)

// machine is a server of a shared store with a cache of its own, as on another machine.
type machine struct {
	*world
	address string
	stop    func() error
}

func newMachine(t *testing.T, url, cache string) *machine {
	t.Helper()
	t.Setenv("SLUICE_CACHE", cache)
	m := &machine{world: newWorldWith(t, func(c *sluice.Config) { c.Store = url })}
	m.address, m.stop = listening(t, m.world)
	return m
}

// balancer sends a request to the first server that takes it, beginning with another one each time.
type balancer struct {
	t      *testing.T
	client *http.Client
	mu     sync.Mutex
	list   []string
	next   atomic.Int64
	asked  atomic.Int64
}

func (b *balancer) put(at int, address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list[at] = address
}

// ask asks the gate; a server that is ending has not done anything, and another one is asked.
func (b *balancer) ask(question string) (gate.Decision, error) {
	var out struct{ Decisions []gate.Decision }
	body, _ := json.Marshal(map[string]any{"queries": []string{question}})
	b.mu.Lock()
	list := slices.Clone(b.list)
	b.mu.Unlock()
	first := int(b.next.Add(1))
	for i := range list {
		to := "http://" + list[(first+i)%len(list)] + "/v1/gate"
		r, err := b.client.Post(to, "application/json", bytes.NewReader(body))
		if err != nil {
			continue
		}
		raw, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil || r.StatusCode == http.StatusServiceUnavailable {
			continue
		}
		if r.StatusCode != http.StatusOK {
			return gate.Decision{}, fmt.Errorf("%d %s", r.StatusCode, raw)
		}
		b.asked.Add(1)
		if err := json.Unmarshal(raw, &out); err != nil || len(out.Decisions) != 1 {
			return gate.Decision{}, fmt.Errorf("%s: %w", raw, err)
		}
		return out.Decisions[0], nil
	}
	return gate.Decision{}, errors.New("no server takes the request")
}

// writer ingests and removes documents of its own until ctx ends, and returns what is there then.
func writer(
	ctx context.Context, dir, name string, s *sluice.Sluice, seen func(id string, there bool),
) ([]string, error) {
	there := map[string]string{}
	for n := 0; ctx.Err() == nil; n++ {
		id := fmt.Sprintf("%s%d", name, n%20)
		if _, known := there[id]; known && n%3 == 0 {
			if _, err := s.Documents().Delete(context.Background(), []string{id}); err != nil {
				return nil, err
			}
			delete(there, id)
			seen(id, false)
			continue
		}
		line, _ := json.Marshal(map[string]string{"id": id,
			"text": fmt.Sprintf("Version %d of the paper %s speaks of gulls and tides.", n, id)})
		path := filepath.Join(dir, id+".jsonl")
		err := os.WriteFile(path, append(line, '\n'), 0o600)
		if err == nil {
			_, err = s.Ingest(context.Background(), []string{path}, ingest.Options{NoChunk: true})
		}
		if err != nil {
			return nil, err
		}
		there[id] = string(line)
		seen(id, true)
	}
	var lines []string
	for _, line := range there {
		lines = append(lines, line)
	}
	return lines, nil
}

// Three servers and two writers have one knowledge base: no request fails, also while the servers are restarted one
// after the other, and in the end all decide as one store in a folder does that has the same documents.
// SLUICE_SHARED_SECONDS sets how long they write (3).
func TestManyServers(t *testing.T) {
	seconds := 3
	if v := os.Getenv("SLUICE_SHARED_SECONDS"); v != "" {
		var err error
		if seconds, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	url := postgres.Start(t).URL()
	b := &balancer{t: t, client: client(t)}
	var machines []*machine
	for range 3 {
		machines = append(machines, newMachine(t, url, t.TempDir()))
		b.list = append(b.list, machines[len(machines)-1].address)
	}
	caches := []string{}
	for _, m := range machines {
		caches = append(caches, filepath.Dir(filepath.Dir(m.sluice.Store().Dir())))
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Duration(seconds)*time.Second)
	defer stop()
	var worst atomic.Int64 // until all servers have a change
	var working sync.WaitGroup
	var lines [2][]string
	for i := range lines {
		t.Setenv("SLUICE_CACHE", t.TempDir())
		s, err := sluice.Open(t.Context(), sluice.Config{Store: url, Embedder: doubles.NewEncoder(),
			Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		dir := t.TempDir()
		working.Go(func() {
			var err error
			lines[i], err = writer(ctx, dir, string(rune('p'+i)), s, func(id string, there bool) {
				began := time.Now()
				for _, m := range machines {
					for ctx.Err() == nil {
						_, err := m.sluice.Documents().Get(context.Background(), id)
						if errors.Is(err, sluice.ErrClosed) || there == (err == nil) {
							break
						}
						time.Sleep(time.Millisecond)
					}
				}
				if took := int64(time.Since(began)); ctx.Err() == nil && took > worst.Load() {
					worst.Store(took)
				}
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range 2 {
		working.Go(func() {
			for ctx.Err() == nil {
				if _, err := b.ask("When does a deferred function run, in which order?"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i, m := range machines { // a rolling restart
		time.Sleep(time.Duration(seconds) * time.Second / 5)
		if err := m.stop(); err != nil {
			t.Error(err)
		}
		_ = m.sluice.Close()
		machines[i] = newMachine(t, url, caches[i])
		b.put(i, machines[i].address)
	}
	working.Wait()
	t.Logf("%d requests; a change was everywhere after at most %s", b.asked.Load(), time.Duration(worst.Load()))

	local := newWorld(t, nil)
	path := filepath.Join(t.TempDir(), "all.jsonl")
	all := slices.Concat(lines[:]...)
	if err := os.WriteFile(path, []byte(strings.Join(all, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := local.sluice.Ingest(t.Context(), []string{path}, ingest.Options{NoChunk: true}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*sluice.Sluice{local.sluice, machines[1].sluice} {
		if _, err := s.Calibrate(t.Context(), calibrate.Options{Queries: strings.NewReader(doubles.Questions),
			Source: "questions"}); err != nil {
			t.Fatal(err)
		}
	}
	calibration := func(s *sluice.Sluice) (float64, string) {
		r, err := s.Calibrations().Get(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		return r.Calibration.Cutoff, r.Calibration.Created.String()
	}
	_, made := calibration(machines[1].sluice)
	for _, m := range machines {
		for _, now := calibration(m.sluice); now != made; _, now = calibration(m.sluice) {
			time.Sleep(time.Millisecond)
		}
	}
	questions := []string{"When does a deferred function run?", "What of gulls and tides?", "Who sings?"}
	want, err := local.sluice.Gate(t.Context(), questions)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range machines {
		got, err := m.sluice.Gate(t.Context(), questions)
		if err != nil {
			t.Fatal(err)
		}
		for q := range want {
			if got[q].Score != want[q].Score || got[q].Cutoff != want[q].Cutoff || got[q].Retrieve != want[q].Retrieve {
				t.Errorf("server %d, %q: %+v, want %+v", i, questions[q], got[q], want[q])
			}
		}
	}
}

// wire is a way to the database that can be cut.
type wire struct {
	listener net.Listener
	mu       sync.Mutex
	cut      bool
	open     map[net.Conn]bool
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: l, open: map[net.Conn]bool{}}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			w.mu.Lock()
			if w.cut || err != nil {
				c.Close()
				if err == nil {
					far.Close()
				}
			} else {
				w.open[c], w.open[far] = true, true
				for _, pair := range [][2]net.Conn{{c, far}, {far, c}} {
					running.Go(func() {
						_, _ = io.Copy(pair[0], pair[1]) // until it is cut
						pair[0].Close()
						pair[1].Close()
					})
				}
			}
			w.mu.Unlock()
		}
	})
	t.Cleanup(func() { l.Close(); w.set(true); running.Wait() })
	return w
}

// set cuts the wire, or mends it.
func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut = cut; cut {
		for c := range w.open {
			c.Close()
		}
		clear(w.open)
	}
}

// While the network to the database is cut, answers go on from the replica, which /readyz and the metrics say, and
// changes are refused; afterwards the server catches up.
func TestDatabaseAway(t *testing.T) {
	server := postgres.Start(t)
	url := server.URL()
	line := newWire(t, server.Addr())
	away := newMachine(t, strings.Replace(url, server.Addr(), line.listener.Addr().String(), 1), t.TempDir())
	other := newMachine(t, url, t.TempDir())
	question := []string{"When does a deferred function run, in which order?"}
	before, err := away.sluice.Gate(t.Context(), question)
	if err != nil {
		t.Fatal(err)
	}
	state := func() string {
		r, err := client(t).Get("http://" + away.address + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		var out struct{ Status, Database string }
		if err := json.NewDecoder(r.Body).Decode(&out); err != nil || r.StatusCode != 200 || out.Status != "ready" {
			t.Fatal(r.StatusCode, out, err)
		}
		return out.Database
	}
	until := func(want string) {
		for state() != want {
			time.Sleep(10 * time.Millisecond)
		}
		up := map[string]string{"followed": "1", "away": "0"}[want]
		if got := metricsOf(t, away.Server, "sluice_store_database_up"); !slices.Equal(got,
			[]string{`sluice_store_database_up{store="sea"} ` + up}) {
			t.Fatal(got)
		}
	}
	until("followed")
	line.set(true)
	until("away")
	after, err := away.sluice.Gate(t.Context(), question)
	if err != nil || after[0].Score != before[0].Score || after[0].ContextID != before[0].ContextID {
		t.Fatalf("%+v, %+v: %v", before, after, err)
	}
	if _, err := away.sluice.Documents().Delete(t.Context(), []string{"defer"}); !errors.Is(err, store.ErrAway) {
		t.Fatal(err)
	}
	status, body := do(t, away.Server, httptest.NewRequestWithContext(t.Context(), http.MethodDelete,
		"http://localhost/v1/documents/defer", http.NoBody))
	if status != http.StatusServiceUnavailable || failure(t, body).Code != "database_away" {
		t.Fatal(status, body)
	}
	status, body = do(t, away.Server, form("waits.txt", "What is uploaded waits for the database."))
	if status != http.StatusAccepted {
		t.Fatal(status, body)
	}
	o := calibrate.Options{Queries: strings.NewReader(doubles.Questions), Source: "questions"}
	if _, err := away.sluice.Calibrate(t.Context(), o); !errors.Is(err, store.ErrAway) {
		t.Fatal(err)
	}
	if _, err := other.sluice.Documents().Delete(t.Context(), []string{"defer"}); err != nil {
		t.Fatal(err)
	}
	line.set(false)
	until("followed")
	for {
		list, err := away.sluice.Documents().List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		has := map[string]bool{}
		for _, d := range list {
			has[d.Source] = true
		}
		_, err = away.sluice.Documents().Get(t.Context(), "defer")
		if errors.Is(err, store.ErrNotFound) && has["uploads/waits.txt"] {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
}
