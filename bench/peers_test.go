package bench

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/bench/peers"
	"github.com/sluice-rag/sluice/internal/fetch"
)

func TestMissingPrograms(t *testing.T) {
	s := quiet(t)
	for _, l := range libraries() {
		if _, err := s.command(l); !errors.Is(err, ErrPeer) || !strings.Contains(err.Error(), l.name) ||
			!strings.Contains(err.Error(), setUpHint) {
			t.Errorf("%s: %v", l.name, err)
		}
	}
}

// TestRealPeers runs the libraries themselves where they are set up.
func TestRealPeers(t *testing.T) {
	root, err := fetch.Root()
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Workload: "all", Short: true, Rounds: 1, Cache: t.TempDir(),
		Peers: []string{"numpy", "faiss", "gonum", "gorgonia", "vek", "chromem"}}
	for _, program := range []string{pythonProgram, goProgram} {
		if _, err := exec.LookPath(root + "/" + program); err != nil {
			t.Skipf("the peers are not set up: %v; %s", err, setUpHint)
		}
	}
	report, err := Compute(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, r := range report.Rows {
		if r.Impl == Own {
			continue
		}
		count[r.Workload]++
		worst := map[string]float64{"w1": sameTable, "w2": sameBins, "w3": 0, "w4": 0, "matrix": sameScores}[r.Workload]
		if r.MaxError > worst {
			t.Errorf("%+v", r)
		}
	}
	for w, n := range map[string]int{"w1": 1, "w2": 1, "w3": 7, "w4": 5, "matrix": 4} {
		if count[w] < n {
			t.Errorf("%s has %d rows of peers, at least %d expected; %q", w, count[w], n, report.Notes)
		}
	}
	if len(report.Ratios) == 0 || report.Versions["numpy"] == "" || report.Versions["gonum.org/v1/gonum"] == "" {
		t.Errorf("%d ratios, versions %v", len(report.Ratios), report.Versions)
	}
}

// TestStatisticsOfPeers compares the two ways to quantiles of peers/tables.py with np.quantile, and makes the
// second one's brackets miss.
func TestStatisticsOfPeers(t *testing.T) {
	s := quiet(t, func(o *Options) { o.Python = realPython(t) })
	if _, err := s.command(libraries()[0]); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(s.scripts)
	const script = `
import numpy as np, tables
rng, q = np.random.default_rng(3), [0, .05, .25, .5, .75, .95, 1]
for n, k in ((2, 1), (3, 2), (40, 3), (260, 3)):
    scores = rng.standard_normal((n, n * k)).astype(np.float32)
    scores[:, ::3] = np.round(scores[:, ::3], 1)  # ties
    cube, i = scores.reshape(n, n, k), np.arange(n)
    own = cube[i, i].copy()
    others = scores[~np.repeat(np.eye(n, dtype=bool), k, axis=1)].astype(np.float64)
    want = np.quantile(others, q)
    usual = tables.brackets
    miss = lambda s, q: [(9, 9)] * 5
    for way, brackets in ((tables.by_sort, usual), (tables.by_brackets, usual), (tables.by_brackets, miss)):
        tables.brackets = brackets
        got_own, got = way(scores.copy(), k, q)
        assert (got_own == own).all() and np.allclose(got, want, rtol=0, atol=1e-12), (n, k, way, got, want)
print("ok")
`
	cmd := exec.Command(s.o.Python, "-c", script)
	cmd.Env = append(peers.Environment(3), "PYTHONPATH="+s.scripts)
	if text, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(text)) != "ok" {
		t.Errorf("%v: %s", err, text)
	}
}

// realPython returns the peers' interpreter.
func realPython(t *testing.T) string {
	t.Helper()
	root, err := fetch.Root()
	if err != nil {
		t.Fatal(err)
	}
	path, err := exec.LookPath(filepath.Join(root, pythonProgram))
	if err != nil {
		t.Skipf("SKIP: the peers are not set up: %v; %s", err, setUpHint)
	}
	return path
}
