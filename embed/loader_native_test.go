//go:build native

package embed

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// The system keeps the reason why a library cannot be opened for the thread that tried to: it is told, although other
// goroutines take over the processor meanwhile. A pipe, which another process writes to, makes the opening wait.
func TestReasonOfTheLoader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "libonnxruntime.so")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var all sync.WaitGroup
	defer all.Wait()
	defer stop.Store(true)
	for range 2 * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for !stop.Load() {
			}
		})
	}
	for range 5 {
		writer := exec.Command("sh", "-c", `sleep .1; head -c 1000 /dev/zero >"$0"`, path)
		if err := writer.Start(); err != nil {
			t.Fatal(err)
		}
		_, err := ortRuntime.acquire(path)
		if err == nil || !strings.Contains(err.Error(), "invalid ELF header") {
			t.Error(err)
		}
		if err := writer.Wait(); err != nil {
			t.Error(err)
		}
	}
}
