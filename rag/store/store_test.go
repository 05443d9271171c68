package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/corpus"
)

func TestCommitAndReadBack(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "a b?c#d%41", "store") // characters that a connection string must escape
	s := mustOpen(t, dir, testSeams())
	verify(t, s, nil)
	b := batchOf(1, testDim, "a/0", "a/1", "b/0")
	b.Chunks[0].Topic, b.Chunks[1].Topic = "t1", "t2"
	mustCommit(t, s, b)
	verify(t, s, versions(1, "a/0", "a/1", "b/0"))

	got, err := s.Chunks(ctx, []string{"b/0", "a/0", "b/0"})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]corpus.Chunk{b.Chunks[2], b.Chunks[0], b.Chunks[2]}, got); d != "" {
		t.Fatal(d)
	}
	if _, err := s.Chunks(ctx, []string{"a/0", "x/9"}); !errors.Is(err, ErrNotFound) ||
		!strings.Contains(err.Error(), "x/9") {
		t.Fatal(err)
	}
	if _, err := s.Chunks(ctx, []string{"x/8", "a/0"}); !errors.Is(err, ErrNotFound) ||
		!strings.Contains(err.Error(), "x/8") {
		t.Fatal(err)
	}
	has, err := s.Has(ctx, []string{"a/1", "nope", "a\xff", `"quoted"`})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"a/1": chunkOf("a/1", "a", 1, 1).Digest()}, has); d != "" {
		t.Fatal(d)
	}
	docs, err := s.Documents(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(docs) != 2 || docs[0].ID != "a" || docs[0].Chunks != 2 || docs[0].Tokens != 14 || docs[0].Meta["k"] != "a" ||
		docs[0].Source != "a.md" || docs[0].Title != "T a" || docs[1].ID != "b" || docs[0].Added == "" {
		t.Fatalf("%+v", docs)
	}
	v, done := liveOf(t, s)
	defer done()
	if d := cmp.Diff([]int32{0, 1, 2}, v.Groups); d != "" {
		t.Fatal(d)
	}
	var n int
	for range s.DocumentChunks(ctx, "a") {
		n++
		break // ending early is not an error
	}
	for range s.DocumentChunks(ctx, "a") {
		n++
	}
	if n != 3 {
		t.Fatal(n)
	}
}

