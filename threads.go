package sluice

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// acquireThreads says before each decode of the language model how many threads it may use: what the
// process's budget has free, and no more than the machine has idle. The threads of a decode wait for each
// other after every operation, so one thread without a CPU of its own stops them all: on two cores with
// twenty runnable tasks, an answer took 35 s with two threads and 5 s with one.
func (s *Sluice) acquireThreads() (threads int, release func()) {
	want := s.budget.Size()
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		want = idle(string(text), runtime.NumCPU(), want)
	}
	n, release, err := s.budget.Acquire(context.Background(), want)
	if err != nil { // cannot happen: the context does not end
		return 1, func() {}
	}
	return n, release
}

// idle is how many of limit threads find a CPU that nobody else wants, at least 1. The fourth field of
// /proc/loadavg counts the tasks that are runnable now, the asking one included; without it idle is limit.
func idle(loadavg string, cpus, limit int) int {
	fields := strings.Fields(loadavg)
	if len(fields) < 4 {
		return limit
	}
	text, _, _ := strings.Cut(fields[3], "/")
	running, err := strconv.Atoi(text)
	if err != nil {
		return limit
	}
	return max(1, min(limit, cpus-(running-1)))
}
