package statistics

import (
	"math/rand/v2"
	"testing"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/device/devicetest"
	"github.com/sluice-rag/sluice/engine/internal/testvectors"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// testEngine computes as an engine does.
type testEngine struct{ r device.Resources }

func newTestEngine(t testing.TB, tileRows int) *testEngine {
	t.Helper()
	k, err := cpu.Open("")
	if err != nil {
		t.Fatal(err)
	}
	return &testEngine{device.Resources{Device: devicetest.Open(k), Host: k,
		Pool:     &workers.Pool{Budget: cores.New(1), Threads: 1},
		MemLimit: 1 << 30, TileRows: tileRows}}
}

func partInput(bins int) distribution.Input {
	rng := rand.New(rand.NewPCG(51, 0))
	in := distribution.Input{Contexts: testvectors.Embeddings(rng, 500, 24),
		Queries:   testvectors.Embeddings(rng, 700, 24),
		Quantiles: testvectors.Quantiles(), Bins: bins}
	for range in.Queries.Rows {
		in.Owner = append(in.Owner, rng.Int32N(500))
	}
	return in
}
