package sluice_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// ExampleSluice_AskStream prints an answer as it is made.
func ExampleSluice_AskStream() {
	s, end := library("In last in, first out order [1].")
	defer end()
	o := overlay.On(answer.DefaultOptions(), answer.Options{Retrieve: retrieve.Options{K: 1}})
	for part, err := range s.AskStream(context.Background(), "In which order, and when, does a deferred function run?",
		o) {
		switch {
		case err != nil:
			fmt.Println(err)
		case part.Trace != nil:
			fmt.Println("gate open:", part.Trace.Gate.Retrieve)
		case part.Sources != nil:
			fmt.Println("source:", part.Sources[0].ID)
		case part.Answer != nil:
			fmt.Println()
			fmt.Println("cited:", part.Answer.Citations[0].Cited)
		default:
			fmt.Print(part.Text)
		}
	}
	// Output:
	// gate open: true
	// source: defer
	// In last in, first out order [1].
	// cited: true
}

// library returns a calibrated store of the small library with doubles for the models.
func library(answers ...string) (s *sluice.Sluice, end func()) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "sluice")
	if err != nil {
		panic(err)
	}
	file := filepath.Join(dir, "library.jsonl")
	err = os.WriteFile(file, []byte(doubles.Contexts), 0o600)
	if err == nil {
		s, err = sluice.Open(ctx, sluice.Config{Store: filepath.Join(dir, "store"), Embedder: doubles.NewEncoder(),
			Generator: doubles.NewModel(answers...)})
	}
	if err == nil {
		_, err = s.Ingest(ctx, []string{file}, ingest.Options{NoChunk: true})
	}
	if err == nil {
		_, err = s.Calibrate(ctx,
			calibrate.Options{Queries: strings.NewReader(doubles.Questions), Source: "questions"})
	}
	if err != nil {
		panic(err)
	}
	return s, func() {
		_ = s.Close()
		_ = os.RemoveAll(dir)
	}
}

// TestAskStreamEnds checks that leaving the loop ends the answer, and that an error comes last.
func TestAskStreamEnds(t *testing.T) {
	s, end := library("one two three four")
	defer end()
	for stopAt := 1; stopAt <= 4; stopAt++ {
		parts := 0
		for _, err := range s.AskStream(t.Context(), "Do lighthouses warn ships of rocks?", answer.DefaultOptions()) {
			if err != nil {
				t.Fatal(err)
			}
			if parts++; parts == stopAt {
				break
			}
		}
		if parts != stopAt {
			t.Errorf("%d parts, want %d", parts, stopAt)
		}
	}
	gone := errors.New("gone")
	o := overlay.On(answer.DefaultOptions(),
		answer.Options{Gate: answer.GateClosed, Stream: func(string) error { return gone }})
	var last error
	for _, err := range s.AskStream(t.Context(), "x", o) {
		last = err
	}
	if !errors.Is(last, gone) {
		t.Error(last)
	}
}

// TestWith checks that another store over the same models holds other documents, and is closed alone.
func TestWith(t *testing.T) {
	s, end := library("an answer")
	defer end()
	other := s.With(filepath.Join(t.TempDir(), "other"))
	file := filepath.Join(t.TempDir(), "b.jsonl")
	if err := os.WriteFile(file, []byte(`{"id":"anchor","text":"An anchor holds a ship."}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Ingest(t.Context(), []string{file}, ingest.Options{NoChunk: true}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		s  *sluice.Sluice
		id string
	}{{s, "lights"}, {other, "anchor"}} {
		found, err := c.s.Retrieve(t.Context(), []string{"Do lighthouses warn a ship of rocks?"},
			overlay.On(retrieve.DefaultOptions(), retrieve.Options{K: 1}))
		if err != nil || found[0].Results[0].ID != c.id {
			t.Errorf("%v, %v, want %s", found, err, c.id)
		}
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Gate(t.Context(), []string{"x"}); !errors.Is(err, sluice.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := s.Ask(t.Context(), "Do lighthouses warn ships of rocks?", answer.DefaultOptions()); err != nil {
		t.Errorf("the first one after the second one has gone: %v", err)
	}
}
