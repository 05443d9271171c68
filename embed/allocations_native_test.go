//go:build native

package embed

import "testing"

// A question's run allocates what a call, a batch and ONNX Runtime's tensors need; its operators, which are called 31
// times, allocate nothing.
func TestAllocationsOfAQuestion(t *testing.T) {
	e, question := openEncoder(t, minilm(t), Options{}), []string{"How are slices grown in a Go program?"}
	ask := func() {
		if _, err := e.Embed(t.Context(), question, Query); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	n := testing.AllocsPerRun(50, ask)
	if t.Logf("%v allocations", n); n > 90 {
		t.Errorf("%v allocations, at most 90 expected", n)
	}
}
