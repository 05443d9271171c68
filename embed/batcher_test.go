package embed

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/engine/cores"
)

// fake computes a row for each sequence: its first id, its length, and the sum of its ids. Each batch waits for a
// permit when there are any to wait for.
type fake struct {
	permits chan struct{}   // nil: none is needed
	begun   chan []sequence // gets each batch when it begins; may be nil
	fails   func(sequence) bool

	mu      sync.Mutex
	batches [][]sequence
	stopped int
}

func (f *fake) compute(ctx context.Context, batch []sequence, out []float32) error {
	if f.begun != nil {
		f.begun <- batch
	}
	if f.permits != nil {
		select {
		case <-f.permits:
		case <-ctx.Done():
			f.mu.Lock()
			f.stopped++
			f.mu.Unlock()
			return ctx.Err()
		}
	}
	f.mu.Lock()
	f.batches = append(f.batches, batch)
	f.mu.Unlock()
	for i, s := range batch {
		if f.fails != nil && f.fails(s) {
			return errDamaged
		}
		copy(out[3*i:], rowOf(s))
	}
	return nil
}

var errDamaged = errors.New("damaged")

func rowOf(s sequence) []float32 {
	var sum float32
	for _, id := range s.ids {
		sum += float32(id)
	}
	return []float32{float32(s.ids[0]), float32(len(s.ids)), sum}
}

func testBatcher(t *testing.T, f *fake, b *batcher) *batcher {
	t.Helper()
	b.dim, b.compute = 3, f.compute
	b.workers = cmp.Or(b.workers, 1)
	if b.cores == nil {
		b.cores = cores.New(b.workers)
	}
	b.budget = cmp.Or(b.budget, 64)
	t.Cleanup(b.open().close)
	return b
}

// ask has n sequences of the same length computed, and looks at the rows.
func ask(ctx context.Context, t *testing.T, b *batcher, first uint32, lengths ...int) error {
	sequences, starts := make([]sequence, len(lengths)), make([]int, len(lengths)+1)
	for i, n := range lengths {
		sequences[i].ids = slices.Repeat([]uint32{first + uint32(i)}, n)
		starts[i+1] = i + 1
	}
	out := make([]float32, 3*len(lengths))
	done := 0
	err := b.do(ctx, sequences, starts, out, func(n int) { done += n })
	if err != nil {
		return err
	}
	want := 0
	for i, s := range sequences {
		row := []float32{0, 0, 0}
		if len(s.ids) > 0 {
			row = rowOf(s)
			want++
		}
		if !slices.Equal(out[3*i:3*i+3], row) {
			t.Errorf("sequence %d of %d: %v, expected %v", i, first, out[3*i:3*i+3], row)
		}
	}
	if done != want {
		t.Errorf("%d of %d sequences were reported", done, want)
	}
	return nil
}

