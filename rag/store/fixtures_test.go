package store

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/rag/corpus"
)

const helperEnv = "SLUICE_STORE_TEST_HELPER"

// TestMain runs the test binary as another process of a test when helperEnv names its part.
func TestMain(m *testing.M) {
	if part := os.Getenv(helperEnv); part != "" {
		os.Exit(helper(part, os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

const testDim = 12

var testEncoder = identity.Encoder{Name: "test-encoder", Digest: "sha256:e1", TokenizerDigest: "sha256:t1",
	Dim: testDim}

// textOf and vectorOf make the content of version v of a chunk from its id alone, so that another
// process can tell what must be there.
func textOf(id string, v int) string {
	return fmt.Sprintf("Text of %s, version %d: ünïcode ✓.", id, v)
}

func vectorOf(id string, v, dim int) []float32 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", id, v)
	r := rand.New(rand.NewPCG(h.Sum64(), uint64(v)))
	out := make([]float32, dim)
	for i := range out {
		out[i] = r.Float32()*2 - 1
	}
	return out
}

// batchOf makes a batch with version v of the chunks; the document of "a/1" is "a".
func batchOf(v, dim int, ids ...string) Batch {
	var b Batch
	seen := map[string]bool{}
	for i, id := range ids {
		doc, _, _ := strings.Cut(id, "/")
		if !seen[doc] {
			seen[doc] = true
			b.Documents = append(b.Documents, &corpus.Document{ID: doc, Source: doc + ".md", Title: "T " + doc,
				Digest: fmt.Sprintf("sha256:%s%d", doc, v), Meta: corpus.Meta{"k": doc}})
		}
		b.Chunks = append(b.Chunks, chunkOf(id, doc, v, i))
		b.Vectors = append(b.Vectors, vectorOf(id, v, dim)...)
	}
	return b
}

func chunkOf(id, doc string, v, i int) corpus.Chunk {
	return corpus.Chunk{ID: id, Document: doc, Source: doc + ".md", Heading: "H › " + id, Anchor: "a-" + id,
		Start: 10 * i, End: 10*i + 9, Text: textOf(id, v), Tokens: 7}
}

func ids(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s/%d", prefix, i)
	}
	return out
}

// fastDir returns a folder in memory where there is one: many small commits to a busy disk take long.
func fastDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "sluice-store-*")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func testSeams() seams {
	return seams{fs: osFS{}, segmentBytes: 1, step: func(string) error { return nil }, // 1,024 rows a segment
		patient: 10 * time.Second}
}

// mustOpen opens a store for writing, within TestSharedSuite as the replica of a shared one.
func mustOpen(t testing.TB, dir string, x seams) *Store {
	t.Helper()
	o := Options{Create: true, Encoder: &testEncoder}
	if url := os.Getenv(suiteEnv); url != "" && isReplica(dir) {
		o.Shared = sharedAt(t, baseOf(url, dir), dir, x)
	}
	s, err := open(context.Background(), dir, o, x)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func mustCommit(t testing.TB, s *Store, b Batch) {
	t.Helper()
	got, err := s.Commit(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(b.Chunks)+len(b.Known) {
		t.Fatalf("committed %d of %d", len(got), len(b.Chunks)+len(b.Known))
	}
}

// verify checks that the store holds exactly want (chunk id → version): ids, texts, digests and vector
// bits, through every way of reading, and that it finds itself in order.
func verify(t testing.TB, s *Store, want map[string]int) {
	t.Helper()
	ctx := context.Background()
	view, err := s.View(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	v, err := view.Live(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(v.IDs) != len(want) || v.Vectors.Rows != len(want) || len(v.Groups) != len(want) ||
		view.Count() != len(want) {
		t.Fatalf("view has %d ids, %d rows, %d groups, want %d", len(v.IDs), v.Vectors.Rows, len(v.Groups), len(want))
	}
	dim := v.Vectors.Dim
	for i, id := range v.IDs {
		version, ok := want[id]
		if !ok {
			t.Fatalf("chunk %q should not be there", id)
		}
		row := int(v.Rows[i] - view.First)
		for j, x := range vectorOf(id, version, dim) {
			if got := v.Vectors.Data[i*dim+j]; got != x || view.Vectors.Data[row*dim+j] != x {
				t.Fatalf("%s (row %d), column %d: %v, want %v", id, i, j, got, x)
			}
		}
		if v.TextDigests[i] != chunkOf(id, "", version, 0).Digest() || view.Deleted(row) || view.IDs[row] != id {
			t.Fatalf("%s: wrong text digest, or deleted", id)
		}
	}
	if fresh, err := s.Generation(ctx); err != nil || fresh != view.Generation {
		t.Fatalf("a view of generation %d, the store has %d: %v", view.Generation, fresh, err)
	}
	i := 0
	for k, err := range s.AllChunks(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if k.ID != v.IDs[i] || k.Text != textOf(k.ID, want[k.ID]) {
			t.Fatalf("chunk %d is %q %q, want %q version %d", i, k.ID, k.Text, v.IDs[i], want[k.ID])
		}
		i++
	}
	if i != len(want) {
		t.Fatalf("%d chunks, want %d", i, len(want))
	}
	if err := s.Check(ctx); err != nil {
		t.Fatal(err)
	}
}

func versions(v int, ids ...string) map[string]int {
	m := map[string]int{}
	for _, id := range ids {
		m[id] = v
	}
	return m
}
