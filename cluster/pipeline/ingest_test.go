package pipeline

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/cluster/base"
	"github.com/sluice-rag/sluice/cluster/ingest"
	"github.com/sluice-rag/sluice/cluster/objects"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	local "github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/store"
)

// lines returns documents of some words, most of them with a topic.
func lines(documents int) string {
	rng := rand.New(rand.NewPCG(47, 14))
	words := strings.Fields("tides moons herrings schools swim ocean light houses run defer channels panics " +
		"stacks closes")
	var b strings.Builder
	for i := range documents {
		var text strings.Builder
		for range 5 + rng.IntN(200) {
			text.WriteString(words[rng.IntN(len(words))] + []string{" ", " ", " ", ". "}[rng.IntN(4)])
		}
		topic := ""
		if i%5 > 0 {
			topic = fmt.Sprintf(`"topic":"t%d",`, rng.IntN(4))
		}
		fmt.Fprintf(&b, `{"id":"d%d",%s"text":%q}`+"\n", i, topic, text.String())
	}
	return b.String()
}

// ingestedHere returns what one machine's store has of lines.
func ingestedHere(t *testing.T, text string) (*knowledge.Snapshot, embed.Embedder, *store.Live) {
	t.Helper()
	one := doubles.NewBase(t, nil)
	file := one.File(t, "lines.jsonl", text)
	o := local.DefaultOptions()
	o.Collection, o.Strict, o.Chunk = "c", true, "48/8"
	if _, err := local.Run(t.Context(), one.Base, local.Input{Paths: []string{file}, Options: o}); err != nil {
		t.Fatal(err)
	}
	snap, enc, err := one.Searchable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(snap.Release)
	live, err := snap.View.Live(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snap, enc, live
}

// TestIngestOfManyWorkers: on prism, blocks of any size give the contexts of one machine's store, bit for bit: vectors,
// ids, digests, groups and word statistics; whatever fails on the way.
func TestIngestOfManyWorkers(t *testing.T) {
	text := lines(120)
	snap, enc, want := ingestedHere(t, text)
	x, err := snap.Postings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, bytes := range []int{1 << 20, 4000, 1} {
		name := fmt.Sprintf("ingest%d", i)
		f, address := all.add(name), scheme+"://"+name
		if bytes == 4000 {
			var died, failed atomic.Bool
			f.fails = func(op, name string) error {
				if op == "write" && strings.HasPrefix(name, "made/") && died.CompareAndSwap(false, true) {
					panic("a worker dies")
				}
				if op == "read" && strings.HasPrefix(name, "lines/") && failed.CompareAndSwap(false, true) {
					return errOutage
				}
				return nil
			}
		}
		of, err := Ingest(t.Context(), "prism", address, strings.NewReader(text),
			ingest.Job{Encoder: "words", Collection: "c", Chunk: "48/8", File: "lines.jsonl"}, bytes)
		if err != nil {
			t.Fatal(err)
		}
		s, err := objects.Open(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var m base.Manifest
		if err := s.GetJSON(t.Context(), of, &m); err != nil {
			t.Fatal(err)
		}
		var got base.About
		var v engine.Vectors
		for _, g := range m.Segments {
			var about base.About
			if err := s.GetJSON(t.Context(), g.About, &about); err != nil {
				t.Fatal(err)
			}
			part, err := base.Vectors(t.Context(), s, g.Vectors, g.Rows, m.Dim)
			if err != nil {
				t.Fatal(err)
			}
			got.IDs, got.Digests = append(got.IDs, about.IDs...), append(got.Digests, about.Digests...)
			got.Groups, v.Data = append(got.Groups, about.Groups...), append(v.Data, part.Data...)
		}
		terms := x.Statistics(nil).TermsOf("tides and moons", "houses")
		counts := m.Statistics()
		counts.Terms = x.Statistics(terms).Terms
		diff := cmp.Diff(base.About{IDs: want.IDs, Digests: want.TextDigests, Groups: want.Groups}, got)
		if diff != "" || m.Digest != want.Digest || m.Topics != want.Topics || !m.Encoder.Same(enc.Info().Encoder) ||
			!cmp.Equal(want.Vectors.Data, v.Data) || !cmp.Equal(x.Statistics(terms), counts) {
			t.Errorf("blocks of %d bytes, %d segments, digest %s and %s (-local +workers):\n%s", bytes, len(m.Segments),
				want.Digest, m.Digest, diff)
		}
		if bytes == 1 && len(m.Segments) != 120 {
			t.Errorf("%d segments of 120 lines", len(m.Segments))
		}
	}
}
