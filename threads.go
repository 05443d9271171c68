package sluice

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// acquireThreads says before each decode of the language model how many threads it may use: what the
// process's budget has free, and no more than other processes leave idle. The threads of a decode wait for
// each other after every operation, so one thread without a CPU of its own stops them all: on two cores
// with twenty runnable tasks, an answer took 35 s with two threads and 5 s with one.
func (s *Sluice) acquireThreads() (threads int, release func()) {
	n, release, err := s.budget.Acquire(context.Background(), s.load.idle(runtime.NumCPU(), s.budget.Size()))
	if err != nil { // cannot happen: the context does not end
		return 1, func() {}
	}
	return n, release
}

// loadWindow is the shortest time over which the load of other processes is measured. An instant is too
// short: what was just woken by our own last token looks like somebody else's work.
const loadWindow = 250 * time.Millisecond

// loadMeter measures how many CPUs other processes keep busy.
type loadMeter struct {
	mu     sync.Mutex
	last   cpuSample
	others float64 // CPUs
}

// cpuSample is CPU time spent until at: by the whole machine and by this process.
type cpuSample struct {
	at        time.Time
	all, self time.Duration
}

// idle is how many of limit threads find a CPU that no other process wants, at least 1; limit until there
// is a measurement.
func (l *loadMeter) idle(cpus, limit int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.last.at) >= loadWindow {
		next, ok := sampleCPU(now)
		if !ok {
			return limit
		}
		if !l.last.at.IsZero() {
			l.others = othersBusy(l.last, next)
		}
		l.last = next
	}
	return idleThreads(cpus, limit, l.others)
}

// othersBusy is how many CPUs were busy with other processes between two samples.
func othersBusy(a, b cpuSample) float64 {
	return max(0, float64((b.all-a.all)-(b.self-a.self))/float64(b.at.Sub(a.at)))
}

func idleThreads(cpus, limit int, others float64) int {
	return max(1, min(limit, int(float64(cpus)-others+.5)))
}

// sampleCPU reads the machine's CPU time from /proc/stat; ok is false where there is none.
func sampleCPU(now time.Time) (s cpuSample, ok bool) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return s, false
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return s, false
	}
	all, ok := parseStat(string(stat))
	self := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	return cpuSample{at: now, all: all, self: self}, ok
}

// parseStat sums up the busy columns (user, nice, system, irq, softirq) of /proc/stat's first line, which
// counts hundredths of a second.
func parseStat(stat string) (busy time.Duration, ok bool) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 8 || fields[0] != "cpu" {
		return 0, false
	}
	for _, column := range []int{1, 2, 3, 6, 7} {
		ticks, err := strconv.ParseInt(fields[column], 10, 64)
		if err != nil {
			return 0, false
		}
		busy += time.Duration(ticks) * 10 * time.Millisecond
	}
	return busy, true
}
