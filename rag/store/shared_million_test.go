package store

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/test/postgres"
)

// TestSharedMillion measures a shared store of SLUICE_STORE_ROWS chunks × 384 beside one in a folder, as
// TestMillionRows does: commits of 10,000 chunks in turns, and how long a replica takes from nothing.
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
		if round == 0 || round == rows/10_000-1 {
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
		t.Logf("from %s: open %.2f s, and to a view %.2f s", from, opening.Seconds(), time.Since(began).Seconds())
		v.Close()
	}
}
