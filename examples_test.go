package sluice_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// These examples use a small store (exampleStore) with an encoder and a language model from the tests, which need no
// files. Example is a program with the default models.

func ExampleSluice_Ingest() {
	s, dir, done := exampleStore()
	defer done()
	file := filepath.Join(dir, "tides.txt")
	if err := os.WriteFile(file, []byte("Tides follow the moon. Spring tides are the highest."), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 { // what is stored already is not embedded again
		r, err := s.Ingest(context.Background(), []string{file}, ingest.Options{Chunk: "60/2"})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(r.Chunks, "chunk,", r.Embedded, "embedded,", r.Known, "known")
	}
	// Output:
	// 1 chunk, 1 embedded, 0 known
	// 1 chunk, 0 embedded, 1 known
}

func ExampleSluice_Calibrate() {
	s, _, done := exampleStore()
	defer done()
	// Without Queries the language model writes the pseudo-queries.
	c, err := s.Calibrate(context.Background(), calibrate.Options{
		Queries: strings.NewReader(doubles.Questions), Source: "questions", Policy: "maximum:min", Threshold: .05,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s = %.3f, the gate opens above %.3f\n", c.Policy, c.PolicyValue, c.Cutoff)
	// Output: maximum:min = 0.546, the gate opens above 0.496
}

func ExampleSluice_Gate() {
	s, _, done := exampleStore()
	defer done()
	ctx := context.Background()
	questions := calibrate.Options{Queries: strings.NewReader(doubles.Questions), Source: "questions"}
	if _, err := s.Calibrate(ctx, questions); err != nil {
		fmt.Println(err)
		return
	}
	decisions, err := s.Gate(ctx, []string{"Why do lighthouses warn ships of shallow water?", "Why is the sky blue?"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range decisions {
		fmt.Printf("retrieve: %t, best context %s with %.2f\n", d.Retrieve, d.ContextID, d.Score)
	}
	// Output:
	// retrieve: true, best context lights with 0.61
	// retrieve: false, best context herring with 0.21
}

func ExampleSluice_Retrieve() {
	s, _, done := exampleStore()
	defer done()
	where, err := retrieve.ParseFilter([]string{"topic=sea"})
	if err != nil {
		fmt.Println(err)
		return
	}
	o := retrieve.DefaultOptions()
	o.K, o.Mode, o.Where, o.Explain = 1, retrieve.Hybrid, where, true
	found, err := s.Retrieve(context.Background(), []string{"What do lighthouses warn ships of?"}, o)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s of %d contexts: %s\n", found[0].Taken.Ranking, found[0].Taken.Contexts,
		found[0].Passages[0].Chunk.Text)
	for _, t := range found[0].Results[0].Parts.Terms {
		fmt.Printf("%s is in %d contexts\n", t.Text, t.DF)
	}
	// Output:
	// hybrid of 2 contexts: Lighthouses warn ships of rocks and shallow water with a rotating lamp.
	// lighthous is in 1 contexts
	// warn is in 1 contexts
	// ship is in 1 contexts
}

func ExampleSluice_Ask() {
	s, _, done := exampleStore()
	defer done()
	o := answer.DefaultOptions()
	o.Gate = answer.GateOpen // the gate is not asked
	o.Start = func(t answer.Trace) { fmt.Println("from:", t.Mode) }
	o.Stream = func(piece string) error { fmt.Print(piece); return nil }
	_, err := s.Ask(context.Background(), "What do lighthouses warn ships of?", o)
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// from: context
	// Of rocks [1].
}

func ExampleSluice_Embed() {
	s, _, done := exampleStore()
	defer done()
	e, err := s.Embed(context.Background(), []string{"a text", "another text"}, embed.Document)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(e.Tokens), "vectors of", e.Dim)
	// Output: 2 vectors of 256
}

func ExampleSluice_Documents() {
	s, _, done := exampleStore()
	defer done()
	ctx := context.Background()
	documents, err := s.Documents().List(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	chunks, err := s.Documents().Delete(ctx, []string{documents[0].ID})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(documents), "documents;", chunks, "chunk removed with", documents[0].ID)
	// Output: 4 documents; 1 chunk removed with defer
}

// exampleStore returns a Sluice over a small library, its folder, and a function that closes both.
func exampleStore() (s *sluice.Sluice, dir string, done func()) {
	dir, err := os.MkdirTemp("", "sluice")
	if err != nil {
		panic(err)
	}
	file := filepath.Join(dir, "library.jsonl")
	if err := os.WriteFile(file, []byte(doubles.Contexts), 0o600); err != nil {
		panic(err)
	}
	s, err = sluice.Open(context.Background(), sluice.Config{
		Store:     filepath.Join(dir, "store"),
		Embedder:  doubles.NewEncoder(),
		Generator: doubles.NewModel("Of rocks [1]."),
	})
	if err != nil {
		panic(err)
	}
	if _, err := s.Ingest(context.Background(), []string{file}, ingest.Options{NoChunk: true}); err != nil {
		panic(err)
	}
	return s, dir, func() { s.Close(); os.RemoveAll(dir) }
}
