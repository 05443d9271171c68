package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// holdUp starts a commit that waits in its step "begin" until release is called.
func holdUp(t *testing.T, s *Store, hold *atomic.Pointer[chan struct{}]) (release func()) {
	t.Helper()
	gate := make(chan struct{})
	hold.Store(&gate)
	var first sync.WaitGroup
	first.Go(func() {
		if _, err := s.Commit(context.Background(), batchOf(1, testDim, "first/0")); err != nil {
			t.Error(err)
		}
	})
	for len(s.lock.turn) > 0 || s.queued() > 0 { // until it has begun
		time.Sleep(time.Millisecond)
	}
	return func() {
		hold.Store(nil)
		close(gate)
		first.Wait()
	}
}

// gathered runs changes that wait together while another one is held up. It returns their errors.
func gathered(t *testing.T, s *Store, hold *atomic.Pointer[chan struct{}], changes ...func() error) []error {
	t.Helper()
	release := holdUp(t, s, hold)
	errs := make([]error, len(changes))
	var rest sync.WaitGroup
	for i, change := range changes {
		rest.Go(func() { errs[i] = change() })
		for s.queued() <= i {
			time.Sleep(time.Millisecond)
		}
	}
	release()
	rest.Wait()
	return errs
}

func (s *Store) queued() int {
	s.waiting.mu.Lock()
	defer s.waiting.mu.Unlock()
	return len(s.waiting.list)
}

// holdable are seams whose step "begin" waits for a gate; f may be nil.
func holdable(f *faults) (x seams, hold *atomic.Pointer[chan struct{}]) {
	x, hold = testSeams(), &atomic.Pointer[chan struct{}]{}
	if f != nil {
		x = f.seams()
	}
	inner := x.step
	x.step = func(name string) error {
		if gate := hold.Load(); gate != nil && name == "begin" {
			<-*gate
		}
		return inner(name)
	}
	return x, hold
}

func committing(ctx context.Context, s *Store, b Batch) func() error {
	return func() error {
		_, err := s.Commit(ctx, b)
		return err
	}
}

// Who waits shares one transaction and its syncs; who fails in it fails alone, and sees what came before.
func TestCommitsShareATransaction(t *testing.T) {
	ctx := context.Background()
	f := &faults{}
	x, hold := holdable(f)
	s := mustOpen(t, fastDir(t), x)
	mustCommit(t, s, batchOf(1, testDim, ids("z", 3)...))
	before, err := s.Generation(ctx)
	if err != nil {
		t.Fatal(err)
	}
	unknown := Batch{Known: []corpus.Chunk{chunkOf("a/0", "a", 9, 0)}}
	orphan := batchOf(1, testDim, "o/0") // fails after rows were given to it
	orphan.Documents = nil
	var chunks int
	f.arm(0, nil)
	errs := gathered(t, s, hold,
		committing(ctx, s, batchOf(1, testDim, ids("a", 40)...)),
		committing(ctx, s, unknown),
		committing(ctx, s, orphan),
		// replaces some of the first's
		committing(ctx, s, batchOf(2, testDim, append(ids("a", 5), ids("b", 30)...)...)),
		func() (err error) { chunks, err = s.DeleteDocuments(ctx, []string{"z"}); return err },
		func() error { _, err := s.DeleteDocuments(ctx, []string{"a", "none"}); return err },
		func() error { return s.SetMeta(ctx, "k", []byte("v")) },
	)
	for i, want := range []error{nil, ErrNotFound, ErrInput, nil, nil, ErrNotFound, nil} {
		if !errors.Is(errs[i], want) {
			t.Errorf("change %d: %v, want %v", i, errs[i], want)
		}
	}
	want := versions(1, append(ids("a", 40), "first/0")...)
	maps.Copy(want, versions(2, append(ids("a", 5), ids("b", 30)...)...))
	verify(t, s, want)
	now, err := s.Generation(ctx)
	if err != nil || now != before+2 || chunks != 3 {
		t.Errorf("%d transactions, want 2; %d chunks deleted, want 3: %v", now-before, chunks, err)
	}
	syncs := 0
	for _, step := range f.steps {
		if step == "sync" {
			syncs++
		}
	}
	if syncs != 2 {
		t.Errorf("%d syncs of vectors, want 2: %v", syncs, f.steps)
	}
	s.Close()
	if err := f.powerCut(s.Dir()); err != nil {
		t.Fatal(err)
	}
	verify(t, mustOpen(t, s.Dir(), testSeams()), want)
}

