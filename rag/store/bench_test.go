package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/rag/corpus"
)

var benchEncoder = identity.Encoder{Name: "bench", Digest: "sha256:b", TokenizerDigest: "sha256:t", Dim: 384}

// benchBatch makes n chunks of about 1,000 bytes, 20 a document.
func benchBatch(round, n int) Batch {
	r := rand.New(rand.NewPCG(1, uint64(round)))
	b := Batch{Vectors: make([]float32, n*benchEncoder.Dim)}
	for i := range b.Vectors {
		b.Vectors[i] = r.Float32()
	}
	filler := strings.Repeat("All work and no play makes a dull text. ", 25)
	for i := range n {
		doc := fmt.Sprintf("doc-%d-%d", round, i/20)
		if i%20 == 0 {
			b.Documents = append(b.Documents, &corpus.Document{ID: doc, Source: doc + ".md", Digest: "sha256:x"})
		}
		id := fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64())
		b.Chunks = append(b.Chunks,
			corpus.Chunk{ID: id, Document: doc, Source: doc + ".md", Heading: "Chapter › Section",
				Topic: fmt.Sprint("topic ", i%16), Start: i * 1000, End: i*1000 + 1000, Text: id + filler, Tokens: 220})
	}
	return b
}

func benchOpen(b *testing.B) *Store {
	s, err := Open(context.Background(), b.TempDir(), Options{Create: true, Encoder: &benchEncoder})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

// BenchmarkCommit is the latency of one acknowledged Commit.
func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := benchOpen(b)
			round := 0
			for b.Loop() {
				b.StopTimer()
				batch := benchBatch(round, n)
				round++
				b.StartTimer()
				if _, err := s.Commit(context.Background(), batch); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(n) * int64(benchEncoder.Dim*4+1000))
		})
	}
}

// BenchmarkView opens a view of 100,000 × 384 after a change of the store, and lists its live chunks.
func BenchmarkView(b *testing.B) {
	ctx := context.Background()
	s := benchOpen(b)
	for round := range 10 {
		if _, err := s.Commit(ctx, benchBatch(round, 10_000)); err != nil {
			b.Fatal(err)
		}
	}
	view := func(b *testing.B) {
		for b.Loop() {
			if err := s.SetMeta(ctx, "changed", nil); err != nil {
				b.Fatal(err)
			}
			v, err := s.View(ctx)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := v.Live(ctx); err != nil {
				b.Fatal(err)
			}
			if err := v.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("without gaps", view)
	if _, err := s.DeleteDocuments(ctx, []string{"doc-3-7", "doc-6-1"}); err != nil {
		b.Fatal(err)
	}
	b.Run("after deletions", view)
}

// BenchmarkCommitters is how many acknowledged Commits of 4 chunks per second some callers of one Store get together,
// beside what the disk gives them for the vectors alone: raw writes of the same bytes to one file, each synced.
func BenchmarkCommitters(b *testing.B) {
	const each = 4
	for _, callers := range []int{1, 8, 32} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			s := benchOpen(b)
			if _, err := s.Commit(context.Background(), benchBatch(-1, 1)); err != nil { // makes the segment
				b.Fatal(err)
			}
			var next atomic.Int64
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						if _, err := s.Commit(context.Background(), benchBatch(int(n), each)); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
		})
	}
	b.Run("raw", func(b *testing.B) {
		f, err := osFS{}.OpenFile(filepath.Join(b.TempDir(), "raw"), os.O_RDWR|os.O_CREATE)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		data := make([]byte, each*(benchEncoder.Dim*4+1000))
		for n := range b.N {
			if _, err := f.WriteAt(data, int64(n*len(data))); err != nil {
				b.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
	})
}
