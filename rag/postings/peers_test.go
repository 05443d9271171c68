package postings

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
	"github.com/sluice-rag/sluice/kernels"
)

var peers = flag.String("peers", "", "a Python with bm25s, numba and tantivy, to compare with; some minutes, 6 GB")

// TestPeers compares BM25 over a million rows (squad16's contexts again and again) with bm25s and tantivy: queries a
// second of CPU time, all three in turns and on one thread, and the scores of the ten best.
func TestPeers(t *testing.T) {
	if *peers == "" {
		t.Skip("SKIP: go test ./rag/postings -run Peers -peers PYTHON -v")
	}
	const rows, k, rounds = 1_000_000, 10, 7
	contexts, questions := datasets.Texts(t, "squad16/contexts.jsonl"), datasets.Texts(t, "squad16/queries.jsonl")
	var some []string
	for i := 0; i < len(questions); i += 12 {
		some = append(some, questions[i])
	}
	dir := t.TempDir()
	writeTerms(t, filepath.Join(dir, "terms_contexts.txt"), contexts)
	writeTerms(t, filepath.Join(dir, "terms_queries.txt"), some)
	if err := os.Mkdir(filepath.Join(dir, "tantivy"), 0o700); err != nil {
		t.Fatal(err)
	}
	var l library
	for i := range rows {
		l = append(l, Document{Text: contexts[i%len(contexts)], Language: "en"})
	}
	began := time.Now()
	x := index(t, l, never)
	t.Logf("%d rows, %d terms, made in %.1f s on one thread", rows, x.segments[0].terms(), time.Since(began).Seconds())

	cmd := exec.Command(*peers, "testdata/peers.py", dir, fmt.Sprint(rows), fmt.Sprint(k))
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "NUMBA_NUM_THREADS=1", "OMP_NUM_THREADS=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	t.Log(strings.TrimSpace(first))

	type answer struct {
		Seconds float64
		Scores  [][]float64
	}
	ask := map[string]func() answer{"sluice": func() (a answer) {
		began := processorTime(t)
		for _, text := range some {
			q, err := x.Query(text, Scoring{Kind: BM25, K1: 1.2})
			if err != nil {
				t.Fatal(err)
			}
			hits, err := q.TopK(t.Context(), k, nil)
			if err != nil {
				t.Fatal(err)
			}
			a.Scores = append(a.Scores, scoresOf(hits))
		}
		a.Seconds = (processorTime(t) - began).Seconds()
		return a
	}}
	for _, peer := range []string{"bm25s", "tantivy"} {
		ask[peer] = func() (a answer) {
			fmt.Fprintln(in, peer)
			line, err := lines.ReadString('\n')
			if err == nil {
				err = json.Unmarshal([]byte(line), &a)
			}
			if err != nil {
				t.Fatal(peer, err)
			}
			return a
		}
	}
	seconds, last := map[string][]float64{}, map[string]answer{}
	for range rounds {
		for _, name := range []string{"sluice", "bm25s", "tantivy"} {
			last[name] = ask[name]()
			seconds[name] = append(seconds[name], last[name].Seconds)
		}
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	for name, unit := range map[string]float64{"sluice": 1, "bm25s": 1 / 2.2, "tantivy": 1} {
		s := slices.Sorted(slices.Values(seconds[name]))
		worst := 0.
		for i, scores := range last[name].Scores {
			for j, want := range last["sluice"].Scores[i] {
				if want > 0 {
					worst = max(worst, math.Abs(scores[j]/unit/want-1))
				}
			}
		}
		t.Logf("%-8s %7.0f queries/s of CPU time (median of %d rounds; %.0f to %.0f), scores differ by %.1e at most", name,
			float64(len(some))/s[len(s)/2], rounds, float64(len(some))/s[len(s)-1], float64(len(some))/s[0], worst)
	}
}

// processorTime is what this process has used, so that other processes disturb the comparison little.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func scoresOf(hits []kernels.Hit) (scores []float64) {
	for _, h := range hits {
		scores = append(scores, h.Score)
	}
	return scores
}

func writeTerms(t *testing.T, name string, texts []string) {
	t.Helper()
	var b strings.Builder
	for _, text := range texts {
		b.WriteString(strings.Join(For("en").Terms(text), " ") + "\n")
	}
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}
