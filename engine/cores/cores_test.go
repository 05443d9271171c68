package cores

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAcquireTakesWhatIsFree(t *testing.T) {
	b, ctx := New(4), context.Background()
	g1, r1, err := b.Acquire(ctx, 3)
	if g1 != 3 || err != nil {
		t.Fatalf("first: %d, %v", g1, err)
	}
	g2, r2, err := b.Acquire(ctx, 3)
	if g2 != 1 || err != nil {
		t.Fatalf("second gets the one that is left, got %d, %v", g2, err)
	}
	r1()
	r1() // releasing twice must not create tokens
	r2()
	if b.Free() != 4 {
		t.Fatalf("free = %d after all releases, want 4", b.Free())
	}
	if g, r, _ := b.Acquire(ctx, -5); g != 1 {
		t.Fatalf("want below 1 counts as 1, got %d", g)
	} else {
		r()
	}
}

func TestAcquireWaitsInOrderAndHonoursContext(t *testing.T) {
	b := New(1)
	_, release, _ := b.Acquire(context.Background(), 1)
	if b.Contended() {
		t.Fatal("contended without a waiter")
	}
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan error, 1)
	go func() { _, _, err := b.Acquire(ctx, 1); gone <- err }()
	waitFor(t, b.Contended)
	got := make(chan int, 1)
	go func() {
		g, r, _ := b.Acquire(context.Background(), 7)
		defer r()
		got <- g
	}()
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled waiter: %v", err)
	}
	select {
	case <-got:
		t.Fatal("granted while the only token is held")
	default:
	}
	release()
	if g := <-got; g != 1 {
		t.Fatalf("granted %d of a budget of 1", g)
	}
	waitFor(t, func() bool { return b.Free() == 1 })
	if _, _, err := b.Acquire(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Fatalf("a done context must not get a token: %v", err)
	}
}

// TestBudgetNeverOverdrawn: under cancellation and contention no more than Size tokens are out, and
// all come back.
func TestBudgetNeverOverdrawn(t *testing.T) {
	b := New(3)
	var held atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for range 500 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rng.IntN(50))*time.Microsecond)
				g, release, err := b.Acquire(ctx, 1+rng.IntN(4))
				if err == nil {
					if now := held.Add(int64(g)); now > 3 {
						t.Errorf("%d tokens out of 3", now)
					}
					runtime.Gosched()
					held.Add(-int64(g))
					if g == 1 {
						_ = b.Yield(ctx) // after an error, release still balances
					}
					release()
				}
				cancel()
			}
		}()
	}
	wg.Wait()
	if b.Free() != 3 || b.Contended() {
		t.Fatalf("free = %d, contended = %v at the end", b.Free(), b.Contended())
	}
}

func TestYieldLetsTheWaiterRun(t *testing.T) {
	b := New(1)
	_, release, _ := b.Acquire(context.Background(), 1)
	if err := b.Yield(context.Background()); err != nil || b.Free() != 0 {
		t.Fatalf("yield without a waiter: %v, free %d", err, b.Free())
	}
	ran := make(chan struct{})
	go func() {
		_, r, _ := b.Acquire(context.Background(), 1)
		close(ran)
		r()
	}()
	waitFor(t, b.Contended)
	if _, ok := b.TryAcquire(); ok {
		t.Fatal("TryAcquire overtook a waiter")
	}
	if err := b.Yield(context.Background()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ran:
	default:
		t.Fatal("yield came back before the waiter ran")
	}
	release()
	if b.Free() != 1 {
		t.Fatalf("free = %d", b.Free())
	}
}

