package plan

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"testing/quick"
	"time"

	"github.com/google/go-cmp/cmp"
)

// rates of round numbers.
func rates() Rates { return Rates{Products: 1e12, Scores: 1e10, Words: 1e8, Transfer: 1e9} }

func planned(t *testing.T, in Input) *Plan {
	t.Helper()
	p, err := New(in)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestBlocksCoverAllPairs: every pair is in one block.
func TestBlocksCoverAllPairs(t *testing.T) {
	rng := rand.New(rand.NewPCG(47, 9))
	for range 200 {
		n, m := 1+rng.Int64N(300), 1+rng.Int64N(100)
		in := Input{Contexts: n, Questions: m, Dim: 8, Rates: rates(), Memory: 3 << 20}
		p := planned(t, in)
		p.rows, p.lanes = 1+rng.Int64N(n), 1+rng.Int64N(m)
		p.Blocks = ceil(n, p.rows) * ceil(m, p.lanes)
		seen := make([]int, n*m)
		for i := range p.Blocks {
			b := p.Of(i)
			for c := b.Contexts.From; c < b.Contexts.To; c++ {
				for q := b.Questions.From; q < b.Questions.To; q++ {
					seen[c*m+q]++
				}
			}
		}
		for i, times := range seen {
			if times != 1 {
				t.Fatalf("%d × %d in blocks of %d × %d: pair %d is in %d", n, m, p.rows, p.lanes, i, times)
			}
		}
	}
}

// TestPlanOfAHundredTrillionPairs compares with numbers by hand: 10⁹ × 10⁵ pairs of 384 numbers take 3.84·10¹⁶
// multiply-adds, 38,400 s at 10¹² a second; the words of 1,000 questions at five weights 5·10¹² canonical scores,
// 192,000 s at 10¹⁰; a minute has 1.56·10⁶ contexts.
func TestPlanOfAHundredTrillionPairs(t *testing.T) {
	p := planned(t, Input{Contexts: 1e9, Questions: 1e5, Workers: 64, Rates: rates(), Memory: 16 << 30})
	if p.PerBlock.Contexts.To != 1562500 || p.PerBlock.Questions.To != 1e5 || p.Blocks != 640 || p.Rated != 1000 {
		t.Errorf("%d blocks of %v, %d rated", p.Blocks, p.PerBlock, p.Rated)
	}
	pairs := p.Passes[1]
	if seconds := pairs.Seconds - (pairs.Read+pairs.Written)/1e9; math.Abs(seconds-(38400+192000)) > 1e-6 {
		t.Errorf("%v seconds without the transfer", seconds)
	}
	if want := int64(56*(1e5+5000) + 8*65536); p.PartBytes != want || p.Levels != 3 {
		t.Errorf("parts of %d bytes, want %d, in %d levels", p.PartBytes, want, p.Levels)
	}
	if want := 1e9 * 384 * 4; pairs.Read < want || pairs.Read > 1.3*want {
		t.Errorf("%v bytes are read, the vectors take %v", pairs.Read, want)
	}
	exact := planned(t, Input{Contexts: 1e9, Questions: 1e5, Workers: 64, Rates: rates(), Memory: 16 << 30,
		Exact: true})
	if len(exact.Passes) != 3 || exact.MachineHours < p.MachineHours+38400./3600 {
		t.Errorf("%d passes, %v machine hours, %v without exact quantiles", len(exact.Passes), exact.MachineHours,
			p.MachineHours)
	}
}

// TestPlansStayWithinTheMemory: whatever is asked for, a plan keeps to the memory, or says that it is too little.
func TestPlansStayWithinTheMemory(t *testing.T) {
	check := func(contexts, questions uint32, dim uint16, memory uint32, workers uint8) bool {
		in := Input{Contexts: 1 + int64(contexts), Questions: 1 + int64(questions), Dim: 1 + int(dim%2048),
			Workers: 1 + int(workers), Memory: 1 + int64(memory), Rates: rates()}
		p, err := New(in)
		if err != nil {
			return errors.Is(err, ErrInput)
		}
		last := p.Of(p.Blocks - 1)
		return p.MemoryBytes <= in.Memory && p.Hours > 0 && p.Bytes() > 0 && last.Contexts.To == in.Contexts &&
			last.Questions.To == in.Questions
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 2000}); err != nil {
		t.Error(err)
	}
}

func TestRefused(t *testing.T) {
	good := Input{Contexts: 10, Questions: 10, Rates: rates()}
	for name, change := range map[string]func(*Input){
		"no contexts":      func(in *Input) { in.Contexts = 0 },
		"many questions":   func(in *Input) { in.Questions = math.MaxInt64 },
		"dimension":        func(in *Input) { in.Dim = -1 },
		"workers":          func(in *Input) { in.Workers = 1 << 21 },
		"rate":             func(in *Input) { in.Rates.Scores = math.NaN() },
		"no rate":          func(in *Input) { in.Rates.Transfer = 0 },
		"short blocks":     func(in *Input) { in.Block = time.Millisecond },
		"too little space": func(in *Input) { in.Memory = 1000 },
	} {
		in := good
		change(&in)
		if _, err := New(in); !errors.Is(err, ErrInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p := planned(t, good)
	for _, c := range []Chances{{Spread: -1}, {Failures: 61}, {Restart: math.NaN()}, {Restart: math.Inf(1)}} {
		if _, err := p.Simulate(1, c); !errors.Is(err, ErrInput) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := p.Simulate(0, Chances{}); !errors.Is(err, ErrInput) {
		t.Errorf("no workers: %v", err)
	}
}

// TestSimulate: equal workers without failures take the plan's hours; differences and failures take longer, blocks that
// are handed out beforehand longer still, and the same seed plays the same run.
func TestSimulate(t *testing.T) {
	p := planned(t, Input{Contexts: 1e9, Questions: 1e5, Workers: 64, Rates: rates(), Memory: 16 << 30})
	even, err := p.Simulate(64, Chances{})
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(even.Hours/p.Hours-1) > .02 || even.Failed != 0 || even.Bytes != p.Bytes() {
		t.Errorf("%+v; the plan has %v hours", even, p.Hours)
	}
	c := DefaultChances()
	c.Failures = 1
	run, err := p.Simulate(64, c)
	if err != nil {
		t.Fatal(err)
	}
	if run.Hours <= even.Hours || run.Fixed <= run.Hours || run.Failed == 0 || run.Bytes <= even.Bytes ||
		run.Tail <= 0 || run.Slow <= even.Slow {
		t.Errorf("%+v\nwithout chances %+v", run, even)
	}
	again, err := p.Simulate(64, c)
	if diff := cmp.Diff(run, again); diff != "" || err != nil {
		t.Errorf("the same seed: %v %s", err, diff)
	}
	for _, workers := range []int{8, 512} {
		other, err := p.Simulate(workers, c)
		if err != nil || (other.Hours < run.Hours) != (workers > 64) {
			t.Errorf("%d workers: %v hours, %v", workers, other.Hours, err)
		}
	}
}
