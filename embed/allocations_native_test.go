//go:build native

package embed

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/race"
)

// TestAllocationsOfAQuestion checks that embedding a question allocates only what a call needs: its tensors are reused
// from the last question of the same length, and its operators, which are called 7 times, allocate only the sums of
// pooling.
func TestAllocationsOfAQuestion(t *testing.T) {
	race.Skip(t)
	e, question := openEncoder(t, minilm(t), Options{}), []string{"How are slices grown in a Go program?"}
	ask := func() {
		if _, err := e.Embed(t.Context(), question, Query); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	n := testing.AllocsPerRun(50, ask)
	if t.Logf("%v allocations", n); n > 30 {
		t.Errorf("%v allocations, at most 30 expected", n)
	}
}

// TestKeptTensors checks that reused tensors give the same rows as new ones, also after another question of the same
// length, a cancelled one and a batch, and that concurrent runs do not share tensors.
func TestKeptTensors(t *testing.T) {
	e := openEncoder(t, minilm(t), Options{})
	questions := []string{"How are slices grown?", "When do locks block?", "How are slices grown?",
		"A longer question about it?"}
	var want [][]float32
	for _, q := range questions {
		r, err := e.Embed(t.Context(), []string{q, "Beside another text, so that nothing is kept."}, Query)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, r.Data[:r.Dim])
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 40 {
				k := (i + g) % len(questions)
				if i%7 == 3 {
					_, _ = e.Embed(cancelled, questions[k:k+1], Query)
				}
				r, err := e.Embed(t.Context(), questions[k:k+1], Query)
				if err != nil || !slices.Equal(r.Data, want[k]) {
					t.Errorf("question %d: other rows than in a batch, %v", k, err)
				}
			}
		})
	}
	all.Wait()
}
