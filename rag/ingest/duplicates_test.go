package ingest_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

// passage returns a text that shares no word with those of other numbers.
func passage(n int) string {
	words := strings.Fields("tide harbour cargo crew storm anchor lantern bridge river valley engine mountain winter " +
		"garden letter window morning silver market candle forest island copper basket ladder mirror needle orchard " +
		"pepper quarry ribbon saddle temple umbrella velvet wagon yellow zebra button castle dragon eagle feather")
	part := words[(n-1)*10 : n*10]
	return "The " + strings.Join(part, " and the ") + " were seen."
}

func write(t *testing.T, folder, name, text string) string {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDuplicatesAtIngest: copies in the same batch, in another one and in the store are kept, told of or dropped; a
// document that is replaced is no copy of itself, and one all of whose chunks are dropped is still there.
func TestDuplicatesAtIngest(t *testing.T) {
	for _, how := range []string{"", ingest.ReportDuplicates, ingest.DropDuplicates} {
		for _, every := range []int{1, 256} {
			b := doubles.NewBase(t, nil)
			folder := t.TempDir()
			for name, text := range map[string]string{"a.txt": passage(1), "b.txt": passage(2),
				"c.txt": strings.ToUpper(passage(1)) + "One more.", "d.txt": passage(1)} {
				modifiedAt(t, write(t, folder, name, text), time.Now().Add(-time.Hour))
			}
			var told []knowledge.Repeat
			o := ingest.Options{Chunk: "64/0", CommitEvery: every, Duplicates: how, Sync: true,
				OnDuplicate: func(x knowledge.Repeat) { told = append(told, x) }}
			run := func() ingest.Result {
				t.Helper()
				told = nil
				r, err := ingest.Run(t.Context(), b.Base, ingest.Input{Paths: []string{folder}, Options: o})
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			r := run()
			want := map[string][2]int{"": {4, 0}, ingest.ReportDuplicates: {4, 2}, ingest.DropDuplicates: {2, 2}}[how]
			if r.Documents != 4 || r.Chunks != want[0] || r.Duplicates != want[1] || len(told) != want[1] {
				t.Errorf("%q every %d: %+v, %+v", how, every, r, told)
			}
			for _, x := range told {
				if x.Cosine < .85 || x.Overlap < .6 || x.Of == "" || x.Of == x.ID {
					t.Errorf("%+v", x)
				}
			}
			if again := run(); again.Read != 0 || again.Sync.Unchanged != 4 {
				t.Errorf("%q every %d: not remembered: %+v %+v", how, every, again, again.Sync)
			}
			write(t, folder, "b.txt", passage(2)+"And a last word.")
			if r := run(); r.Chunks != 1 || r.Duplicates != 0 || r.Sync.Changed != 1 {
				t.Errorf("%q every %d: a changed document is a copy of itself: %+v", how, every, r)
			}
			st, err := b.Reader(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := st.Check(t.Context()); err != nil {
				t.Errorf("%q every %d: %v", how, every, err)
			}
		}
	}
	b := doubles.NewBase(t, nil)
	_, err := ingest.Run(t.Context(), b.Base, ingest.Input{Paths: []string{b.File(t, "a.txt", "Words.")},
		Options: ingest.Options{Duplicates: "merge"}})
	if !errors.Is(err, knowledge.ErrOption) {
		t.Error(err)
	}
}

// A document that goes in several commits has dropped chunks in each.
func TestDroppedOfALongDocument(t *testing.T) {
	b := doubles.NewBase(t, nil)
	put(t, b, "a.txt", passage(1)+"\n\n"+passage(2), ingest.Options{Chunk: "40/0"})
	text := passage(3) + "\n\n" + passage(1) + "\n\n" + passage(4) + "\n\n" + passage(2)
	r := put(t, b, "b.txt", text, ingest.Options{Chunk: "40/0", CommitEvery: 1, Duplicates: ingest.DropDuplicates})
	if r.Duplicates != 2 || r.Chunks != 2 || r.Commits != 4 || r.Documents != 1 {
		t.Errorf("%+v", r)
	}
}
