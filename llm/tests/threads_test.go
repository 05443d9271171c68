//go:build native

package tests

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/race"
)

// TestThreadsBesideOtherPrograms: as many threads compute as have processors. Short disturbances change nothing, and
// once the other programs have ended, all threads compute again.
func TestThreadsBesideOtherPrograms(t *testing.T) {
	race.Skip(t)
	compiler, err := exec.LookPath(cmp.Or(os.Getenv("CXX"), "g++"))
	if err != nil {
		t.Skipf("SKIP: %v", err)
	}
	program := filepath.Join(t.TempDir(), "threads")
	text, err := exec.Command(compiler, "-std=c++17", "-o", program, "testdata/threads.cpp").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	text, err = exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(text))
	// The share of a part of the decodes in which so many threads computed.
	share := func(from, to, threads int) float64 {
		n := 0
		for _, line := range lines[from:to] {
			if line == strconv.Itoa(threads) {
				n++
			}
		}
		return float64(n) / float64(to-from)
	}
	if s := share(0, 1500, 8); s != 1 {
		t.Errorf("alone, 8 threads computed %.3f of the decodes", s)
	}
	if s := share(1525, 3000, 2); s < .9 {
		t.Errorf("beside programs that leave two processors, 2 threads computed %.3f of the decodes", s)
	}
	if s := share(3600, 4500, 8); s < .9 {
		t.Errorf("12 s after the programs had ended, 8 threads computed %.3f of the decodes", s)
	}
}