// until waits for a condition over what waits.
func until(t *testing.T, b *batcher, ok func(Stats) bool) {
	t.Helper()
	for range 50_000 {
		if ok(b.now()) {
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
	t.Fatalf("condition not reached: %+v", b.now())
}

func lengthsOf(batch []sequence) (n []int) {
	for _, s := range batch {
		n = append(n, len(s.ids))
	}
	return n
}

// TestJoins: what comes while a batch is computed is in the next one, and a huge call leaves room for the others.
func TestJoins(t *testing.T) {
	f := &fake{permits: make(chan struct{}), begun: make(chan []sequence, 99)}
	b := testBatcher(t, f, &batcher{budget: 64})
	var all sync.WaitGroup
	call := func(first uint32, lengths ...int) {
		before := b.now().WaitingCalls
		all.Go(func() {
			if err := ask(t.Context(), t, b, first, lengths...); err != nil {
				t.Error(err)
			}
		})
		if first > 0 {
			until(t, b, func(s Stats) bool { return s.WaitingCalls == before+1 })
		}
	}
	call(0, 12)
	if got := lengthsOf(<-f.begun); !slices.Equal(got, []int{12}) {
		t.Fatalf("the first batch is %v", got)
	}
	call(100, slices.Repeat([]int{10}, 20)...) // huge
	call(200, 9)
	call(300, 8, 7)
	f.permits <- struct{}{}
	// a sequence of each in turn, the longest of a call first
	if got := lengthsOf(<-f.begun); !slices.Equal(got, []int{10, 9, 8, 10, 7, 10, 10}) {
		t.Errorf("the second batch is %v", got)
	}
	close(f.permits)
	all.Wait()
	s := b.now()
	if s.Calls != 4 || s.Texts != 24 || s.Tokens != 12+200+9+15 || s.Joined != 1 || s.WaitingTokens != 0 {
		t.Errorf("%+v", s)
	}
}

// A lone sequence is computed by its caller where a core is free, and waits for one where none is; either way the core
// is given back, also by a call that is cancelled.
func TestLoneSequence(t *testing.T) {
	f := &fake{}
	b := testBatcher(t, f, &batcher{cores: cores.New(1)})
	if err := ask(t.Context(), t, b, 1, 5); err != nil || b.cores.Free() != 1 {
		t.Fatalf("%v, %d cores free", err, b.cores.Free())
	}
	if !b.cores.TryTake() {
		t.Fatal("no core")
	}
	answered := make(chan error, 1)
	go func() { answered <- ask(t.Context(), t, b, 2, 6) }()
	until(t, b, func(s Stats) bool { return s.WaitingCalls == 1 })
	b.cores.Give()
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	until(t, b, func(Stats) bool { return b.cores.Free() == 1 })
	f.permits = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { answered <- ask(ctx, t, b, 3, 7) }()
	until(t, b, func(s Stats) bool { return s.Computing == 1 })
	cancel()
	if err := <-answered; !errors.Is(err, context.Canceled) || b.cores.Free() != 1 {
		t.Errorf("%v, %d cores free", err, b.cores.Free())
	}
	if s := b.now(); s.Calls != 3 || s.Texts != 3 || s.Tokens != 18 || s.Batches != 3 || s.Computing != 0 {
		t.Errorf("%+v", s)
	}
}

// What waits is divided among the workers that have nothing to do, unless it is little.
func TestSplitsOverWorkers(t *testing.T) {
	f := &fake{permits: make(chan struct{}), begun: make(chan []sequence, 99)}
	b := testBatcher(t, f, &batcher{budget: 512, workers: 2})
	var all sync.WaitGroup
	all.Go(func() { _ = ask(t.Context(), t, b, 0, slices.Repeat([]int{10}, 20)...) })
	sizes := []int{len(<-f.begun), len(<-f.begun)}
	if !slices.Equal(sizes, []int{10, 10}) {
		t.Errorf("200 tokens for two workers: %v texts", sizes)
	}
	close(f.permits)
	all.Wait()
	_ = ask(t.Context(), t, b, 0, 12, 12)
	if got := len(<-f.begun); got != 2 {
		t.Errorf("24 tokens: a batch of %d texts", got)
	}
}

// TestCancelledCall: who leaves frees what waits of him, and others get their rows; a batch that nobody wants is
// stopped.
func TestCancelledCall(t *testing.T) {
	f := &fake{permits: make(chan struct{}), begun: make(chan []sequence, 99)}
	b := testBatcher(t, f, &batcher{budget: 64})
	ctx, cancel := context.WithCancel(t.Context())
	gone, stays := make(chan error, 2), make(chan error, 1)
	go func() { gone <- ask(ctx, t, b, 0, 60, 50, 40) }()
	<-f.begun // 60 tokens of it, which nobody else wants
	go func() { stays <- ask(t.Context(), t, b, 300, 5, 6) }()
	until(t, b, func(s Stats) bool { return s.WaitingCalls == 2 && s.WaitingTokens == 101 })
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if got := lengthsOf(<-f.begun); !slices.Equal(got, []int{6, 5}) {
		t.Errorf("the next batch is %v", got)
	}
	// a call that shares a batch leaves: the batch goes on
	ctx, cancel = context.WithCancel(t.Context())
	go func() { gone <- ask(ctx, t, b, 400, 3) }()
	also := make(chan error, 1)
	go func() { also <- ask(t.Context(), t, b, 500, 4) }()
	until(t, b, func(s Stats) bool { return s.WaitingCalls == 2 })
	f.permits <- struct{}{}
	<-f.begun
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	f.permits <- struct{}{}
	for _, c := range []chan error{stays, also} {
		if err := <-c; err != nil {
			t.Error(err)
		}
	}
	until(t, b, func(s Stats) bool { return s.Computing == 0 })
	if f.mu.Lock(); f.stopped != 1 {
		t.Errorf("%d batches were stopped", f.stopped)
	}
	f.mu.Unlock()
}

func TestFullQueue(t *testing.T) {
	f := &fake{permits: make(chan struct{}), begun: make(chan []sequence, 99)}
	b := testBatcher(t, f, &batcher{limit: 20, budget: 60})
	var all sync.WaitGroup
	call := func(ctx context.Context, first uint32, lengths ...int) {
		all.Go(func() {
			if err := ask(ctx, t, b, first, lengths...); err != nil {
				t.Error(err)
			}
		})
	}
	call(t.Context(), 0, slices.Repeat([]int{10}, 5)...) // more than the limit, but nothing waits
	<-f.begun
	until(t, b, func(s Stats) bool { return s.Computing == 1 && s.WaitingCalls == 0 })
	call(t.Context(), 0, 15)
	until(t, b, func(s Stats) bool { return s.WaitingTokens == 15 })
	call(t.Context(), 0, 15) // 15 are less than 20
	until(t, b, func(s Stats) bool { return s.WaitingTokens == 30 })
	err := b.check(t.Context())
	var busy *BusyError
	if !errors.As(err, &busy) || !errors.Is(err, ErrBusy) || busy.Limit != 20 || busy.Waiting != 30 {
		t.Errorf("%v", err)
	} else if !strings.Contains(err.Error(), "30, the limit is 20") {
		t.Error(err)
	}
	if err := b.check(cores.AsBatch(t.Context())); err != nil { // a batch job waits as long as it takes
		t.Error(err)
	}
	call(cores.AsBatch(t.Context()), 0, 9)
	until(t, b, func(s Stats) bool { return s.WaitingTokens == 39 })
	close(f.permits)
	all.Wait()
	if err := ask(t.Context(), t, b, 0, 1); err != nil || b.now().Refused != 1 {
		t.Error(err, b.now())
	}
	b.mu.Lock()
	b.lines[0].jobs = []*job{{tokens: 40}, {tokens: 1000}} // of the second as much as of a batch: 60
	b.stats.Tokens, b.stats.ComputeTime = 75, 75*time.Millisecond
	b.mu.Unlock()
	if !errors.As(b.check(t.Context()), &busy) || busy.Retry != 100*time.Millisecond {
		t.Errorf("%+v", busy)
	}
	b.lines[0].jobs = nil
}

// TestFailingSequence: a call whose sequence cannot be computed gets the error, those in the same batch their rows.
func TestFailingSequence(t *testing.T) {
	f := &fake{permits: make(chan struct{}), begun: make(chan []sequence, 99),
		fails: func(s sequence) bool { return s.ids[0] == 666 }}
	b := testBatcher(t, f, &batcher{})
	first, bad, good := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() { first <- ask(t.Context(), t, b, 0, 5) }()
	<-f.begun
	go func() { bad <- ask(t.Context(), t, b, 666, 4, 30, 60) }()
	go func() { good <- ask(t.Context(), t, b, 7, 6) }()
	until(t, b, func(s Stats) bool { return s.WaitingCalls == 2 })
	close(f.permits)
	if err := <-bad; !errors.Is(err, errDamaged) {
		t.Errorf("%v", err)
	}
	for _, c := range []chan error{first, good} {
		if err := <-c; err != nil {
			t.Error(err)
		}
	}
	until(t, b, func(s Stats) bool { return s.WaitingTokens == 0 && s.WaitingCalls == 0 })
}

// A batch of a padded graph is of one call, of similar lengths, and within the budget with its padding.
func TestPaddedBatches(t *testing.T) {
	f := &fake{}
	b := testBatcher(t, f, &batcher{padded: true, budget: 100, workers: 2})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			if err := ask(t.Context(), t, b, uint32(1000*i), 50, 3, 20, 40, 10, 0, 120, 3); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, batch := range f.batches {
		lengths := lengthsOf(batch)
		if len(batch) > 1 && slices.Max(lengths)*len(batch) > 100 ||
			batch[0].ids[0]/1000 != batch[len(batch)-1].ids[0]/1000 {
			t.Errorf("batch of %v", lengths)
		}
	}
}

func TestInteractiveCallsBeforeBatchJobs(t *testing.T) {
	f := &fake{permits: make(chan struct{}), begun: make(chan []sequence, 99)}
	b := testBatcher(t, f, &batcher{budget: 10})
	var all sync.WaitGroup
	all.Go(func() { _ = ask(cores.AsBatch(t.Context()), t, b, 0, slices.Repeat([]int{10}, 5)...) })
	<-f.begun
	all.Go(func() { _ = ask(t.Context(), t, b, 700, 10, 10) })
	// The order is right from the moment when the worker of the interactive call waits for the core.
	until(t, b, func(s Stats) bool { return s.WaitingCalls == 2 && b.cores.Contended() })
	close(f.permits)
	var order []uint32
	for range 6 {
		order = append(order, (<-f.begun)[0].ids[0]/100)
	}
	all.Wait()
	if !slices.Equal(order[:3], []uint32{7, 7, 0}) && !slices.Equal(order[:3], []uint32{0, 7, 7}) {
		t.Errorf("the calls came in the order %v", order)
	}
}

// TestManyCalls: whatever comes and goes, every call that stays gets its rows, and nothing is left behind.
func TestManyCalls(t *testing.T) {
	f := &fake{}
	b := testBatcher(t, f, &batcher{budget: 100, workers: 3, cores: cores.New(2)})
	var all sync.WaitGroup
	for w := range 16 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w)))
			for range 100 {
				ctx, cancel := context.WithCancel(t.Context())
				if r.IntN(3) == 0 {
					ctx = cores.AsBatch(ctx)
				}
				if r.IntN(4) == 0 {
					go cancel()
				}
				lengths := make([]int, r.IntN(12))
				for i := range lengths {
					lengths[i] = r.IntN(60)
				}
				if err := ask(ctx, t, b, uint32(r.IntN(1000)), lengths...); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	until(t, b, func(s Stats) bool { return s.WaitingCalls == 0 && s.WaitingTokens == 0 && s.Computing == 0 })
	for _, batch := range f.batches {
		n := 0
		for _, s := range batch {
			n += len(s.ids)
		}
		if n > 100 && len(batch) > 1 {
			t.Errorf("a batch of %d tokens", n)
		}
	}
	until(t, b, func(Stats) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.running) == 0 && b.lines[0].workers == 0 && b.lines[1].workers == 0 && b.cores.Free() == 2
	})
}
