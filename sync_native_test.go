//go:build native

package sluice_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/ingest"
)

// spent returns the wall time of f and the CPU time, which does not depend on the machine's load.
func spent(t *testing.T, f func() error) (wall, processor time.Duration) {
	t.Helper()
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	began, before := time.Now(), used()
	if err := f(); err != nil {
		t.Fatal(err)
	}
	return time.Since(began), used() - before
}

// TestSyncFigures syncs 1,000 files of squad16's contexts, of which 10 change, five times, and checks that only their
// chunks are embedded and that the calibration follows. The figures are in docs/adr/0017-ids-and-sync.md and
// 0004-distributions.md.
func TestSyncFigures(t *testing.T) {
	if !*figures {
		t.Skip("SKIP: a minute; go test . -run SyncFigures -figures -v prints the figures")
	}
	const files, changed, rounds = 1000, 10, 5
	dir := t.TempDir()
	folder, questions := filepath.Join(dir, "docs"), filepath.Join(dir, "questions.jsonl")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(i int, text string) {
		t.Helper()
		name := filepath.Join(folder, fmt.Sprintf("%04d.txt", i))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	var texts []string
	context := map[string]int{} // id → file, of the file's first half
	lines := datasets.Lines(t, "squad16/contexts.jsonl")
	for k, c := range lines {
		context[c.ID] = len(texts)
		if half := strings.IndexByte(c.Text[len(c.Text)/2:], ' ') + len(c.Text)/2; k < files-len(lines) {
			texts = append(texts, c.Text[:half], c.Text[half:])
		} else {
			texts = append(texts, c.Text)
		}
	}
	for i, text := range texts {
		write(i, text)
	}
	s, err := sluice.Open(t.Context(), sluice.Config{Store: filepath.Join(dir, "store"),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sync := func() (r ingest.Result, wall, processor time.Duration) {
		wall, processor = spent(t, func() error {
			r, err = s.Ingest(t.Context(), []string{folder}, ingest.Options{Sync: true})
			return err
		})
		t.Logf("sync: %d files read, %d chunks embedded: %v, %v of processor time", r.Read, r.Embedded, wall, processor)
		return r, wall, processor
	}
	ask := func() { // three questions about each first chunk, by the chunk's current id
		t.Helper()
		first := map[string]string{}
		for c, err := range s.Documents().AllChunks(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if _, again := first[c.Document]; !again {
				first[c.Document] = c.ID
			}
		}
		var b strings.Builder
		asked := map[string]int{}
		for _, q := range datasets.Lines(t, "squad16/queries.jsonl") {
			i, ok := context[q.ContextID]
			if asked[q.ContextID]++; !ok || asked[q.ContextID] > 3 {
				continue
			}
			text := q.Text
			if id := fmt.Sprintf("docs/%04d.txt", i); strings.HasPrefix(texts[i], "Now ") {
				text = "And now, " + text // as a language model would ask differently about another text
			} else if first[id] == "" {
				t.Fatalf("no chunk of %s", id)
			}
			_ = json.NewEncoder(&b).Encode(map[string]string{"context_id": first[fmt.Sprintf("docs/%04d.txt", i)],
				"text": text})
		}
		if err := os.WriteFile(questions, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	full, fullWall, fullSpent := sync()
	ask()
	var counted string
	calibrateWall, calibrateSpent := spent(t, func() error {
		in, err := os.Open(questions)
		if err != nil {
			return err
		}
		defer in.Close()
		r, err := s.Calibrate(t.Context(), calibrate.Options{Queries: in, Source: questions})
		if err == nil {
			counted = fmt.Sprintf("%d questions, %d pairs", r.Queries.Queries, r.Counted.Pairs)
		}
		return err
	})
	t.Logf("calibration: %s: %v, %v of processor time", counted, calibrateWall, calibrateSpent)
	if r, _, _ := sync(); r.Read != 0 || r.Embedded != 0 {
		t.Errorf("nothing has changed: %+v", r)
	}
	var wall, processor, followWall, followSpent [rounds]time.Duration
	for round := range rounds {
		for i := range changed {
			at := i*files/changed + 2*round
			texts[at] = "Now there is more to say. " + texts[at]
			write(at, texts[at])
		}
		var r ingest.Result
		r, wall[round], processor[round] = sync()
		if r.Read != changed || r.Sync.Changed != changed || r.Embedded == 0 || r.Embedded > full.Embedded/50 {
			t.Errorf("%+v %+v", r, r.Sync)
		}
		ask()
		followWall[round], followSpent[round] = spent(t, func() error {
			r, err := s.Calibrations().Follow(t.Context(), calibrate.Options{})
			if err == nil {
				counted = fmt.Sprintf("%d of %d pairs", r.Counted.Pairs, r.Counted.Of)
			}
			return err
		})
		t.Logf("calibration follows: %s: %v, %v of processor time", counted, followWall[round], followSpent[round])
	}
	median := func(list [rounds]time.Duration) time.Duration {
		slices.Sort(list[:])
		return list[rounds/2]
	}
	w, p, fw, fs := median(wall), median(processor), median(followWall), median(followSpent)
	share := func(a, b time.Duration) float64 { return 100 * float64(a) / float64(b) }
	t.Logf("medians of %d: sync of %d changed files: %.2f %% of a full ingest's wall time, %.2f %% of its processor time",
		rounds, changed, share(w, fullWall), share(p, fullSpent))
	t.Logf("calibration: %.1f %% of a full one's wall time, %.1f %% of its processor time; with the sync: %.1f %% and "+
		"%.1f %% of full ingest and calibration", share(fw, calibrateWall), share(fs, calibrateSpent),
		share(w+fw, fullWall+calibrateWall), share(p+fs, fullSpent+calibrateSpent))
}
