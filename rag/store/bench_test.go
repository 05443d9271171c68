package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
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
