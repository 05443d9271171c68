package check

import "testing"

// Stretches are the sentences of a text.
var Stretches = stretches

// Steps returns how many facts and words a check compares.
func Steps(t testing.TB, o Options, answer string, passages []string) int {
	t.Helper()
	x, _, err := o.check(t.Context(), answer, passages)
	if err != nil {
		t.Fatal(err)
	}
	return x.steps
}
