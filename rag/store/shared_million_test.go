package store

import (
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/test/postgres"
	"github.com/sluice-rag/sluice/kernels"
)

// TestSharedMillion measures a shared store of SLUICE_STORE_ROWS chunks × 384 beside one in a folder, as
// TestMillionRows does: commits of 10,000 chunks in turns, how long a replica takes from nothing and from what it has,
// memory, and decisions (engine.AnyAbove over a view, no chunk is above) in turns. It logs each number as it has it:
// SLUICE_STORE_ROWS=1000000 go test ./rag/store -run TestSharedMillion -v -timeout 60m.
func TestSharedMillion(t *testing.T) {
	rows, err := strconv.Atoi(os.Getenv("SLUICE_STORE_ROWS"))
	if err != nil {
		t.Skip("SKIP: SLUICE_STORE_ROWS is not set: it names the number of chunks")
	}
	url, root := postgres.Start(t).URL(), t.TempDir()
	opened := func(name string, shared bool) *Store {
		t.Helper()
		o := Options{Create: true, Encoder: &benchEncoder}
		dir := filepath.Join(root, name)
		if shared {
			o.Shared = NewShared(url, root, slog.Default())
			o.Shared.dir = dir
			t.Cleanup(func() { o.Shared.Close() })
		}
		s, err := Open(t.Context(), dir, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	both := []*Store{opened("folder", false), opened("shared", true)}
	var ratios []float64
	for round := range rows / 10_000 {
		b := benchBatch(round, 10_000)
		var took [2]time.Duration
		for i, s := range both {
			began := time.Now()
			mustCommit(t, s, b)
			took[i] = time.Since(began)
		}
		ratios = append(ratios, took[1].Seconds()/took[0].Seconds())
		if round%10 == 0 || round == rows/10_000-1 {
			t.Logf("commit of 10,000 after %d: folder %.2f s, shared %.2f s", round*10_000, took[0].Seconds(),
				took[1].Seconds())
		}
	}
	slices.Sort(ratios)
	t.Logf("shared takes %.2f times as long, median of %d", ratios[len(ratios)/2], len(ratios))
	for _, from := range []string{"nothing", "its replica"} {
		began := time.Now()
		s := opened("new", true)
		opening := time.Since(began)
		v, err := s.View(t.Context())
		if err != nil || v.Count() != rows {
			t.Fatal(v, err)
		}
		anonymous, mapped := million{t: t}.memory()
		t.Logf("from %s: open %.2f s, and to a view %.2f s; the process has %.0f MiB, and %.0f MiB of files", from,
			opening.Seconds(), time.Since(began).Seconds(), anonymous, mapped)
		v.Close()
	}
	decisionsOf(t, both)
}

// decisionsOf logs how long decisions over each store take, in turns.
func decisionsOf(t *testing.T, both []*Store) {
	t.Helper()
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const rounds = 300
	took, rng := make([][]float64, len(both)), rand.New(rand.NewPCG(47, 6))
	query := make([]float32, benchEncoder.Dim)
	for round := range rounds + 2 { // two to read the files
		for i := range query {
			query[i] = rng.Float32() - .5
		}
		for i, s := range both {
			v, err := s.View(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_, above, err := e.AnyAbove(t.Context(), query, v.Vectors, kernels.Cosine, nil, .9)
			if err != nil || above {
				t.Fatal(above, err)
			}
			if round >= 2 {
				took[i] = append(took[i], time.Since(began).Seconds()*1e3)
			}
			v.Close()
		}
	}
	for i, name := range []string{"folder", "shared"} {
		slices.Sort(took[i])
		t.Logf("%s: a decision takes %.2f ms, p99 %.2f ms", name, took[i][rounds/2], took[i][rounds*99/100])
	}
	t.Logf("shared takes %.3f times as long", took[1][rounds/2]/took[0][rounds/2])
}
