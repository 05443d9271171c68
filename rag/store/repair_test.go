package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// again embeds chunks as batchOf did, and remembers which.
func again(asked *[]string) func(context.Context, []corpus.Chunk) ([]float32, error) {
	return func(_ context.Context, chunks []corpus.Chunk) (v []float32, err error) {
		for _, c := range chunks {
			*asked = append(*asked, c.ID)
			v = append(v, vectorOf(c.ID, 1, testDim)...)
		}
		return v, nil
	}
}

// A flipped byte of a vector costs the chunks of its block an embedding, wherever the block is, and no other chunk
// anything; the store is whole afterwards, for readers that were open too, and can be written to and compacted.
func TestRepairVectors(t *testing.T) {
	race.Skip(t)
	ctx := context.Background()
	for _, row := range []int64{3, 1500, 2099} {
		dir := t.TempDir()
		s := mustOpen(t, dir, testSeams())
		mustCommit(t, s, batchOf(1, testDim, ids("a", 2100)...))
		want := versions(1, ids("a", 2100)...)
		s.Close()
		patch(filepath.Join("segments", fmt.Sprintf("%06d.vec", row/1024)), headerSize+row%1024*testDim*4+7, 0x99)(t,
			dir)
		s = mustOpen(t, dir, testSeams())
		reader, err := Open(ctx, dir, Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		if v, err := s.View(ctx); err != nil || v.Damage == nil || v.Close() != nil {
			t.Fatal(err)
		}
		fail := errors.New("no encoder")
		if _, err := s.Repair(ctx,
			func(context.Context, []corpus.Chunk) ([]float32, error) { return nil, fail }); !errors.Is(err, fail) {
			t.Fatal(err)
		}
		var asked []string
		done, err := s.Repair(ctx, again(&asked))
		first := row / blockRows * blockRows
		n := min(blockRows, 2100-first)
		if err != nil || done.Blocks != 1 || int64(done.Chunks) != n || len(done.Lost) > 0 || int64(len(asked)) != n ||
			asked[0] != fmt.Sprintf("a/%d", first) {
			t.Fatalf("row %d: %+v of %d, %v", row, done, len(asked), err)
		}
		verify(t, s, want)
		verify(t, reader, want)
		if done, err := s.Repair(ctx, again(&asked)); err != nil || done.Blocks != 0 {
			t.Errorf("again: %+v %v", done, err)
		}
		mustCommit(t, s, batchOf(1, testDim, "b/0"))
		want["b/0"] = 1
		verify(t, s, want)
		if rows, err := s.Compact(ctx, 0); err != nil || rows != n {
			t.Errorf("compact: %d %v", rows, err)
		}
		verify(t, s, want)
	}
}

// A flipped byte of a text is not given out, and its chunk is not taken for known; a commit of it mends that and leaves
// the others as they are. With its vector damaged as well, the chunk goes, and its document is incomplete.
func TestRepairTexts(t *testing.T) {
	race.Skip(t)
	ctx := context.Background()
	dir := t.TempDir()
	s := mustOpen(t, dir, testSeams())
	b := batchOf(1, testDim, append(ids("a", 3), ids("c", 3)...)...)
	mustCommit(t, s, b)
	if _, err := s.write.Exec(`UPDATE texts SET text = replace(text, 'a/1', 'a/7') WHERE row = 1`); err != nil {
		t.Fatal(err)
	}
	var damage *TextError
	if _, err := s.Chunks(ctx, []string{"c/0", "a/1"}); !errors.As(err, &damage) || damage.Chunk != "a/1" ||
		damage.Source != "a.md" || !errors.Is(err, ErrCorrupt) {
		t.Errorf("read: %v", err)
	}
	if c, err := s.Chunks(ctx, []string{"a/0", "c/2"}); err != nil || len(c) != 2 {
		t.Errorf("others: %v", err)
	}
	for _, err := range s.DocumentChunks(ctx, "a") {
		if err != nil && !errors.As(err, &damage) {
			t.Error(err)
		}
	}
	if list, err := s.DamagedTexts(ctx); err != nil || len(list) != 1 || list[0].Chunk != "a/1" {
		t.Errorf("%v %v", list, err)
	}
	has, err := s.Has(ctx, []string{"a/0", "a/1"})
	if err != nil || has["a/0"] != b.Chunks[0].Digest() || has["a/1"] != "" {
		t.Errorf("%v %v", has, err)
	}
	known := Batch{Documents: b.Documents[:1], Known: b.Chunks[:3]}
	if _, err := s.Commit(ctx, known); !errors.Is(err, ErrNotFound) {
		t.Errorf("as known: %v", err)
	}
	mend := Batch{Documents: b.Documents[:1], Known: []corpus.Chunk{b.Chunks[0], b.Chunks[2]}, Chunks: b.Chunks[1:2],
		Vectors: vectorOf("a/1", 1, testDim), Replace: true}
	mustCommit(t, s, mend)
	want := versions(1, append(ids("a", 3), ids("c", 3)...)...)
	verify(t, s, want)

	if _, err := s.write.Exec(`UPDATE texts SET heading = 'changed' WHERE row = 4`); err != nil { // c/1
		t.Fatal(err)
	}
	s.Close()
	patch(filepath.Join("segments", "000000.vec"), headerSize+5*testDim*4+1, 0x55, 0xaa)(t, dir)
	s = mustOpen(t, dir, testSeams())
	var asked []string
	done, err := s.Repair(ctx, again(&asked))
	if err != nil || !slices.Equal(done.Lost, []string{"c/1"}) || done.Chunks != 5 {
		t.Fatalf("%+v %v", done, err)
	}
	delete(want, "c/1")
	verify(t, s, want)
	docs, err := s.Documents(ctx)
	if err != nil || docs[0].Partial || !docs[1].Partial {
		t.Errorf("%+v %v", docs, err)
	}
}
