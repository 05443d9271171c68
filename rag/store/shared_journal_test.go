package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/postgres"
)

// journalLines reads a journal from a place on.
func journalLines(t *testing.T, j *Journal, after int64) (lines []string, last int64) {
	t.Helper()
	last = after
	if err := j.Read(t.Context(), after, func(place int64, line []byte) error {
		if place <= last {
			t.Errorf("place %d comes after %d", place, last)
		}
		lines, last = append(lines, string(line)), place
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return lines, last
}

// What two processes write into a journal is one list, in an order that a reader who reads on sees, too; the oldest
// lines go.
func TestSharedJournal(t *testing.T) {
	ctx, server, root := context.Background(), postgres.Start(t), fastDir(t)
	url := server.URL()
	var journals [2]*Journal
	for i, name := range []string{"a", "b"} {
		_, r := openShared(t, url, filepath.Join(root, name))
		journals[i] = r.Journal("notes", 3000)
	}
	var writing sync.WaitGroup
	for i, j := range journals {
		writing.Go(func() {
			for k := range 40 {
				j.Add(fmt.Sprintf("key%d", k), fmt.Appendf(nil, `{"of":%d,"n":%d}`, i, k))
				if err := j.Flush(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var got []string
	place := int64(0)
	for len(got) < 80 {
		var more []string
		more, place = journalLines(t, journals[0], place)
		got = append(got, more...)
	}
	writing.Wait()
	if all, last := journalLines(t, journals[1], 0); !slices.Equal(all, got) || last != place {
		t.Errorf("read on: %d lines to %d; at once: %d to %d", len(got), place, len(all), last)
	}
	if line, err := journals[0].Find(ctx, "key7"); err != nil || !strings.HasSuffix(string(line), `"n":7}`) {
		t.Errorf("%s, %v", line, err)
	}
	if _, err := journals[0].Find(ctx, "none"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	long := `{"text":"` + strings.Repeat("x", 3000) + `"}`
	for range 3 { // the same batch again, as after an answer that got lost, is there once
		if err := journals[1].write(ctx, []journalEntry{{"id", "long", []byte(long)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := journals[0].Append(ctx, "long", []byte(long)); err != nil {
		t.Fatal(err)
	}
	if lines, _ := journalLines(t, journals[0], place); !slices.Equal(lines, []string{long}) {
		t.Errorf("%d lines of 3 kB are left", len(lines))
	}
	for _, j := range journals {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
}

// While the database is away, lines wait up to a limit; those beyond it, and those that it refuses, are counted.
func TestSharedJournalWaits(t *testing.T) {
	ctx, server, root := context.Background(), postgres.Start(t), fastDir(t)
	_, r := openShared(t, server.URL(), filepath.Join(root, "a"))
	j := r.Journal("notes", 1<<30)
	server.Kill()
	text := []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
	for range 20 {
		j.Add("key", text)
	}
	if err := j.Flush(ctx); !errors.Is(err, ErrAway) {
		t.Errorf("the database is away: %v", err)
	}
	if n := r.Status().Dropped; n != 5 {
		t.Errorf("%d of 20 MiB are dropped", n)
	}
	server.Run()
	if err := j.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if lines, _ := journalLines(t, j, 0); len(lines) != 15 {
		t.Errorf("%d lines have waited", len(lines))
	}
	j.Add("key", []byte("no JSON"))
	if err := errors.Join(j.Flush(ctx), j.Close()); err == nil && r.Status().Dropped != 6 {
		t.Errorf("%d lines are dropped", r.Status().Dropped)
	}
	j.Add("key", text)
	if n := r.Status().Dropped; n != 7 {
		t.Errorf("%d lines are dropped, one after Close", n)
	}
}