func TestYieldCancelled(t *testing.T) {
	b := New(1)
	_, release, _ := b.Acquire(context.Background(), 1)
	hold, held := make(chan struct{}), make(chan struct{})
	go func() {
		_, r, _ := b.Acquire(context.Background(), 1)
		close(held)
		<-hold
		r()
	}()
	waitFor(t, b.Contended)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-held; cancel() }()
	if err := b.Yield(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("yield: %v", err)
	}
	release()
	close(hold)
	waitFor(t, func() bool { return b.Free() == 1 })
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for range 10_000 {
		if ok() {
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
	t.Fatal("condition not reached")
}

func TestQuota(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	for name, c := range map[string]struct {
		fs   fstest.MapFS
		cpus int
		ok   bool
	}{
		"no cgroups": {fstest.MapFS{}, 0, false},
		"v2 without limit": {fstest.MapFS{
			"proc/self/cgroup":      file("0::/\n"),
			"sys/fs/cgroup/cpu.max": file("max 100000\n")}, 0, false},
		"v2 rounds up": {fstest.MapFS{
			"proc/self/cgroup":           file("0::/a/b\n"),
			"sys/fs/cgroup/a/b/cpu.max":  file("150000 100000\n"),
			"sys/fs/cgroup/a/cpu.max":    file("max 100000\n"),
			"sys/fs/cgroup/a/b/cpu.stat": file("")}, 2, true},
		"v2 ancestor is tighter": {fstest.MapFS{
			"proc/self/cgroup":          file("0::/a/b\n"),
			"sys/fs/cgroup/a/b/cpu.max": file("800000 100000\n"),
			"sys/fs/cgroup/a/cpu.max":   file("300000 100000\n")}, 3, true},
		"v2 path of the host, limit at the container's root": {fstest.MapFS{
			"proc/self/cgroup":      file("0::/system.slice/docker-1.scope\n"),
			"sys/fs/cgroup/cpu.max": file("50000 100000\n")}, 1, true},
		"v1": {fstest.MapFS{
			"proc/self/cgroup": file("5:cpuset:/x\n4:cpu,cpuacct:/x\n"),
			"sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us":  file("400000\n"),
			"sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us": file("100000\n")}, 4, true},
		"v1 unlimited": {fstest.MapFS{
			"proc/self/cgroup":                    file("4:cpu:/\n"),
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":  file("-1\n"),
			"sys/fs/cgroup/cpu/cpu.cfs_period_us": file("100000\n")}, 0, false},
		"beyond int": {fstest.MapFS{
			"proc/self/cgroup":      file("0::/\n"),
			"sys/fs/cgroup/cpu.max": file("9223372036854775807 1\n")}, 1 << 20, true},
		"nonsense": {fstest.MapFS{
			"proc/self/cgroup":      file("0::/\ngarbage\n"),
			"sys/fs/cgroup/cpu.max": file("12 0\n")}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			if cpus, ok := quota(c.fs); cpus != c.cpus || ok != c.ok {
				t.Errorf("quota = %d, %v; want %d, %v", cpus, ok, c.cpus, c.ok)
			}
		})
	}
}

// FuzzQuota: whatever the files hold, the answer is no limit or at least one CPU.
func FuzzQuota(f *testing.F) {
	f.Add("0::/a\n", "150000 100000\n")
	f.Add("4:cpu,cpuacct:/../..\n0::\n", "max 1\n")
	f.Add("0::/\x00/", "9223372036854775807 1")
	f.Fuzz(func(t *testing.T, groups, limit string) {
		cpus, ok := quota(fstest.MapFS{
			"proc/self/cgroup":        &fstest.MapFile{Data: []byte(groups)},
			"sys/fs/cgroup/cpu.max":   &fstest.MapFile{Data: []byte(limit)},
			"sys/fs/cgroup/a/cpu.max": &fstest.MapFile{Data: []byte(limit)},
		})
		if ok != (cpus >= 1) {
			t.Errorf("quota = %d, %v", cpus, ok)
		}
	})
}

func TestAvailable(t *testing.T) {
	if n := Available(); n < 1 || n > runtime.NumCPU() {
		t.Fatalf("Available() = %d of %d CPUs", n, runtime.NumCPU())
	}
	old := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(old)
	if n := Available(); n != 1 {
		t.Fatalf("Available() = %d under GOMAXPROCS=1", n)
	}
	if New(0).Size() != 1 {
		t.Fatal("New(0) is Available()")
	}
}
