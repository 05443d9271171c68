package pipeline

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"

	"github.com/sluice-rag/sluice/cluster/calibrate"
	"github.com/sluice-rag/sluice/cluster/objects"
	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/rag/gate"
)

// TestCost measures what a calibration by a worker of prism costs beside one of one machine, in turns (three,
// unless told otherwise), of as many contexts and questions as SLUICE_CLUSTER_PAIRS says, of the benchmarks' mixture.
// It logs each number as it has it.
//
//	SLUICE_CLUSTER_PAIRS=200000x600000 go test ./pipeline -run TestCost -v -timeout 60m
func TestCost(t *testing.T) {
	in, turns := costInput(t)
	contexts, questions := in.Contexts.Rows, in.Queries.Rows
	var here, there []float64
	for turn := range turns {
		began := time.Now()
		want, _, err := gate.Calibrate(t.Context(), newEngine(t), in)
		if err != nil {
			t.Fatal(err)
		}
		here = append(here, time.Since(began).Seconds())
		t.Logf("turn %d: one machine %.2f s, %.3g pairs/s", turn, here[turn],
			float64(contexts)*float64(questions)/here[turn])

		address := "file://" + t.TempDir()
		s, err := objects.Open(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		of, asked, err := calibrate.Export(t.Context(), s, in, 1<<18) // sluice-cluster's default, as Step
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		exported := time.Since(began).Seconds()
		began = time.Now()
		got, _, err := Calibrate(t.Context(), newEngine(t), address, of, asked,
			CalibrateOptions{Runner: "prism", Step: 1 << 17, Exact: true})
		if err != nil {
			t.Fatal(err)
		}
		there = append(there, time.Since(began).Seconds())
		t.Logf("turn %d: export %.2f s, prism %.2f s, %.3f times as long", turn, exported, there[turn],
			there[turn]/here[turn])
		same(t, "mixture", want, got)
	}
	slices.Sort(here)
	slices.Sort(there)
	t.Logf("medians of %d: one machine %.2f s, prism %.2f s, %.3f times as long", len(here), here[len(here)/2],
		there[len(there)/2], there[len(there)/2]/here[len(here)/2])
}

// costInput draws the mixture of the size that SLUICE_CLUSTER_PAIRS says.
func costInput(t *testing.T) (in gate.Input, turns int) {
	var contexts, questions int
	turns = 3
	if n, err := fmt.Sscanf(os.Getenv("SLUICE_CLUSTER_PAIRS"), "%dx%dx%d", &contexts, &questions, &turns); n < 2 {
		t.Skipf("SKIP: SLUICE_CLUSTER_PAIRS is not set to CONTEXTSxQUESTIONS or CONTEXTSxQUESTIONSxTURNS (%v)", err)
	}
	in = mixtureInput(contexts, questions)
	t.Logf("%d × %d are drawn", contexts, questions)
	return in, turns
}

// TestWorkers measures a calibration by one worker and by two, processes on a core each, in turns, in 16 blocks that
// Python's local runner gives out (SLUICE_BEAM_PYTHON, a Python with apache-beam). The storage and the runner have no
// core of their own.
//
//	SLUICE_BEAM_PYTHON=… SLUICE_CLUSTER_PAIRS=40000x120000 go test ./pipeline -run TestWorkers -v -timeout 60m
func TestWorkers(t *testing.T) {
	python := os.Getenv("SLUICE_BEAM_PYTHON")
	if python == "" {
		t.Skip("SKIP: SLUICE_BEAM_PYTHON is not set")
	}
	in, turns := costInput(t)
	*jobopts.WorkerBinary = filepath.Join(t.TempDir(), "worker") // those of the pool are there
	if err := os.WriteFile(*jobopts.WorkerBinary, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	const script = `
import sys
from apache_beam.runners.portability import local_job_service_main
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
make = FnApiRunner.__init__
def with_workers(self, *list, **named):
    make(self, *list, **named)
    self._num_workers = %d  # which no option of another SDK's pipeline says
FnApiRunner.__init__ = with_workers
local_job_service_main.run(sys.argv[1:])`
	var want *gate.Calibration
	took := map[int][]float64{}
	for turn := range turns {
		for _, n := range []int{1, 2} {
			*jobopts.Endpoint = jobService(t, python, "-c", fmt.Sprintf(script, n), "-p", "PORT")
			workers := newPool(t)
			workers.pinned = true
			*jobopts.EnvironmentType, *jobopts.EnvironmentConfig = "EXTERNAL", workers.address
			address := "file://" + t.TempDir()
			s, err := objects.Open(t.Context(), address)
			if err != nil {
				t.Fatal(err)
			}
			of, asked, err := calibrate.Export(t.Context(), s, in, (in.Contexts.Rows+3)/4)
			if err := errors.Join(err, s.Close()); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			got, _, err := Calibrate(t.Context(), newEngine(t), address, of, asked,
				CalibrateOptions{Runner: "universal", Step: (in.Queries.Rows + 3) / 4, Exact: true})
			if err != nil {
				t.Fatal(err)
			}
			took[n] = append(took[n], time.Since(began).Seconds())
			if want == nil {
				want = got
			}
			same(t, fmt.Sprintf("%d workers", n), want, got)
			t.Logf("turn %d: %d workers %.2f s, %d processes", turn, n, took[n][turn], workers.started)
		}
	}
	slices.Sort(took[1])
	slices.Sort(took[2])
	t.Logf("medians of %d: one worker %.2f s, two %.2f s", turns, took[1][turns/2], took[2][turns/2])
}

// mixtureInput draws contexts around 64 topics, and questions whose cosine with their own contexts is .5 to .9.
func mixtureInput(contexts, questions int) gate.Input {
	const dim, topics, block = 384, 64, 1 << 12
	in := gate.Input{Encoder: identity.Encoder{Name: "mixture", Digest: "mixture", Dim: dim}, Tool: "test", Seed: 1,
		Holdout: .2, Contexts: engine.Vectors{Rows: contexts, Dim: dim, Data: make([]float32, contexts*dim)},
		Queries: engine.Vectors{Rows: questions, Dim: dim, Data: make([]float32, questions*dim)}}
	near := func(rng *rand.Rand, out, of []float32, share float64) { // share·of + noise, of length 1
		noise, sum := make([]float64, dim), 0.
		for i := range noise {
			noise[i] = rng.NormFloat64()
			sum += noise[i] * noise[i]
		}
		rest, length := math.Sqrt((1-share*share)/sum), 0.
		for i := range noise {
			noise[i] = noise[i]*rest + share*float64(of[i])
			length += noise[i] * noise[i]
		}
		for i := range noise {
			out[i] = float32(noise[i] / math.Sqrt(length))
		}
	}
	centres := make([]float32, topics*dim)
	rng := rand.New(rand.NewPCG(47, 0))
	for i := range topics {
		near(rng, centres[i*dim:], centres, 0)
	}
	blocks := func(n int, draw func(rng *rand.Rand, i int)) {
		var all sync.WaitGroup
		for at := 0; at < n; at += block {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(48, uint64(at+n)))
				for i := at; i < min(n, at+block); i++ {
					draw(rng, i)
				}
			})
		}
		all.Wait()
	}
	blocks(contexts, func(rng *rand.Rand, i int) {
		near(rng, in.Contexts.Data[i*dim:], centres[rng.IntN(topics)*dim:], .6)
	})
	for i := range questions {
		in.Owner = append(in.Owner, int32(i%contexts))
	}
	blocks(questions, func(rng *rand.Rand, i int) {
		near(rng, in.Queries.Data[i*dim:], in.Contexts.Data[int(in.Owner[i])*dim:], .5+.4*rng.Float64())
	})
	for i := range contexts {
		in.ContextIDs = append(in.ContextIDs, fmt.Sprintf("c%d", i))
		in.TextDigests = append(in.TextDigests, fmt.Sprintf("%064x", i*2654435761))
	}
	return in
}
