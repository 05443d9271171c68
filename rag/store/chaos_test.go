package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-rag/sluice/internal/test/race"
)

// chaos is the file system and the steps of faults, of which any may fail.
type chaos struct {
	faults
	r     *rand.Rand
	share float64 // of the steps that fail; 0: none
	fired int
}

func (c *chaos) fail() error {
	if c.share > 0 && c.r.Float64() < c.share {
		c.fired++
		return [...]error{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT}[c.r.IntN(3)]
	}
	return nil
}

func (c *chaos) Remove(name string) error {
	if err := c.step("remove"); err != nil {
		return err
	}
	return c.faults.Remove(name)
}

// limited runs fn while no file of the process can be written beyond a size: what would go further is a short write or
// EFBIG, in segments and in SQLite's database, log and shared memory alike.
func limited(t *testing.T, size uint64, fn func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
			t.Fatal(err)
		}
	}()
	fn()
}

// Errors of any write, sync, opening or removal, and short writes, at random, also of SQLite's own files: an operation
// that succeeds is there, one that fails has changed nothing, and the next ones go on; also after the store was opened
// anew, and after a power cut. SLUICE_FAULT_ROUNDS sets the number of operations (300).
//
// It runs in a process of its own, in which no file but the store's is written: the limit of sizes is the process's.
func TestRandomFaults(t *testing.T) {
	race.Skip(t)
	const alone = "SLUICE_TEST_ALONE"
	if os.Getenv(alone) == "" {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRandomFaults$", "-test.v", "-test.timeout=0")
		c.Env = append(os.Environ(), alone+"=1")
		out, err := c.CombinedOutput()
		if t.Logf("%s", out); err != nil {
			t.Fatal(err)
		}
		return
	}
	rounds := 300
	if v := os.Getenv("SLUICE_FAULT_ROUNDS"); v != "" {
		var err error
		if rounds, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := &chaos{r: rand.New(rand.NewPCG(seed, 1))}
	x := c.seams()
	x.fs, c.random = c, c.fail
	dir := fastDir(t)
	s := mustOpen(t, dir, x)
	known := newContent()
	counts := map[string]int{}
	for n := range rounds {
		o, chunks, err := nextOp(s, n%workers, c.r)
		if err != nil {
			t.Fatal(err)
		}
		before := c.fired
		if n%3 == 2 {
			limited(t, uint64(4096*(1+c.r.IntN(64))), func() { err = o.do(s, chunks) })
		} else {
			c.share = []float64{.02, .1, .3}[c.r.IntN(3)]
			err = o.do(s, chunks)
			c.share = 0
		}
		after := o.apply(known)
		got := contentOf(t, s)
		switch {
		case err == nil && !got.equal(after):
			t.Fatalf("operation %d, %+v, succeeded and is not there", n, o)
		case err != nil && (errors.Is(err, ErrCorrupt) || errors.Is(err, context.Canceled)):
			t.Fatalf("operation %d, %+v: %v", n, o, err)
		case err != nil && !got.equal(known) && !got.equal(after):
			t.Fatalf("operation %d, %+v, failed and has left a part: %v", n, o, err)
		}
		known = got
		switch {
		case err == nil:
			counts["succeeded"]++
		case c.fired > before:
			counts["failed by an injected error: "+o.Kind]++
		default:
			counts["failed by a short write: "+o.Kind]++
		}
		if n%7 == 6 || n == rounds-1 {
			s.Close()
			if c.r.IntN(2) == 0 {
				if err := c.powerCut(dir); err != nil {
					t.Fatal(err)
				}
				counts["power cuts"]++
			}
			s = mustOpen(t, dir, x)
			if got := contentOf(t, s); !got.equal(known) {
				t.Fatalf("operation %d: another content after opening", n)
			}
			verify(t, s, known.chunks)
		}
	}
	for _, must := range []string{"succeeded", "failed by an injected error: sync", "failed by a short write: sync"} {
		if counts[must] == 0 && rounds >= 300 {
			t.Errorf("none %s: %v", must, counts)
		}
	}
	t.Log(fmt.Sprint(rounds, " operations: ", counts))
}
