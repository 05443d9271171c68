package gate

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

var update = flag.Bool("update", false, "rewrite testdata/calibration-*.json; only on amd64")

// exactVectors replaces the vectors of in by values without rounding, so that they are the same on every machine.
func exactVectors(in *Input, groups int) {
	rng := rand.New(rand.NewPCG(3, 9))
	noise := func() float32 { return float32(rng.IntN(513)-256) / 1024 }
	dim := in.Contexts.Dim
	in.Contexts.Data, in.Queries.Data = nil, nil
	for i := range in.Contexts.Rows {
		context := make([]float32, dim)
		for k := range context {
			context[k] = noise() + noise()
		}
		context[i%groups]++
		in.Contexts.Data = append(in.Contexts.Data, context...)
		for range in.Queries.Rows / in.Contexts.Rows {
			for _, x := range context {
				in.Queries.Data = append(in.Queries.Data, x+noise()+noise())
			}
		}
	}
}

// TestSameBitsEverywhere: a calibration made on amd64 has the same bits on every architecture and instruction set, the
// statistics in Go included (Go fuses products and sums on arm64).
func TestSameBitsEverywhere(t *testing.T) {
	for _, metric := range []kernels.Metric{kernels.Cosine, kernels.IP, kernels.L2} {
		in := input(60, 4, 5, 8)
		in.Contexts.Dim, in.Queries.Dim, in.Encoder.Dim, in.Metric = 24, 24, 24, metric
		exactVectors(&in, 5)
		path := filepath.Join("testdata", "calibration-"+metric.String()+".json")
		if *update {
			write(t, path, calibrated(t, in, ""))
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, isa := range cpu.Available() {
			if diff := cmp.Diff(string(want), calibrated(t, in, isa.String())); diff != "" {
				t.Errorf("%s, %s: %s", metric, isa, diff)
			}
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// calibrated returns the artifact without the time and the device, and the similarities of D+.
func calibrated(t *testing.T, in Input, isa string) string {
	t.Helper()
	e, err := engine.New(engine.Options{Threads: 2, Device: engine.DeviceCPU, ISA: isa})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	c, positive, err := Calibrate(t.Context(), e, in)
	if err != nil {
		t.Fatal(err)
	}
	c.Created, c.Device, c.Kernel = time.Time{}, "", ""
	text, err := json.MarshalIndent(struct {
		Artifact *Calibration
		Positive []float64
	}{c, positive}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}
