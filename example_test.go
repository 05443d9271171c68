package sluice_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
)

// Example goes the whole way: documents in, calibrated, gate, retrieval, answer. It brings an encoder and a
// generator of its own; without them, Open takes the models that 'sluice models pull' has brought.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "sluice")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "library.jsonl")
	if err := os.WriteFile(file, []byte(doubles.Contexts), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	s, err := sluice.Open(ctx, sluice.Config{
		Store:     filepath.Join(dir, "store"),
		Embedder:  doubles.NewEncoder(),
		Generator: doubles.NewModel("In last in, first out order [1]."),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	in, err := s.Ingest(ctx, []string{file}, sluice.IngestOptions{NoChunk: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("chunks:", in.Chunks)
	cal, err := s.Calibrate(ctx, sluice.CalibrateOptions{Queries: strings.NewReader(doubles.Questions), Source: "asked"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("questions:", cal.Positive.N)

	queries := []string{"In which order, and when, does a deferred function run?", "How long should I boil an egg?"}
	decisions, err := s.Gate(ctx, queries)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, d := range decisions {
		fmt.Println(queries[i], d.Retrieve)
	}
	answer, err := s.Ask(ctx, queries[0], sluice.AskOptions{Retrieve: sluice.RetrieveOptions{K: 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Answer, "from", answer.Citations[0].ID)
	// Output:
	// chunks: 4
	// questions: 4
	// In which order, and when, does a deferred function run? true
	// How long should I boil an egg? false
	// In last in, first out order [1]. from defer
}

func ExampleSluice_Retrieve() {
	s, done := exampleStore()
	defer done()
	results, err := s.Retrieve(context.Background(), []string{"What do lighthouses warn ships of?"}, sluice.RetrieveOptions{K: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(results[0][0].ID)
	// Output: lights
}

func ExampleSluice_Embed() {
	s, done := exampleStore()
	defer done()
	e, err := s.Embed(context.Background(), []string{"a text", "another text"}, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(e.Tokens), "vectors of", e.Dim)
	// Output: 2 vectors of 256
}

func ExampleSluice_Ask_streaming() {
	s, done := exampleStore()
	defer done()
	_, err := s.Ask(context.Background(), "What do lighthouses warn ships of?", sluice.AskOptions{
		Gate:   sluice.GateOpen, // without asking the gate
		Start:  func(m sluice.Mode) { fmt.Println("from:", m) },
		Stream: func(piece string) error { fmt.Print(piece); return nil },
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// from: context
	// Of rocks [1].
}

// exampleStore returns a Sluice over the small library.
func exampleStore() (*sluice.Sluice, func()) {
	dir, err := os.MkdirTemp("", "sluice")
	if err != nil {
		panic(err)
	}
	file := filepath.Join(dir, "library.jsonl")
	if err := os.WriteFile(file, []byte(doubles.Contexts), 0o600); err != nil {
		panic(err)
	}
	s, err := sluice.Open(context.Background(), sluice.Config{Store: filepath.Join(dir, "store"), Embedder: doubles.NewEncoder(), Generator: doubles.NewModel("Of rocks [1].")})
	if err != nil {
		panic(err)
	}
	if _, err := s.Ingest(context.Background(), []string{file}, sluice.IngestOptions{NoChunk: true}); err != nil {
		panic(err)
	}
	return s, func() { s.Close(); os.RemoveAll(dir) }
}
