package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/cluster/base"
	"github.com/sluice-rag/sluice/cluster/ingest"
	"github.com/sluice-rag/sluice/cluster/objects"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/rag/corpus"
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

// ofLines is the beginning of an ingest of JSON lines.
func ofLines(text string, bytes int) func(context.Context, *objects.Store) (string, error) {
	return func(ctx context.Context, s *objects.Store) (string, error) {
		return ingest.Begin(ctx, s, strings.NewReader(text),
			ingest.Job{Encoder: "words", Collection: "c", Chunk: "48/8", File: "lines.jsonl"}, bytes)
	}
}

// ingested returns the base that a runner makes, what is known of its contexts, their vectors, and what was skipped.
func ingested(t *testing.T, runner, address string, begin func(context.Context, *objects.Store) (string, error)) (
	m base.Manifest, all base.About, vectors []float32, skipped []ingest.Skipped) {
	t.Helper()
	of, skipped, err := Ingest(t.Context(), runner, address, begin)
	if err != nil {
		t.Fatal(err)
	}
	s, err := objects.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.GetJSON(t.Context(), of, &m); err != nil {
		t.Fatal(err)
	}
	for _, g := range m.Segments {
		var about base.About
		if err := s.GetJSON(t.Context(), g.About, &about); err != nil {
			t.Fatal(err)
		}
		part, err := base.Vectors(t.Context(), s, g.Vectors, g.Rows, m.Dim)
		if err != nil {
			t.Fatal(err)
		}
		all.IDs, all.Digests = append(all.IDs, about.IDs...), append(all.Digests, about.Digests...)
		all.Groups, vectors = append(all.Groups, about.Groups...), append(vectors, part.Data...)
	}
	return m, all, vectors, skipped
}

// here returns what one machine's store has of a path, and what it has skipped.
func here(t *testing.T, one *doubles.Base, path string, o local.Options) (*knowledge.Snapshot, embed.Embedder,
	*store.Live) {
	t.Helper()
	if _, err := local.Run(t.Context(), one.Base, local.Input{Paths: []string{path}, Options: o}); err != nil {
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

// ingestedHere returns what one machine's store has of lines.
func ingestedHere(t *testing.T, text string) (*knowledge.Snapshot, embed.Embedder, *store.Live) {
	t.Helper()
	one := doubles.NewBase(t, nil)
	o := local.DefaultOptions()
	o.Collection, o.Strict, o.Chunk = "c", true, "48/8"
	return here(t, one, one.File(t, "lines.jsonl", text), o)
}

// TestIngestOfAFolder: on prism, the files of a folder in blocks give the contexts of one machine's store, in the same
// order, and the files that cannot be read are named as it names them.
func TestIngestOfAFolder(t *testing.T) {
	one, folder := doubles.NewBase(t, nil), filepath.Join(t.TempDir(), "manual")
	words := strings.Fields(strings.NewReplacer("\n", " ", `"`, " ").Replace(lines(40)))
	text := func(i int) string { return strings.Join(words[i*40:i*40+160], " ") }
	for name, content := range map[string]string{
		"tides.md": "---\ntopic: sea\n---\n# Tides\n\n" + text(0), "b/moons.txt": text(3),
		"b/c/houses.html": "<p>" + text(5), "b/lines.jsonl": lines(7), "b/broken.docx": "no archive",
		"broken.pdf": "%PDF-1.7 and no more", "seen.bin": "\x00\x01", ".gitignore": "left/\n",
		"left/out.txt": text(6), ".hidden.txt": text(7),
		"z/empty.txt": "", "z/last.csv": "name,what\nherring,swims\n", "z/channels.txt": text(8),
	} {
		path := filepath.Join(folder, filepath.FromSlash(name))
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	o := local.DefaultOptions()
	var skippedHere []string
	relative := func(k corpus.Skipped) string {
		name, err := filepath.Rel(folder, k.Source)
		if err != nil { // of an object
			name = k.Source
		}
		return filepath.ToSlash(name)
	}
	o.Chunk, o.OnSkip = "48/8", func(k corpus.Skipped) { skippedHere = append(skippedHere, relative(k)) }
	_, _, want := here(t, one, folder, o)
	if len(skippedHere) < 2 {
		t.Errorf("one machine skips %q", skippedHere)
	}
	for i, bytes := range []int{1, 900, 1 << 20} {
		name, from := fmt.Sprintf("folder%d", i), folder
		all.add(name)
		if i == 2 {
			from = "file://" + filepath.ToSlash(folder) // as objects
		}
		var skipped []string
		m, got, vectors, more := ingested(t, "prism", scheme+"://"+name,
			func(ctx context.Context, s *objects.Store) (string, error) {
				return ingest.BeginFolder(ctx, s, from, ingest.Job{Encoder: "words", Chunk: "48/8"}, bytes,
					func(k corpus.Skipped) { skipped = append(skipped, relative(k)) })
			})
		for _, k := range more {
			skipped = append(skipped, k.Name)
		}
		slices.Sort(skipped)
		slices.Sort(skippedHere)
		diff := cmp.Diff(base.About{IDs: want.IDs, Digests: want.TextDigests, Groups: want.Groups}, got) +
			cmp.Diff(skippedHere, skipped)
		if diff != "" || m.Digest != want.Digest || !slices.Equal(want.Vectors.Data, vectors) {
			t.Errorf("blocks of %d bytes, %d segments of %d contexts (-local +workers):\n%s", bytes, len(m.Segments),
				len(want.IDs), diff)
		}
	}
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
		m, got, vectors, _ := ingested(t, "prism", address, ofLines(text, bytes))
		terms := x.Statistics(nil).TermsOf("tides and moons", "houses")
		counts := m.Statistics()
		counts.Terms = x.Statistics(terms).Terms
		diff := cmp.Diff(base.About{IDs: want.IDs, Digests: want.TextDigests, Groups: want.Groups}, got)
		if diff != "" || m.Digest != want.Digest || m.Topics != want.Topics || !m.Encoder.Same(enc.Info().Encoder) ||
			!cmp.Equal(want.Vectors.Data, vectors) || !cmp.Equal(x.Statistics(terms), counts) {
			t.Errorf("blocks of %d bytes, %d segments, digest %s and %s (-local +workers):\n%s", bytes, len(m.Segments),
				want.Digest, m.Digest, diff)
		}
		if bytes == 1 && len(m.Segments) != 120 {
			t.Errorf("%d segments of 120 lines", len(m.Segments))
		}
	}
}
