package sluice_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/ingest"
)

const question = "How does Sluice find damaged vectors in a store?"

// Example does every step with the default models, which 'sluice models pull' fetches: it reads the folder docs into
// the store kb, calibrates the gate, and answers a question.
func Example() {
	ctx := context.Background()
	s, err := sluice.Open(ctx, sluice.Config{Store: "kb"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	in, err := s.Ingest(ctx, []string{"docs"}, ingest.DefaultOptions())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(in.Documents, "documents,", in.Chunks, "chunks")

	// Extractive questions are made of the passages' words. Without this option, a language model that passed its
	// examination writes them, which takes minutes.
	o := calibrate.DefaultOptions()
	o.Questions = calibrate.Extracted
	c, err := s.Calibrate(ctx, o)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("the gate opens above %.2f\n", c.Cutoff)

	decisions, err := s.Gate(ctx, []string{question})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("worth a search:", decisions[0].Retrieve)

	a, err := s.Ask(ctx, question, answer.DefaultOptions())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(a.Answer)
	for _, c := range a.Citations {
		fmt.Println("from", c.Source)
	}
}
