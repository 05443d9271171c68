//go:build native

// Package e2e tests the binary as people's pipelines use it: real models, real processes, real kills.
package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is bin/sluice as `make build` leaves it, or $SLUICE_BIN.
func binary(t *testing.T) string {
	t.Helper()
	bin := os.Getenv("SLUICE_BIN")
	bin = cmp.Or(bin, "../../bin/sluice")
	bin, err := filepath.Abs(bin)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(bin); err != nil {
		t.Skipf("no binary to test: %v (run make build)", err)
	}
	return bin
}

// run executes the binary and returns its standard output; a failure shows standard error.
func run(t *testing.T, bin string, args ...string) []byte {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, stderr.String())
	}
	return stdout.Bytes()
}

// TestKilledIngestKeepsWhatItCommitted kills `ingest` with SIGKILL at random moments, over and over
// on one growing store: it must open each time and hold every id that was ever printed as committed.
func TestKilledIngestKeepsWhatItCommitted(t *testing.T) {
	bin := binary(t)
	kills := 8
	if s := os.Getenv("SLUICE_KILL_ROUNDS"); s != "" {
		var err error
		if kills, err = strconv.Atoi(s); err != nil {
			t.Fatalf("SLUICE_KILL_ROUNDS=%q: %v", s, err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d, %d kills", seed, kills)

	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	promised := map[string]bool{}
	killed, round := 0, 0
	for ; killed < kills && round < 4*kills; round++ {
		corpus := filepath.Join(dir, fmt.Sprintf("round%d.jsonl", round))
		writeCorpus(t, corpus, round, 600)
		ids, ended := ingestAndKill(t, bin, store, corpus, time.Duration(rng.Int64N(int64(2*time.Second))))
		for _, id := range ids {
			promised[id] = true
		}
		if !ended {
			killed++
		}
		if len(promised) > 0 {
			missing := missingIDs(t, bin, store, promised)
			if len(missing) > 0 {
				t.Fatalf("round %d: %d of %d committed ids are gone, first %q", round, len(missing), len(promised),
					missing[0])
			}
		}
	}
	if killed < kills {
		t.Fatalf("only %d of %d rounds were killed before they ended, %d wanted", killed, round, kills)
	}
	t.Logf("%d of %d rounds killed, %d ids promised, all present each time", killed, round, len(promised))
}

func writeCorpus(t *testing.T, path string, round, lines int) {
	t.Helper()
	var b bytes.Buffer
	for i := range lines {
		fmt.Fprintf(&b, `{"id":"r%d-%d","text":"Entry %d of round %d says that box %d holds %d marbles."}`+"\n", round,
			i, i, round, i, i*7+round)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// ingestAndKill starts an ingest and kills it after delay, counted from the first committed line in
// every second call on average (so that kills fall both into loading and into writing).
func ingestAndKill(t *testing.T, bin, store, corpus string, delay time.Duration) (ids []string, ended bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, "ingest", "--store", store, "--no-chunk", "--json", "--commit-every", "16",
		corpus)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	kill := func() { once.Do(func() { cmd.Process.Signal(syscall.SIGKILL) }) }
	timer := time.AfterFunc(delay, kill)
	defer timer.Stop()
	sc := bufio.NewScanner(out)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var line struct{ Committed []string }
		if err := json.Unmarshal(sc.Bytes(), &line); err != nil {
			break // a torn last line: its ids were not printed
		}
		ids = append(ids, line.Committed...)
	}
	io.Copy(io.Discard, out)
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Sys().(syscall.WaitStatus).Signaled() {
		return ids, false
	}
	if err != nil {
		t.Fatalf("ingest failed on its own: %v\n%s", err, stderr.String())
	}
	return ids, true
}

func missingIDs(t *testing.T, bin, store string, promised map[string]bool) (missing []string) {
	t.Helper()
	held := map[string]bool{}
	sc := bufio.NewScanner(bytes.NewReader(run(t, bin, "docs", "list", "--store", store, "--chunks", "--json")))
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		var chunk struct{ ID string }
		if err := json.Unmarshal(sc.Bytes(), &chunk); err != nil {
			t.Fatal(err)
		}
		held[chunk.ID] = true
	}
	for id := range promised {
		if !held[id] {
			missing = append(missing, id)
		}
	}
	return missing
}
