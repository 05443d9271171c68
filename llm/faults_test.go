//go:build native

package llm

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/generator"
)

// TestAllocationFailures: memory that the scheduler's thread cannot get ends a request, not the process. The driver has
// an operator new that refuses the first allocation, the second one, and so on.
func TestAllocationFailures(t *testing.T) {
	cxx, err := exec.LookPath("g++")
	if err != nil {
		t.Skip("SKIP: no g++ to compile the driver with")
	}
	const native = "../third_party/llama"
	if _, err := os.Stat(native + "/include/llama.h"); err != nil {
		t.Skipf("SKIP: the set-up's headers are not here: %v", err)
	}
	dir := t.TempDir()
	model, bin := filepath.Join(dir, "m.gguf"), filepath.Join(dir, "faults")
	p, _ := generator.Preset("llama-bpe")
	if err := generator.Write(model, p); err != nil {
		t.Fatal(err)
	}
	build := exec.Command(cxx, "-std=c++17", "-O1", "-Wall", "-Wextra", "-I", native+"/include", "-o", bin,
		"binding/testdata/faults.cpp", native+"/lib/libbinding.a", "-lpthread", "-ldl", "-lm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), bin, model, "400").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
