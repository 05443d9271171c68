//go:build native

package llm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoGPULibrary: layers for a GPU that cannot be offloaded are a typed error with the reason, whatever is wrong with
// the library; what was asked for is named.
func TestNoGPULibrary(t *testing.T) {
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk.so")
	if err := os.WriteFile(junk, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, reason := range map[string]string{
		filepath.Join(dir, "missing.so"): "missing.so",
		junk:                             "junk.so",
		"libm.so.6":                      "not a back-end of ggml",
	} {
		err := loadGPU(path)
		if !errors.Is(err, ErrGPU) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", path, err)
		}
	}
	t.Setenv(EnvGPULibrary, filepath.Join(dir, "asked.so"))
	if got := (Options{}).gpuLibrary(); got != filepath.Join(dir, "asked.so") {
		t.Errorf("the environment's library is %s", got)
	}
	if got := (Options{GPULibrary: "x.so"}).gpuLibrary(); got != "x.so" {
		t.Errorf("the option's library is %s", got)
	}
}
