package engine

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device/devicetest"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels"
)

// TestOneTileEqualsMany: one task, 64 tasks and more, one and more threads, and regions of panels where memory is short
// give the same bits in every field, moments included. Regions have bounds of their own: those of the panels that lie
// on the device together, which are lower or higher by some percent where a format's bounds follow the panels' norms.
// What follows from bounds is within them then.
func TestOneTileEqualsMany(t *testing.T) {
	for _, metric := range metrics {
		for _, groups := range []int32{0, 5} {
			in := partInput(metric, groups, 20)
			if groups > 0 {
				in.Negatives.Kind = NegativesCrossGroup
			}
			var want *Distribution
			for _, c := range []struct {
				name string
				o    Options
			}{{"one tile", Options{TileRows: 1000}}, {"64 tiles", Options{TileRows: 64}},
				{"threads", Options{TileRows: 32, Threads: 4}}, {"chosen", Options{}},
				{"regions", Options{TileRows: 32}}} {
				if devicetest.OnCUDA() { // a block takes 128 × 128 pairs in any case
					c.o.TileRows *= 4
				}
				name, e := c.name, newEngine(t, c.o)
				if name == "regions" {
					format := e.r.Accurate()
					if format == kernels.F32 && e.r.Has(kernels.I16) {
						format = kernels.I16
					}
					e.tune.Panels, e.tune.Kept = e.r.Bytes(format, 800, 24), 0
				}
				got, err := e.Distribution(context.Background(), in)
				if err != nil {
					t.Fatal(err)
				}
				if regions := got.Way.Regions; name == "regions" && regions < 2 || name != "regions" && regions != 1 {
					t.Errorf("%s: %+v", name, got.Way)
				}
				got.Way = distribution.Way{}
				if want == nil {
					want = got
				}
				if name == "regions" {
					near(&got.NegativeSummary.StdError, want.NegativeSummary.StdError, .05)
					near(&got.NegativeSummary.MeanError, want.NegativeSummary.MeanError, .05)
					near(&got.SeparationError, want.SeparationError, .05)
					if d := got.Separation - want.Separation; math.Abs(d) <= want.SeparationError {
						got.Separation = want.Separation
					}
					if d := want.Kept - got.Kept; max(d, -d) < want.Kept/100 {
						got.Kept = want.Kept
					}
				}
				if diff := difference(want, got, theWay); diff != "" {
					t.Errorf("%v groups %d: %s (-first +got):\n%s", metric, groups, name, diff)
				}
			}
		}
	}
}

// near makes got the same as want where they are as near as a share of want.
func near(got *float64, want, share float64) {
	if math.Abs(*got-want) <= share*want {
		*got = want
	}
}

// partInput is large enough for a sweep, and small enough to be quick on every instruction set.
func partInput(metric kernels.Metric, groups int32, bins int) DistributionInput {
	rng := rand.New(rand.NewPCG(51, uint64(groups)))
	in := DistributionInput{Contexts: plain(rng, 500, 24), Queries: plain(rng, 700, 24), Metric: metric,
		Quantiles: table, Bins: bins, Sample: 5000}
	for range in.Queries.Rows {
		in.Owner = append(in.Owner, rng.Int32N(500))
	}
	for range in.Contexts.Rows * int(min(groups, 1)) {
		in.Group = append(in.Group, rng.Int32N(groups))
	}
	return in
}

// resumed runs what a checkpoint holds a part of, and tells how many pairs were done at the start.
func resumed(t *testing.T, in DistributionInput) (d *Distribution, before int64, err error) {
	t.Helper()
	before = -1
	e := newEngine(t, Options{TileRows: 32, Progress: func(done, _ int64) {
		if before < 0 {
			before = done
		}
	}})
	d, err = e.Distribution(context.Background(), in)
	return d, before, err
}