// A caller whose context ends while he waits returns at once, and is not served any more.
func TestCancelledWhileWaiting(t *testing.T) {
	x, hold := holdable(nil)
	s := mustOpen(t, fastDir(t), x)
	release := holdUp(t, s, hold)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(5*time.Millisecond, cancel)
	if _, err := s.Commit(ctx, batchOf(1, testDim, "a/0")); !errors.Is(err, context.Canceled) || s.queued() > 0 {
		t.Error(err, s.queued())
	}
	release()
	verify(t, s, versions(1, "first/0"))
}

// A shared transaction that fails as a whole is repeated for each, at every step: each has all of its changes or none.
func TestSharedTransactionFailsAtEachStep(t *testing.T) {
	race.Skip(t)
	ctx := context.Background()
	for n := 1; ; n++ {
		f := &faults{}
		x, hold := holdable(f)
		inner, commits := x.step, 0
		x.step = func(name string) error {
			err := inner(name)
			if name == "commit" {
				if commits++; commits == 2 { // that of the change that the others wait for
					f.arm(n, func() error { return syscall.EIO })
				}
			}
			return err
		}
		s := mustOpen(t, fastDir(t), x)
		mustCommit(t, s, batchOf(1, testDim, ids("z", 3)...))
		docs := []string{"a", "b", "c"}
		var changes []func() error
		for _, doc := range docs {
			changes = append(changes, committing(ctx, s, batchOf(1, testDim, ids(doc, 700)...)))
		}
		errs := gathered(t, s, hold, changes...)
		want := versions(1, append(ids("z", 3), "first/0")...)
		for i, doc := range docs {
			if errs[i] == nil {
				maps.Copy(want, versions(1, ids(doc, 700)...))
			}
		}
		// A failure fails the whole group. Each commit is then retried on its own and succeeds.
		if len(want) != 4+3*700 {
			t.Fatalf("step %d (%v): %v", n, f.steps, errs)
		}
		fired := f.n >= n
		f.arm(0, nil)
		verify(t, s, want)
		s.Close()
		if err := f.powerCut(s.Dir()); err != nil {
			t.Fatal(err)
		}
		s = mustOpen(t, s.Dir(), seams{fs: f, segmentBytes: 1, step: f.step, patient: time.Second})
		verify(t, s, want)
		mustCommit(t, s, batchOf(1, testDim, "n/0"))
		if !fired {
			if n < 12 {
				t.Fatalf("only %d steps: %v", n, f.steps)
			}
			return
		}
	}
}

// Many callers with batches of all kinds, some of them unusable: each has what was acknowledged and nothing else.
func TestManyCommitters(t *testing.T) {
	ctx := context.Background()
	s := mustOpen(t, fastDir(t), testSeams())
	want, mu := map[string]int{}, sync.Mutex{}
	var wg sync.WaitGroup
	for caller := range 8 {
		wg.Go(func() {
			known := map[string]int{}
			for n := range 12 {
				doc := fmt.Sprintf("d%d-%d", caller, n%3)
				b := batchOf(1+n, testDim, ids(doc, 1+n)...)
				switch {
				case n%4 == 3:
					b.Vectors = b.Vectors[1:]
					if _, err := s.Commit(ctx, b); !errors.Is(err, ErrDimension) {
						t.Error(err)
					}
					continue
				case n%5 == 4:
					if _, err := s.DeleteDocuments(ctx, []string{doc}); err != nil {
						t.Error(err)
					}
					maps.DeleteFunc(known, func(id string, _ int) bool { return id[:len(doc)+1] == doc+"/" })
					continue
				}
				if got, err := s.Commit(ctx, b); err != nil || len(got) != 1+n {
					t.Error(got, err)
				}
				maps.Copy(known, versions(1+n, ids(doc, 1+n)...))
			}
			mu.Lock()
			maps.Copy(want, known)
			mu.Unlock()
		})
	}
	wg.Wait()
	verify(t, s, want)
}
