// Package race tells tests whether they run under the race detector, which makes some of them 30 times slower.
package race

import "testing"

// Skip leaves a test to the run without the race detector: one that brings no goroutines together in another way than
// other tests do, and takes long under it.
func Skip(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("SKIP: the race detector has nothing to find here, and takes minutes")
	}
}
