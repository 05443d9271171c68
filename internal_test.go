package sluice

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/internal/manifest"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/pseudo"
	"github.com/sluice-rag/sluice/rag/retrieve"
	thirdparty "github.com/sluice-rag/sluice/third_party"
)

func TestIdle(t *testing.T) {
	for _, c := range []struct {
		loadavg     string
		cpus, limit int
		want        int
	}{
		{"0.10 0.20 0.30 1/250 4242", 2, 2, 2},  // nobody else
		{"21.7 17.8 11.7 19/249 813", 2, 2, 1},  // crowded
		{"0.10 0.20 0.30 2/250 4242", 8, 8, 7},  // one other
		{"0.10 0.20 0.30 5/250 4242", 64, 4, 4}, // a busy host, but room for this container
		{"0.10 0.20 0.30 0/250 4242", 2, 2, 2},  // a kernel that does not count
		{"nonsense", 2, 2, 2}, {"a b c d", 2, 2, 2}, {"", 1, 1, 1},
	} {
		if got := idle(c.loadavg, c.cpus, c.limit); got != c.want {
			t.Errorf("%q on %d CPUs, at most %d: %d, want %d", c.loadavg, c.cpus, c.limit, got, c.want)
		}
	}
}

func TestBestMergesLists(t *testing.T) {
	lists := [][]retrieve.Result{{{ID: "a", Score: .9}, {ID: "b", Score: .5}}, {{ID: "c", Score: .9}, {ID: "b", Score: .7}}}
	want := []retrieve.Result{{ID: "a", Score: .9}, {ID: "c", Score: .9}, {ID: "b", Score: .7}}
	if diff := cmp.Diff(want, best(lists, kernels.Cosine, 5)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]retrieve.Result{{ID: "b", Score: .5}, {ID: "a", Score: .9}}, best(lists, kernels.L2, 2)); diff != "" {
		t.Error("distances:", diff)
	}
	if got := best(nil, kernels.Cosine, 3); got == nil || len(got) != 0 {
		t.Error("an empty list must be [] in JSON")
	}
}

func TestSampleKeepsWholeContextsInOrder(t *testing.T) {
	var queries []pseudo.Query
	for _, id := range []string{"a", "a", "b", "c", "c", "d"} {
		queries = append(queries, pseudo.Query{ContextID: id, Text: id})
	}
	kept := sample(queries, 2, 7)
	if diff := cmp.Diff(kept, sample(queries, 2, 7)); diff != "" {
		t.Error("equal seeds differ:", diff)
	}
	count := map[string]int{}
	for i, q := range kept {
		count[q.ContextID]++
		if i > 0 && kept[i-1].ContextID > q.ContextID {
			t.Error("order changed")
		}
	}
	for id, n := range count {
		if whole := map[string]int{"a": 2, "b": 1, "c": 2, "d": 1}[id]; n != whole {
			t.Errorf("%d of %d queries of %s", n, whole, id)
		}
	}
	if len(count) != 2 || len(sample(queries, 9, 7)) != 6 {
		t.Errorf("%v", count)
	}
}

// TestDefaultsAreTheManifests keeps the names here and in the manifest the same.
func TestDefaultsAreTheManifests(t *testing.T) {
	m, err := manifest.Parse(thirdparty.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	for kind, name := range map[manifest.Kind]string{manifest.Encoder: DefaultEncoder, manifest.Generator: DefaultModel} {
		if got, ok := m.DefaultModel(kind); !ok || got.Name != name {
			t.Errorf("%s: %q, the manifest has %q", kind, name, got.Name)
		}
	}
}

func TestMeterCountsBytesOfFilesAndLines(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "b.txt")
	for path, size := range map[string]int{a: 100, b: 50} {
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := newMeter([]string{dir, filepath.Join(dir, "gone")})
	var got []int64
	for _, c := range []struct {
		source string
		end    int
	}{{a + ":1", 30}, {a + ":2", 100}, {b, 20}, {b, 50}, {b, 1000}} {
		got = append(got, m.position(c.source, c.end))
	}
	if diff := cmp.Diff([]int64{30, 100, 120, 150, 150}, got); diff != "" || m.total != 150 {
		t.Errorf("%s, total %d", diff, m.total)
	}
}
