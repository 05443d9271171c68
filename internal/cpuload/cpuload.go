// Package cpuload measures how many CPUs other processes keep busy, so that the language model starts no more
// threads than find a CPU of their own.
package cpuload

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// window is the shortest time over which the load of other processes is measured. An instant is too
// short: what was just woken by our own last token looks like somebody else's work.
const window = 250 * time.Millisecond

// mostTaken is how much of its CPU others may take of a thread. The threads of a decode wait for each other after every
// operation, so one that shares its CPU costs more than it brings.
const mostTaken = .25

// remembered is how many windows back the load of others counts, two seconds: what comes and goes comes again. Threads
// that find their CPUs free halve the time of a token at best; one that waits for its CPU can cost several times it.
const remembered = 8

// Meter measures how many CPUs other processes keep busy. The zero value is ready; it may be used from any
// goroutine.
type Meter struct {
	mu     sync.Mutex
	last   sample
	others [remembered]float64 // CPUs, of the last windows
	next   int                 // of others, to be replaced
}

// sample is CPU time spent until at: by the whole machine and by this process.
type sample struct {
	at        time.Time
	all, self time.Duration
}

// Idle is how many of limit threads find one of the machine's CPUs that no other process wants, at least 1;
// limit until there is a measurement.
func (l *Meter) Idle(cpus, limit int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.last.at) >= window {
		next, ok := read(now)
		if !ok {
			return limit
		}
		l.add(next)
	}
	return idleThreads(cpus, limit, slices.Max(l.others[:]))
}

// add takes a sample, which ends a window. A long window counts for as many as it is long: nobody asked meanwhile.
func (l *Meter) add(next sample) {
	if !l.last.at.IsZero() {
		busy := othersBusy(l.last, next)
		for range min(max(1, int(next.at.Sub(l.last.at)/window)), remembered) {
			l.others[l.next] = busy
			l.next = (l.next + 1) % remembered
		}
	}
	l.last = next
}

// Begin takes the first sample, so that Idle measures from here on.
func (l *Meter) Begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if next, ok := read(time.Now()); ok {
		l.last = next
	}
}

// othersBusy is how many CPUs were busy with other processes between two samples.
func othersBusy(a, b sample) float64 {
	return max(0, float64((b.all-a.all)-(b.self-a.self))/float64(b.at.Sub(a.at)))
}

func idleThreads(cpus, limit int, others float64) int {
	return max(1, min(limit, int(float64(cpus)-others+mostTaken)))
}

// read reads the machine's CPU time from /proc/stat; ok is false where there is none.
func read(now time.Time) (s sample, ok bool) {
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
	return sample{at: now, all: all, self: self}, ok
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
