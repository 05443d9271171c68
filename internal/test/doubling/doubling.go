// Package doubling finds inputs for which a parser's work grows faster than their length: units of a format's syntax
// are repeated, the input is doubled, and what the work grows by is looked at. Tests use it in two ways. Linear counts
// steps, which are the same on every machine; Search draws inputs and measures processor time, for code whose steps
// nobody counts, and runs only when it is asked for.
package doubling

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Input is a text of any length: a head, a first unit repeated over a half of it, a middle, a second unit repeated as
// often, and a tail. Without a second unit the first one is repeated over all of it.
type Input struct{ Head, Unit, Middle, Second, Tail string }

// Text returns the input with about n bytes.
func (i Input) Text(n int) string {
	times := max(n/max(len(i.Unit)+len(i.Second), 1), 1)
	return i.Head + strings.Repeat(i.Unit, times) + i.Middle + strings.Repeat(i.Second, times) + i.Tail
}

// Repeat returns an input of one unit.
func Repeat(unit string) Input { return Input{Unit: unit} }

func (i Input) String() string {
	return fmt.Sprintf("%q %q* %q %q* %q", i.Head, i.Unit, i.Middle, i.Second, i.Tail)
}

// The lengths that are compared: each is twice the one before.
const (
	shortest = 8 << 10
	times    = 4 // lengths
)

// linearGrowth is by how much the work may grow when the input doubles: n log n grows by 2.2 at most from 8 KiB on.
const linearGrowth = 2.2

// Linear fails if the steps of an input grow faster than n log n from 8 to 64 KiB: in two successive doublings. A few
// steps per byte are always accepted.
func Linear(t testing.TB, in Input, steps func(text string) int) {
	t.Helper()
	var counts []int
	for i := range times {
		counts = append(counts, steps(in.Text(shortest<<i)))
	}
	if twice(func(i int) bool {
		return float64(counts[i]) > linearGrowth*float64(counts[i-1]) && counts[i] >= shortest<<i
	}) {
		t.Errorf("%v: steps of %d, %d, %d and %d bytes: %v", in, shortest, shortest<<1, shortest<<2, shortest<<3,
			counts)
	}
}

// twice reports whether two successive doublings, to lengths numbered from 1, grow too much.
func twice(grows func(i int) bool) bool {
	for i := 2; i < times; i++ {
		if grows(i-1) && grows(i) {
			return true
		}
	}
	return false
}

// Variable is the environment variable with the time that Search spends on each parser, such as "30s".
const Variable = "SLUICE_DOUBLING"

// The time of an input is suspicious if it grows by more than suspicious in two successive doublings, and the longest
// takes more than floor.
const (
	suspicious = 2.6
	floor      = 12 * time.Millisecond
	ceiling    = 5 * time.Second // a shorter input that takes longer is a finding by itself
)

// Search generates inputs from the syntax of a format, for as long as the variable says, and fails for those whose
// processor time is suspicious. Without the variable it skips. Other goroutines of the process count, so that nothing
// may run concurrently.
func Search(t *testing.T, syntax []string, parse func(text string)) {
	t.Helper()
	limit, err := time.ParseDuration(os.Getenv(Variable))
	if err != nil || limit <= 0 {
		t.Skipf("it measures time: it runs where %s is a duration such as 30s (make fuzz)", Variable)
	}
	seed := uint64(time.Now().UnixNano())
	draw := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	found := map[string]bool{}
	drawn := 0
	for end := time.Now().Add(limit); time.Now().Before(end); drawn++ {
		in := random(draw, syntax)
		short, long := Time(in, shortest<<1, parse), time.Duration(0)
		if short < ceiling {
			long = Time(in, shortest<<3, parse)
		}
		if short < ceiling && (long < floor || float64(long) < suspicious*suspicious*float64(short)*.8) {
			continue
		}
		took := Times(in, parse)
		if !grows(took) { // the machine was busy with something else
			continue
		}
		if key := in.Unit + in.Second; !found[key] {
			found[key] = true
			t.Errorf("%v: %v", in, took)
		}
	}
	t.Logf("%d inputs", drawn)
}

// random returns an input of a few pieces of the syntax.
func random(draw *rand.Rand, syntax []string) Input {
	pieces := func(least, most int) string {
		var b strings.Builder
		for range least + draw.IntN(most-least+1) {
			b.WriteString(syntax[draw.IntN(len(syntax))])
		}
		return b.String()
	}
	in := Input{Unit: pieces(1, 4)}
	if draw.IntN(2) == 0 {
		in.Head = pieces(1, 3)
	}
	if draw.IntN(2) == 0 {
		in.Second = pieces(1, 3)
	}
	if draw.IntN(3) == 0 {
		in.Middle = pieces(1, 2)
	}
	if draw.IntN(3) == 0 {
		in.Tail = pieces(1, 3)
	}
	return in
}

// Times returns the processor times of an input of 8, 16, 32 and 64 KiB; fewer, where one takes longer than anything
// may.
func Times(in Input, parse func(text string)) []time.Duration {
	var took []time.Duration
	for i := range times {
		took = append(took, Time(in, shortest<<i, parse))
		if took[i] > ceiling {
			break
		}
	}
	return took
}

// Time returns the processor time of an input of about n bytes.
func Time(in Input, n int, parse func(text string)) time.Duration {
	text := in.Text(n)
	runtime.GC()
	began := processorTime()
	parse(text)
	return processorTime() - began
}

// grows reports whether times are suspicious.
func grows(took []time.Duration) bool {
	last := took[len(took)-1]
	if last < floor {
		return false
	}
	if len(took) < times {
		return true
	}
	return twice(func(i int) bool { return float64(took[i]) > suspicious*float64(took[i-1]) })
}
