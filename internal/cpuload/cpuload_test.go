package cpuload

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestIdleThreads(t *testing.T) {
	for _, c := range []struct {
		cpus, limit int
		others      float64
		want        int
	}{
		{2, 2, 0, 2}, {2, 2, .2, 2}, {2, 2, .3, 1}, {2, 2, 20, 1}, {16, 2, 8, 2}, {16, 16, 8, 8}, {1, 1, 1, 1},
		{64, 4, 0, 4},
	} {
		if got := idleThreads(c.cpus, c.limit, c.others); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

func TestOthersBusyLeavesOutOurOwnWork(t *testing.T) {
	start := time.Now()
	a := sample{at: start, all: 100 * time.Second, self: 7 * time.Second}
	b := sample{at: start.Add(time.Second), all: 102 * time.Second, self: 8500 * time.Millisecond}
	if got := othersBusy(a, b); math.Abs(got-.5) > 1e-9 {
		t.Errorf("%v CPUs, want .5: two were busy, one and a half with this process", got)
	}
	b.self = 20 * time.Second // the two clocks differ in grain
	if got := othersBusy(a, b); got != 0 {
		t.Errorf("%v, want 0", got)
	}
}

func TestParseStat(t *testing.T) {
	if busy, ok := parseStat("cpu  100 1 50 9999 777 3 4 888 0 0\ncpu0 1 2 3\n"); !ok || busy != 1580*time.Millisecond {
		t.Errorf("%v, %v: idle, waiting and stolen time is not busy", busy, ok)
	}
	for _, bad := range []string{"", "cpu", "cpu a b c d e f g h", "intr 1 2 3 4 5 6 7 8"} {
		if _, ok := parseStat(bad); ok {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestBegin(t *testing.T) {
	var m Meter
	m.Begin()
	if _, ok := read(time.Now()); !ok {
		t.Skip("no /proc/stat here")
	}
	if m.last.at.IsZero() {
		t.Error("no sample was taken, so the first Idle knows nothing")
	}
	m.last.at = m.last.at.Add(-time.Second)
	m.last.all -= 20 * time.Second // what other processes had since
	if got := m.Idle(2, 2); got != 1 {
		t.Errorf("%d threads beside twenty busy CPUs, want 1", got)
	}
}

// TestLoadIsRemembered checks that intermittent load counts for two seconds: threads of a decode that wait for a CPU
// cost more than they gain.
func TestLoadIsRemembered(t *testing.T) {
	var l Meter
	at, all := time.Now(), 100*time.Second
	window := func(n int, busy float64) { // n windows later; this process does nothing
		d := time.Duration(n) * window
		at, all = at.Add(d), all+time.Duration(busy*float64(d))
		l.add(sample{at: at, all: all})
	}
	threads := func() int { return idleThreads(2, 2, slices.Max(l.others[:])) }
	window(1, 0) // the first one begins
	if threads() != 2 {
		t.Error("an idle machine has both CPUs")
	}
	window(1, 1)
	for i := range remembered - 1 {
		if window(1, 0); threads() != 1 {
			t.Fatalf("forgotten after %d windows", i+1)
		}
	}
	if window(1, 0); threads() != 2 {
		t.Error("remembered for ever")
	}
	window(1, 1)
	if window(3*remembered, .1); threads() != 2 { // a long time without a decode
		t.Error("remembered over a long window")
	}
}
