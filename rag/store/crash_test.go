package store

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// op is one change that a worker of the helper process announces before and confirms after.
type op struct {
	Worker  int
	Kind    string // commit, replace, sync, vanish, rm, compact
	Doc     string
	IDs     []string // that get Version
	Version int
	Known   []string // that stay as they are
}

// kinds of changes: an ingest that adds, one that replaces a document, a sync that keeps what has not changed, a sync
// that finds a file gone, `docs rm` and `docs compact`.
var kinds = [...]string{"commit", "replace", "sync", "vanish", "rm", "compact"}

// content is the content of a store: versions of chunks, and of the file states of documents.
type content struct{ chunks, files map[string]int }

func newContent() content { return content{map[string]int{}, map[string]int{}} }

func (c content) equal(d content) bool {
	return maps.Equal(c.chunks, d.chunks) && maps.Equal(c.files, d.files)
}

// of returns the part of the content that a worker changes.
func (c content) of(worker int) content {
	mine := func(m map[string]int) map[string]int {
		out := map[string]int{}
		for k, v := range m {
			if strings.HasPrefix(k, fmt.Sprintf("w%dd", worker)) {
				out[k] = v
			}
		}
		return out
	}
	return content{mine(c.chunks), mine(c.files)}
}

// apply returns the content after the operation.
func (o op) apply(c content) content {
	next := content{maps.Clone(c.chunks), maps.Clone(c.files)}
	if o.Kind == "compact" {
		return next
	}
	maps.DeleteFunc(next.chunks, func(id string, _ int) bool {
		return o.Kind != "commit" && strings.HasPrefix(id, o.Doc+"/") && !slices.Contains(o.Known, id)
	})
	for _, id := range o.IDs {
		next.chunks[id] = o.Version
	}
	if o.Version > 0 {
		next.files[o.Doc] = o.Version
	}
	return next
}

const workers = 3

// churn changes the store by several workers, who share transactions, until it is killed. Each says so on standard
// output, a line a write.
func churn(dir string, seed uint64) error {
	o := Options{Create: true, Encoder: &testEncoder}
	if url := os.Getenv(suiteEnv); url != "" {
		o.Shared = newSharedAt(url, dir, testSeams())
	}
	s, err := open(context.Background(), dir, o, testSeams())
	if err != nil {
		return err
	}
	failed := make(chan error)
	if o.Shared != nil {
		go func() { failed <- churnFiles(s) }()
	}
	for w := range workers {
		go func() { failed <- churnWorker(s, w, rand.New(rand.NewPCG(seed, uint64(w)))) }()
	}
	return <-failed
}

func churnWorker(s *Store, worker int, r *rand.Rand) error {
	for {
		o, known, err := nextOp(s, worker, r)
		if err != nil {
			return err
		}
		line, _ := json.Marshal(o)
		os.Stdout.Write(append(line, '\n'))
		if err := o.do(s, known); err != nil {
			return err
		}
		fmt.Fprintf(os.Stdout, "ok %d\n", worker)
	}
}

// nextOp chooses a change that the store can do now.
func nextOp(s *Store, worker int, r *rand.Rand) (o op, known []corpus.Chunk, err error) {
	o = op{Worker: worker, Kind: kinds[r.IntN(len(kinds))], Doc: fmt.Sprintf("w%dd%d", worker, r.IntN(3))}
	var there []corpus.Chunk
	for k, err := range s.DocumentChunks(context.Background(), o.Doc) {
		if err != nil {
			return o, nil, err
		}
		there = append(there, k)
	}
	if len(there) == 0 && (o.Kind == "vanish" || o.Kind == "rm") {
		o.Kind = "replace"
	}
	switch o.Kind {
	case "vanish", "rm", "compact":
		return o, nil, nil
	}
	o.Version = 1 + r.IntN(30)
	fresh := map[string]bool{}
	for range 1 + r.IntN(50) {
		fresh[fmt.Sprintf("%s/%d", o.Doc, r.IntN(90))] = true
	}
	o.IDs = slices.Sorted(maps.Keys(fresh))
	for _, k := range there {
		if o.Kind == "sync" && !fresh[k.ID] && r.IntN(3) > 0 {
			o.Known = append(o.Known, k.ID)
			known = append(known, k)
		}
	}
	return o, known, nil
}

// do changes the store.
func (o op) do(s *Store, known []corpus.Chunk) error {
	ctx := context.Background()
	switch o.Kind {
	case "compact":
		_, err := s.Compact(ctx, 0)
		return err
	case "rm":
		_, err := s.DeleteDocuments(ctx, []string{o.Doc})
		return err
	case "vanish":
		d, err := s.Document(ctx, o.Doc)
		if err == nil {
			_, _, err = s.DeleteUnchanged(ctx, []DocumentInfo{d})
		}
		return err
	}
	b := batchOf(o.Version, testDim, o.IDs...)
	b.Known, b.Replace = known, o.Kind != "commit"
	b.Files = []FileState{stateOf(o.Doc, int64(o.Version))}
	_, err := s.Commit(ctx, b)
	return err
}

