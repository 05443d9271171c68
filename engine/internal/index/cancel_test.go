package index

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/device/devicetest"
	"github.com/sluice-rag/sluice/engine/internal/testvectors"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels"
)

// watched returns the resources with a device whose calls a watch counts.
func watched(r *device.Resources, w *devicetest.Watch) *device.Resources {
	with := *r
	with.Device = w.Device(r.Device)
	return &with
}

// TestCancelledAtAnyMoment ends the context at looks and calls all over each operation of an index, and counts what is
// done after that.
func TestCancelledAtAnyMoment(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	r := resources(t, "")
	v, q := testvectors.Embeddings(rng, 12_000, 40), testvectors.Embeddings(rng, 70, 40)
	x := grown(t, r, v, kernels.Cosine)
	file := saved(t, x)
	var list kernels.BiasList
	for row := 1; row < v.Rows; row += 2 {
		list = append(list, kernels.Bias{Row: row, Value: .1})
	}
	biases := make([]kernels.Biases, q.Rows)
	for i := range biases {
		biases[i] = list
	}
	on := func(w *devicetest.Watch) *Index { // the same index, on the watched device
		y := empty(watched(r, w), x.metric, x.options)
		y.now.Store(x.now.Load())
		return y
	}
	for name, run := range map[string]func(context.Context, *devicetest.Watch) error{
		"new": func(ctx context.Context, w *devicetest.Watch) error {
			_, err := New(ctx, watched(r, w), v, kernels.L2, Options{})
			return err
		},
		"append": func(ctx context.Context, w *devicetest.Watch) error { return on(w).Append(ctx, v) },
		"save":   func(ctx context.Context, w *devicetest.Watch) error { return on(w).Save(ctx, io.Discard) },
		"load": func(ctx context.Context, w *devicetest.Watch) error {
			_, err := Load(ctx, watched(r, w), bytes.NewReader(file), int64(len(file)), v, Options{})
			return err
		},
		"search": func(ctx context.Context, w *devicetest.Watch) error {
			_, err := on(w).TopK(ctx, q, 5, nil)
			return err
		},
		"decide": func(ctx context.Context, w *devicetest.Watch) error {
			_, err := on(w).AnyAboveAll(ctx, q, biases, .99)
			return err
		},
		"one query": func(ctx context.Context, w *devicetest.Watch) error {
			_, _, err := on(w).Max(ctx, q.Data[:q.Dim], list)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			const threads = 2
			moments := 12
			if race.Enabled {
				moments = 3
			}
			all := devicetest.NewWatch(0, false)
			if err := run(all.Context(t.Context()), all); err != nil {
				t.Fatal(err)
			}
			events := all.Count().Events
			for i := range moments {
				at := 1 + (i*events+rng.IntN(events))/(moments+1)
				w := devicetest.NewWatch(at, false)
				err := run(w.Context(t.Context()), w)
				got := w.Count()
				if err == nil && got.Events <= at {
					continue // threads share the work out anew each time
				}
				if !errors.Is(err, context.Canceled) || got.CallsAfter > 2*threads || got.LooksAfter > 6*threads {
					t.Errorf("cancelled at event %d of %d: %+v, %v", at, events, got, err)
				}
			}
		})
	}
}

// TestStretches: whatever goes over many rows looks at the context on the way.
func TestStretches(t *testing.T) {
	race.Skip(t)
	const rows = 3*workers.Stretch + 5
	rng := rand.New(rand.NewPCG(3, 4))
	w := devicetest.NewWatch(0, true)
	ctx, r := w.Context(t.Context()), resources(t, "")
	r.Pool = &workers.Pool{Budget: cores.New(1), Threads: 1} // all looks come from below the caller
	v := testvectors.Embeddings(rng, rows, 4)
	x, err := New(ctx, r, v, kernels.L2, Options{Clusters: 16})
	if err != nil {
		t.Fatal(err)
	}
	var list kernels.BiasList
	for row := range rows {
		list = append(list, kernels.Bias{Row: row, Value: .5})
	}
	for _, row := range []int{1, rows - 1} {
		if err := x.Delete(row); err != nil {
			t.Fatal(err)
		}
	}
	var file bytes.Buffer
	if err := x.Save(ctx, &file); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(ctx, r, &file, int64(file.Len()), v, Options{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := x.Max(ctx, v.Data[:4], list); err != nil {
		t.Fatal(err)
	}
	stages := []string{"digest", "list", "putList", "listOf"}
	if x.Describe().Reason == "" {
		stages = append(stages, "pick", "normalise", "covariance", "orthonormalise", "order", "Sort", "cut", "block",
			"eachPart", "places")
	}
	for _, stage := range stages {
		if got := w.Looks(stage); got < 4 {
			t.Errorf("%s went over %d rows with %d looks at the context", stage, rows, got)
		}
	}
}