func TestReopenKeepsEverything(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := mustOpen(t, dir, testSeams())
	mustCommit(t, s, batchOf(1, testDim, ids("a", 5)...))
	if err := s.SetMeta(ctx, "calibration", nil); err != nil {
		t.Fatal(err)
	}
	if err := s.SetMeta(ctx, "calibration", []byte("v\x00\xff")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(ctx, batchOf(1, testDim, "b/0")); err == nil {
		t.Fatal("a closed store committed")
	}
	for _, o := range []Options{{}, {ReadOnly: true}, {ReadOnly: true, Create: true},
		{Encoder: &testEncoder, Metric: kernels.L2}} {
		s, err := Open(ctx, dir, o)
		if err != nil {
			t.Fatal(err)
		}
		verify(t, s, versions(1, ids("a", 5)...))
		if s.Encoder() != testEncoder || s.Metric() != kernels.Cosine || s.Dir() != dir {
			t.Fatal(s.Encoder(), s.Metric(), s.Dir())
		}
		if m, err := s.Meta(ctx, "calibration"); err != nil || string(m) != "v\x00\xff" {
			t.Fatal(m, err)
		}
		if _, err := s.Meta(ctx, "other"); !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReplaceKeepAndDelete(t *testing.T) {
	ctx := context.Background()
	s := mustOpen(t, t.TempDir(), testSeams())
	mustCommit(t, s, batchOf(1, testDim, "a/0", "a/1", "a/2", "b/0"))
	first, _ := s.Documents(ctx)

	// Same text: the vector stays, the place follows.
	again := batchOf(1, testDim, "a/1")
	again.Vectors = make([]float32, testDim)
	again.Chunks[0].Start, again.Chunks[0].End, again.Chunks[0].Topic = 100, 200, "new"
	mustCommit(t, s, again)
	verify(t, s, versions(1, "a/0", "a/1", "a/2", "b/0"))
	if k, err := s.Chunks(ctx, []string{"a/1"}); err != nil || k[0].Start != 100 || k[0].Topic != "new" {
		t.Fatal(k, err)
	}

	// Other text for one, one unchanged, one not listed any more; the other document is left alone.
	b := batchOf(2, testDim, "a/0")
	b.Known = []corpus.Chunk{chunkOf("a/1", "a", 1, 7)}
	b.Replace = true
	mustCommit(t, s, b)
	want := map[string]int{"a/0": 2, "a/1": 1, "b/0": 1}
	verify(t, s, want)
	if k, err := s.Chunks(ctx, []string{"a/1"}); err != nil || k[0].Start != 70 || k[0].Topic != "" {
		t.Fatal(k, err)
	}
	if docs, _ := s.Documents(ctx); docs[0].Digest != "sha256:a2" || docs[0].ID != first[0].ID || docs[0].Chunks != 2 {
		t.Fatalf("%+v", docs)
	}

	b.Known = []corpus.Chunk{chunkOf("a/1", "a", 5, 7)}
	if _, err := s.Commit(ctx, b); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "a/1") {
		t.Fatal(err)
	}
	if _, err := s.DeleteDocuments(ctx, []string{"a", "nope"}); !errors.Is(err, ErrNotFound) ||
		!strings.Contains(err.Error(), "nope") {
		t.Fatal(err)
	}
	verify(t, s, want)
	if n, err := s.DeleteDocuments(ctx, []string{"a", "a"}); err != nil || n != 2 {
		t.Fatal(n, err)
	}
	verify(t, s, versions(1, "b/0"))
	st, err := s.Stats(ctx)
	if err != nil || st.Rows != 5 || st.Chunks != 1 || st.Documents != 1 || st.Deleted != .8 || st.Segments != 1 ||
		st.VectorBytes != 5*testDim*4 || st.DatabaseBytes == 0 {
		t.Fatal(st, err)
	}
}

func TestDuplicatesInBatch(t *testing.T) {
	s := mustOpen(t, t.TempDir(), testSeams())
	b := batchOf(1, testDim, "a/0", "a/1", "a/0")
	got, err := s.Commit(context.Background(), b)
	if d := cmp.Diff([]string{"a/0", "a/1"}, got); d != "" || err != nil {
		t.Fatal(d, err)
	}
	verify(t, s, versions(1, "a/0", "a/1"))
}

// The digest and the order depend on content alone, and change with it.
func TestViewDigestAndGroups(t *testing.T) {
	digest := func(batches ...Batch) (string, []int32) {
		s := mustOpen(t, t.TempDir(), testSeams())
		for _, b := range batches {
			mustCommit(t, s, b)
		}
		v, done := liveOf(t, s)
		defer done()
		return v.Digest, v.Groups
	}
	withTopics := batchOf(1, testDim, "a/0", "b/0", "c/0", "c/1", "d/0", "b/1")
	for i, topic := range []string{"x", "y", "", "", "x", ""} {
		withTopics.Chunks[i].Topic = topic
	}
	one, groups := digest(withTopics)
	if d := cmp.Diff([]int32{0, 1, 2, 2, 0, 3}, groups); d != "" {
		t.Fatal(d)
	}
	two, _ := digest(batchOf(1, testDim, "a/0", "b/0"), batchOf(1, testDim, "c/0", "c/1", "d/0", "b/1"))
	if one != two || !strings.HasPrefix(one, "sha256:") || len(one) != 71 {
		t.Fatal(one, two)
	}
	other, _ := digest(batchOf(2, testDim, "a/0", "b/0", "c/0", "c/1", "d/0", "b/1"))
	fewer, _ := digest(batchOf(1, testDim, "a/0", "b/0", "c/0", "c/1", "d/0"))
	// hashlib.sha256(b"").hexdigest()
	if none, _ := digest(); none != "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" {
		t.Fatal(none)
	}
	if one == other || one == fewer {
		t.Fatal("digest does not see the content")
	}
}

func TestBadInputIsRefusedWhole(t *testing.T) {
	ctx := context.Background()
	s := mustOpen(t, t.TempDir(), testSeams())
	mustCommit(t, s, batchOf(1, testDim, "a/0"))
	nan := float32(math.NaN())
	inf := float32(math.Inf(-1))
	for name, c := range map[string]struct {
		edit func(*Batch)
		want error
		says string
	}{
		"short vectors": {func(b *Batch) { b.Vectors = b.Vectors[:testDim+3] }, ErrDimension,
			"15 values for 2 chunks of 12"},
		"long vectors": {func(b *Batch) { b.Vectors = append(b.Vectors, 1) }, ErrDimension, "25 values"},
		"nan": {func(b *Batch) { b.Vectors[testDim+5] = nan }, kernels.ErrNonFinite,
			`row 1 (chunk "n/1"), column 5`},
		"inf":               {func(b *Batch) { b.Vectors[0] = inf }, kernels.ErrNonFinite, "row 0"},
		"empty id":          {func(b *Batch) { b.Chunks[1].ID = "" }, ErrInput, "chunk id"},
		"id not UTF-8":      {func(b *Batch) { b.Chunks[1].ID = "n/\xff" }, ErrInput, "UTF-8"},
		"id with NUL":       {func(b *Batch) { b.Chunks[1].ID = "n/\x00" }, ErrInput, "NUL"},
		"text not UTF-8":    {func(b *Batch) { b.Chunks[1].Text = "\xc3" }, ErrInput, `"n/1"`},
		"no words":          {func(b *Batch) { b.Chunks[1].Text = " \n\t" }, ErrInput, `"n/1"`},
		"heading not UTF-8": {func(b *Batch) { b.Chunks[1].Heading = "\xc3" }, ErrInput, "heading"},
		"range":             {func(b *Batch) { b.Chunks[1].End = -1 }, ErrInput, "-1"},
		"two texts":         {func(b *Batch) { b.Chunks[1].ID = "n/0" }, ErrInput, "twice"},
		"two texts, known": {func(b *Batch) { b.Known = []corpus.Chunk{chunkOf("n/1", "n", 9, 0)} }, ErrInput,
			"twice"},
		"unknown document": {func(b *Batch) { b.Chunks[1].Document = "ghost" }, ErrInput, "ghost"},
		"nil document":     {func(b *Batch) { b.Documents[0] = nil }, ErrInput, "nil"},
		"document id":      {func(b *Batch) { b.Documents[0].ID = " " }, ErrInput, "document id"},
		"document title":   {func(b *Batch) { b.Documents[0].Title = "\xff" }, ErrInput, "title"},
		"known, but unknown": {func(b *Batch) { b.Known = []corpus.Chunk{chunkOf("n/7", "n", 1, 0)} }, ErrNotFound,
			"n/7"},
	} {
		t.Run(name, func(t *testing.T) {
			b := batchOf(1, testDim, "n/0", "n/1")
			c.edit(&b)
			_, err := s.Commit(ctx, b)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) ||
				!strings.Contains(err.Error(), s.Dir()) {
				t.Fatalf("%v, want %v saying %q", err, c.want, c.says)
			}
			verify(t, s, versions(1, "a/0"))
		})
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Commit(cancelled, batchOf(1, testDim, "n/0")); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := s.SetMeta(ctx, "", nil); !errors.Is(err, ErrInput) {
		t.Fatal(err)
	}
	mustCommit(t, s, batchOf(1, testDim, "n/0", "n/1"))
	verify(t, s, versions(1, "a/0", "n/0", "n/1"))
}

// liveOf returns the content of a new view; done closes it.
func liveOf(t *testing.T, s *Store) (l *Live, done func()) {
	t.Helper()
	v, err := s.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if l, err = v.Live(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l, func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A view does not change whatever happens to the store, over several segments, and no deletion copies a vector.
func TestViewIsASnapshot(t *testing.T) {
	ctx := context.Background()
	s := mustOpen(t, t.TempDir(), testSeams()) // 1,024 rows a segment
	var views []*View
	view := func() *View {
		t.Helper()
		v, err := s.View(ctx)
		if err != nil {
			t.Fatal(err)
		}
		views = append(views, v)
		if s.segments.mappable() && len(views) > 1 && &v.Vectors.Data[0] != &views[0].Vectors.Data[0] {
			t.Fatal("the vectors were copied")
		}
		return v
	}
	mustCommit(t, s, batchOf(1, testDim, ids("a", 1000)...))
	small := view()
	mustCommit(t, s, batchOf(1, testDim, ids("b", 1500)...))
	all := view()
	if _, err := s.DeleteDocuments(ctx, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	tail := view()
	mustCommit(t, s, batchOf(1, testDim, ids("c", 700)...))
	if _, err := s.Commit(ctx, batchOf(2, testDim, "b/3", "b/600")); err != nil {
		t.Fatal(err)
	}
	last := view()
	want := versions(1, append(ids("b", 1500), ids("c", 700)...)...)
	want["b/3"], want["b/600"] = 2, 2
	verify(t, s, want)
	if n := len(last.DeletedSince(tail)); n != 2 || len(last.DeletedSince(all)) != 1002 ||
		len(tail.DeletedSince(nil)) != 1000 {
		t.Fatal(n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(s.Dir()); err != nil {
		t.Fatal(err)
	}
	same := func(v *View, rows, n int, want map[string]int) {
		t.Helper()
		if v.Vectors.Rows != rows || len(v.Vectors.Data) != rows*testDim || v.Count() != n {
			t.Fatal(v.Vectors.Rows, len(v.Vectors.Data), v.Count(), n)
		}
		for i, id := range v.IDs {
			if got := v.Vectors.Data[i*testDim : (i+1)*testDim]; !v.Deleted(i) &&
				!slices.Equal(got, vectorOf(id, want[id], testDim)) {
				t.Fatalf("row %d, %s", i, id)
			}
		}
		live, err := v.Live(ctx)
		if err != nil || live.Vectors.Rows != n || len(live.Vectors.Data) != n*testDim {
			t.Fatal(err)
		}
		for i, id := range live.IDs {
			if got := live.Vectors.Data[i*testDim : (i+1)*testDim]; !slices.Equal(got,
				vectorOf(id, want[id], testDim)) {
				t.Fatalf("live %d, %s", i, id)
			}
		}
	}
	one := versions(1, append(ids("a", 1000), ids("b", 1500)...)...)
	same(small, 1000, 1000, one)
	same(all, 2500, 2500, one)
	same(tail, 2500, 1500, one)
	same(last, 3202, 2200, want)
	for _, v := range views {
		if err := errors.Join(v.Close(), v.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := last.Chunks(ctx, []string{"b/3"}); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

// Any sequence of operations leaves what a map would hold, also over a reopen.
func TestLikeAMap(t *testing.T) {
	race.Skip(t)
	ctx := context.Background()
	root := fastDir(t)
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp(root, "s")
		if err != nil {
			t.Fatal(err)
		}
		s := mustOpen(t, dir, testSeams())
		want := map[string]int{}
		for range rapid.IntRange(1, 6).Draw(r, "steps") {
			switch rapid.IntRange(0, 5).Draw(r, "kind") {
			case 0:
				doc := fmt.Sprint(rapid.IntRange(0, 2).Draw(r, "doc"))
				_, err := s.DeleteDocuments(ctx, []string{doc})
				if err != nil && !errors.Is(err, ErrNotFound) {
					t.Fatal(err)
				}
				for id := range want {
					if strings.HasPrefix(id, doc+"/") {
						delete(want, id)
					}
				}
			case 1:
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = mustOpen(t, dir, testSeams())
			default:
				doc, version := rapid.IntRange(0, 2).Draw(r, "doc"), rapid.IntRange(1, 3).Draw(r, "version")
				list := rapid.SliceOfNDistinct(rapid.IntRange(0, 1200), 1, 900, rapid.ID[int]).Draw(r, "chunks")
				names := make([]string, len(list))
				for i, n := range list {
					names[i] = fmt.Sprintf("%d/%d", doc, n)
				}
				b := batchOf(version, testDim, names...)
				if b.Replace = rapid.Bool().Draw(r, "replace"); b.Replace {
					for id := range want {
						if strings.HasPrefix(id, fmt.Sprint(doc)+"/") {
							delete(want, id)
						}
					}
				}
				mustCommit(t, s, b)
				for _, id := range names {
					want[id] = version
				}
			}
		}
		verify(t, s, want)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRowVectors: vectors are found by their rows, in any order, also those of chunks that were deleted.
func TestRowVectors(t *testing.T) {
	s := mustOpen(t, t.TempDir(), testSeams())
	b := batchOf(1, testDim, ids("a", 40)...)
	mustCommit(t, s, b)
	mustCommit(t, s, batchOf(2, testDim, ids("b", 3)...))
	v, done := liveOf(t, s)
	defer done()
	if len(v.Rows) != 43 || v.Rows[0] != 0 || v.Rows[42] != 42 {
		t.Fatalf("rows %v", v.Rows)
	}
	if _, err := s.DeleteDocuments(t.Context(), []string{"a"}); err != nil {
		t.Fatal(err)
	}
	got, err := s.RowVectors(t.Context(), []int64{42, 3, 39, 3})
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Concat(vectorOf("b/2", 2, testDim), vectorOf("a/3", 1, testDim), vectorOf("a/39", 1, testDim),
		vectorOf("a/3", 1, testDim))
	if got.Rows != 4 || !slices.Equal(got.Data, want) {
		t.Errorf("%d rows that are not those that were written", got.Rows)
	}
	for _, row := range []int64{-1, 43} {
		if _, err := s.RowVectors(t.Context(), []int64{row}); !errors.Is(err, ErrNotFound) {
			t.Errorf("row %d: %v", row, err)
		}
	}
}
