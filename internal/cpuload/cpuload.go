// Package cpuload measures how many CPUs other processes keep busy, so that the language model starts only as many
// threads as there are free CPUs.
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

// window is the shortest time over which the load of other processes is measured. Shorter measurements would count
// threads that our own last token has just woken as the work of others.
const window = 250 * time.Millisecond

// mostTaken is the largest share of a thread's CPU that other processes may use. The threads of a decode wait for each
// other after every operation, so a thread that shares its CPU costs more than it contributes.
const mostTaken = .25

// remembered is the number of past windows, two seconds in all, over which the load of others counts, because such
// load tends to recur. Additional threads on free CPUs at best halve the time of a token; a single thread that waits
// for its CPU can multiply it.
const remembered = 8

// Meter measures how many CPUs other processes keep busy. The zero value is ready for use; it may be used from any
// goroutine.
type Meter struct {
	mu     sync.Mutex
	last   sample
	others [remembered]float64 // CPUs used in the last windows
	next   int                 // index in others of the entry to replace
}

// sample is the CPU time spent until at, by the whole machine and by this process.
type sample struct {
	at        time.Time
	all, self time.Duration
}

// Idle returns how many of limit threads get a CPU that no other process uses, at least 1; limit if there is no
// measurement yet.
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

// add takes a sample, which ends a window. A long window replaces as many entries as it is windows long, because there
// was no measurement in the meantime.
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

// Begin takes the first sample, which starts the measurement of Idle.
func (l *Meter) Begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if next, ok := read(time.Now()); ok {
		l.last = next
	}
}

// othersBusy returns how many CPUs other processes kept busy between two samples.
func othersBusy(a, b sample) float64 {
	return max(0, float64((b.all-a.all)-(b.self-a.self))/float64(b.at.Sub(a.at)))
}

func idleThreads(cpus, limit int, others float64) int {
	return max(1, min(limit, int(float64(cpus)-others+mostTaken)))
}

// read reads the machine's CPU time from /proc/stat; ok is false if there is no such file.
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

// parseStat sums the busy columns (user, nice, system, irq, softirq) of the first line of /proc/stat, which are in
// units of 10 ms.
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