// TestResume: cancelled at 60 %, the second call does only the rest, with the same result. That records
// are believed, not counted again, shows when one lies.
func TestResume(t *testing.T) {
	for _, in := range []DistributionInput{partInput(kernels.Cosine, 0, 0), partInput(kernels.L2, 4, 30)} {
		want, err := newEngine(t, Options{TileRows: 32}).Distribution(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		in.Checkpoint = filepath.Join(t.TempDir(), "run.ckpt")
		ctx, cancel := context.WithCancel(context.Background())
		var reached int64
		e := newEngine(t, Options{TileRows: 32, Threads: 2, Progress: func(done, total int64) {
			if reached = done; done > total*6/10 {
				cancel()
			}
		}})
		if d, err := e.Distribution(ctx, in); d != nil || !errors.Is(err, context.Canceled) {
			t.Fatalf("%v, %v", d != nil, err)
		}
		got, before, err := resumed(t, in)
		if err != nil {
			t.Fatal(err)
		}
		if diff := difference(want, got, theWay); diff != "" {
			t.Errorf("resumed (-whole +resumed):\n%s", diff)
		}
		first := min(reached, 500*700) // of the first sweep
		if before < first {
			t.Errorf("%d pairs were done, %d taken as done", first, before)
		}
		if _, err := os.Stat(in.Checkpoint); !os.IsNotExist(err) {
			t.Errorf("the file is still there: %v", err)
		}
	}
}

// TestCancelledAnywhere: whatever phase a cancellation falls into, there is an error and no result, soon.
func TestCancelledAnywhere(t *testing.T) {
	in := mixture(1200, 96)
	if devicetest.OnCUDA() || devicetest.OnStandIn() { // a sixteenth of the pairs
		in = mixture(300, 32)
	}
	in.Bins = 50
	budget := cores.New(2)
	e := newEngine(t, Options{Cores: budget})
	start := time.Now()
	if _, err := e.Distribution(context.Background(), in); err != nil {
		t.Fatal(err)
	}
	whole, slowest, stopped := time.Since(start), time.Duration(0), 0
	for i := range 24 {
		ctx, cancel := context.WithCancel(context.Background())
		var at atomic.Pointer[time.Time]
		timer := time.AfterFunc(whole*time.Duration(i)/24, func() {
			now := time.Now()
			at.Store(&now)
			cancel()
		})
		d, err := e.Distribution(ctx, in)
		timer.Stop()
		switch {
		case err == nil && d != nil: // over before
		case !errors.Is(err, context.Canceled) || d != nil:
			t.Fatalf("cancelled after %d/24: %v, %v", i, d != nil, err)
		default:
			stopped++
			slowest = max(slowest, time.Since(*at.Load()))
		}
		if budget.Free() != 2 {
			t.Fatalf("cancelled after %d/24: %d of 2 tokens came back", i, budget.Free())
		}
		cancel()
	}
	t.Logf("%d of 24 stopped within %v of a run of %v", stopped, slowest, whole)
	if stopped == 0 {
		t.Error("none was stopped")
	}
}

// TestMemoryLimits: with little memory brackets are placed by histograms, with less all scores are
// canonical; what is exact stays the same.
func TestMemoryLimits(t *testing.T) {
	race.Skip(t)
	in := mixture(400, 64)
	want, neg := refDistribution(in)
	for _, limit := range []int64{1 << 20, 5 << 20, 6 << 20, 8 << 20, 1 << 30} {
		got, err := newEngine(t, Options{MemLimit: limit, Cores: cores.New(1)}).Distribution(context.Background(), in)
		if err != nil {
			t.Fatalf("%d bytes: %v", limit, err)
		}
		bounds{}.agree(t, fmt.Sprintf("%d bytes", limit), in, want, got, neg)
	}
}

// TestCheckpointFiles: torn and damaged records never happened; other files are refused and left alone.
func TestCheckpointFiles(t *testing.T) {
	in := partInput(kernels.Cosine, 0, 0)
	e := newEngine(t, Options{TileRows: 64})
	want, err := e.Distribution(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	in.Checkpoint = filepath.Join(t.TempDir(), "run.ckpt")
	ctx, cancel := context.WithCancel(context.Background())
	stop := newEngine(t, Options{TileRows: 64, Threads: 1, Progress: func(done, total int64) {
		if done > total/2 {
			cancel()
		}
	}})
	if _, err := stop.Distribution(ctx, in); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	half, err := os.ReadFile(in.Checkpoint)
	if err != nil || len(half) <= 40 {
		t.Fatalf("%d bytes, %v", len(half), err)
	}
	flipped := bytes.Clone(half)
	flipped[len(half)-9] ^= 4
	for name, data := range map[string][]byte{"whole": half, "torn": half[:len(half)-5], "header": half[:40],
		"torn header": half[:20], "empty": {}, "damaged": flipped, "trailing": append(bytes.Clone(half), 1, 2, 3)} {
		if err := os.WriteFile(in.Checkpoint, data, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := e.Distribution(context.Background(), in)
		if diff := difference(want, got, theWay); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	other := in
	other.Quantiles = []float64{.5}
	for name, c := range map[string]struct {
		data []byte
		in   DistributionInput
		want string
	}{
		"other input": {half, other, hex.EncodeToString(half[8:16])},
		"other file":  {[]byte("dear diary, today I counted all pairs twice over"), in, "no checkpoint"},
	} {
		if err := os.WriteFile(in.Checkpoint, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := e.Distribution(context.Background(), c.in)
		if !errors.Is(err, ErrCheckpoint) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if left, err := os.ReadFile(in.Checkpoint); err != nil || !bytes.Equal(left, c.data) {
			t.Errorf("%s: the file was changed: %v", name, err)
		}
	}
	in.Checkpoint = filepath.Join(t.TempDir(), "no", "such", "folder")
	if _, err := e.Distribution(context.Background(), in); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}

// TestKilled runs this test in a process of its own, kills it at 60 % and goes on from its file.
func TestKilled(t *testing.T) {
	in := partInput(kernels.Cosine, 0, 30)
	if path := os.Getenv("SLUICE_TEST_CHECKPOINT"); path != "" { // the process to be killed: slow enough to be caught
		in.Checkpoint = path
		e := newEngine(t, Options{TileRows: 32, Progress: func(done, total int64) {
			time.Sleep(time.Millisecond)
			fmt.Println("done", 100*done/total)
		}})
		e.tune.Record = 10 * time.Millisecond
		if _, err := e.Distribution(context.Background(), in); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := newEngine(t, Options{TileRows: 32}).Distribution(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	in.Checkpoint = filepath.Join(t.TempDir(), "run.ckpt")
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), "SLUICE_TEST_CHECKPOINT="+in.Checkpoint)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for percent := 0; percent < 60; {
		if _, err := fmt.Fscanf(out, "done %d\n", &percent); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("it was not killed")
	}
	if info, err := os.Stat(in.Checkpoint); err != nil || info.Size() <= 40 {
		t.Fatalf("no records at the kill: %v", err)
	}
	got, before, err := resumed(t, in)
	if diff := difference(want, got, theWay); err != nil || diff != "" {
		t.Errorf("%v (-whole +resumed):\n%s", err, diff)
	}
	if before < 500*700 { // the first of the two sweeps was over at the kill
		t.Errorf("%d pairs taken as done", before)
	}
}

// theWay leaves out of a comparison what tells of the work: a resumed run does less of it.
var theWay = cmpopts.IgnoreFields(Distribution{}, "Way", "Rechecked")