// contentOf reads what a store has, and sees that it is in order.
func contentOf(t *testing.T, s *Store) content {
	t.Helper()
	c := content{stored(t, s), map[string]int{}}
	files, err := s.Files(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for path, f := range files {
		c.files[path] = int(f.Size)
	}
	return c
}

// kill -9 at random moments, from the creation on, while several callers ingest, sync, remove and compact: what was
// confirmed is there, what was announced is there whole or not at all. SLUICE_KILL_ROUNDS sets the number (20).
func TestKill(t *testing.T) {
	rounds := 20
	if race.Enabled {
		rounds = 8 // other moments in each run
	}
	if v := os.Getenv("SLUICE_KILL_ROUNDS"); v != "" {
		var err error
		if rounds, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	m := killed{t: t, dir: filepath.Join(t.TempDir(), "s"), known: newContent(), confirmed: map[string]int{},
		underWay: map[string]int{}, kept: map[string]int{}}
	for round := range rounds {
		m.round(round)
	}
	sum := 0
	for _, kind := range kinds {
		sum += m.confirmed[kind]
		if m.confirmed[kind] == 0 && rounds >= 100 {
			t.Errorf("no %s was ever confirmed", kind)
		}
	}
	t.Logf("%d kills, %d changes confirmed %v; under way at the kill %v, of which were there afterwards %v", rounds, sum,
		m.confirmed, m.underWay, m.kept)
}

// killed is the model of TestKill.
type killed struct {
	t                         *testing.T
	dir                       string
	known                     content
	confirmed, underWay, kept map[string]int // by kind
	file                      int            // version of the last calibration that was confirmed, of a shared store
}

func (m *killed) round(round int) {
	t := m.t
	t.Helper()
	c, _, out := start(t, "churn", m.dir, fmt.Sprint(round))
	if round%3 > 0 { // else: also while it opens
		if line, err := out.Peek(1); err != nil {
			t.Fatal(line, err)
		}
	}
	within := 300 * time.Millisecond // of work
	if race.Enabled {
		within = time.Second
	}
	time.Sleep(time.Duration(rand.Int64N(int64(within))))
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	pending := m.replay(out)
	if err := c.Wait(); c.ProcessState.Exited() {
		t.Fatalf("the helper ended by itself: %v", err)
	}
	if r, err := open(context.Background(), m.dir, Options{ReadOnly: true}, testSeams()); err == nil {
		stored(t, r) // recovers the log without writing
		r.Close()
	} else if !errors.Is(err, ErrNotFound) || len(m.confirmed) > 0 {
		t.Fatal(err)
	}
	s := mustOpen(t, m.dir, testSeams())
	defer s.Close()
	m.compare(s, pending, round)
}

// compare sees that a store has what was confirmed, and of what was announced each change whole or not at all.
func (m *killed) compare(s *Store, pending [workers]*op, round int) {
	t := m.t
	t.Helper()
	got := contentOf(t, s)
	for w := range workers {
		switch mine, before := got.of(w), m.known.of(w); {
		case pending[w] != nil && mine.equal(pending[w].apply(before)):
			m.kept[pending[w].Kind]++
		case !mine.equal(before):
			t.Fatalf("round %d: worker %d has %v, want %v, or that after %+v", round, w, mine, before, pending[w])
		}
	}
	m.known = got
	verify(t, s, got.chunks)
}

// replay applies what the killed process confirmed and returns what each worker had announced last.
func (m *killed) replay(out *bufio.Reader) (pending [workers]*op) {
	for {
		line, err := out.ReadString('\n')
		if errors.Is(err, io.EOF) { // a cut line announces nothing that had begun
			for _, o := range pending {
				if o != nil {
					m.underWay[o.Kind]++
				}
			}
			return pending
		}
		if err != nil {
			m.t.Fatal(err)
		}
		if version, ok := strings.CutPrefix(line, "file "); ok {
			m.file, _ = strconv.Atoi(strings.TrimSpace(version))
			continue
		}
		if worker, ok := strings.CutPrefix(line, "ok "); ok {
			w, _ := strconv.Atoi(strings.TrimSpace(worker))
			m.known = pending[w].apply(m.known)
			m.confirmed[pending[w].Kind]++
			pending[w] = nil
			continue
		}
		o := &op{}
		if err := json.Unmarshal([]byte(line), o); err != nil {
			m.t.Fatal(err)
		}
		pending[o.Worker] = o
	}
}
