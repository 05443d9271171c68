package main

import (
	"runtime"
	"testing"

	"github.com/sluice-rag/sluice/engine/cores"
)

// TestServeLeavesProcessorsToRequests checks that there are processors beside as many goroutines in C as there are
// cores, and that the CPU budget does not grow.
func TestServeLeavesProcessorsToRequests(t *testing.T) {
	before, most := runtime.GOMAXPROCS(0), cores.Available()
	restore := spareProcessors()
	if n := runtime.GOMAXPROCS(0); n < most+2 {
		t.Errorf("%d processors, %d goroutines compute", n, most)
	}
	if n := cores.Available(); n > max(most, runtime.NumCPU()) {
		t.Errorf("%d cores to compute on", n)
	}
	restore()
	if n := runtime.GOMAXPROCS(0); n != before {
		t.Errorf("%d processors afterwards, %d before", n, before)
	}
}
