package serve

import (
	"runtime"
	"testing"
)

// TestMemoryFallsAgain checks that the memory of a large request is returned to the system.
func TestMemoryFallsAgain(t *testing.T) {
	kept := releaseGrown(0)
	large := make([][]byte, 300)
	for i := range large {
		large[i] = make([]byte, 1<<20)
		large[i][i] = 1
	}
	before := heldMemory()
	runtime.KeepAlive(large)
	after := releaseGrown(kept)
	if before < kept+memoryGrowth || after > before-200<<20 {
		t.Errorf("%d MiB at first, %d with the request, %d behind it", kept>>20, before>>20, after>>20)
	}
	if again := releaseGrown(after); again > after+memoryGrowth {
		t.Errorf("%d MiB, then %d", after>>20, again>>20)
	}
}
