//go:build native && cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/cuda/drivertest"
)

// probe names what TestMain reports about the driver, in a process of its own, because a process loads one driver.
const probe = "SLUICE_CUDA_TEST_PROBE"

func TestMain(m *testing.M) {
	if os.Getenv(probe) == "" {
		os.Exit(m.Run())
	}
	list, err := cuda.Devices()
	_, opening := cuda.Open(cuda.Options{})
	fmt.Printf("%d devices; unavailable: %t %t; %v\n", len(list), errors.Is(err, cuda.ErrUnavailable),
		errors.Is(opening, cuda.ErrUnavailable), err)
	if err != nil { // a driver repaired while the process runs is found by the next call
		os.Setenv("SLUICE_STANDIN_INIT", "0")
		os.Setenv(cuda.EnvLibrary, os.Getenv("SLUICE_CUDA_TEST_SECOND"))
		list, err = cuda.Devices()
		fmt.Printf("then %d devices, %v\n", len(list), err)
	}
}

func run(t *testing.T, env ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(append(os.Environ(), probe+"=1"), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func TestWithoutDriver(t *testing.T) {
	small := drivertest.BuildSmall(t)
	for _, c := range []struct {
		name, want string
		env        []string
	}{
		{"no library", "0 devices; unavailable: true true; cuda: not available: no CUDA driver: /none/libcuda.so.1: " +
			"cannot open shared object file", []string{cuda.EnvLibrary + "=/none/libcuda.so.1"}},
		{"another library", "0 devices; unavailable: true true; cuda: not available: no CUDA driver: ",
			[]string{cuda.EnvLibrary + "=" + os.Args[0]}},
		{"no GPU",
			"0 devices; unavailable: true true; cuda: not available: cuda: cuInit: CUDA_ERROR_NO_DEVICE (100): no " +
				"CUDA-capable device is detected", []string{cuda.EnvLibrary + "=" + small, "SLUICE_STANDIN_DEVICES=0"}},
		{"library and kernel module differ", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)",
			[]string{cuda.EnvLibrary + "=" + small, "SLUICE_STANDIN_INIT=803"}},
		{"two GPUs", "2 devices; unavailable: false false; <nil>",
			[]string{cuda.EnvLibrary + "=" + small, "SLUICE_STANDIN_DEVICES=2"}},
	} {
		if out := run(t, c.env...); !strings.Contains(out, c.want) {
			t.Errorf("%s: %q, want %q", c.name, out, c.want)
		}
	}
	if out := run(t, cuda.EnvLibrary+"=/none", "SLUICE_CUDA_TEST_SECOND="+small); !strings.Contains(out,
		"then 1 devices, <nil>") {
		t.Errorf("a driver that came later: %q", out)
	}
}

// This test program links gorgonia.org/cu and starts without libcuda: libcuda is not among its needed libraries, and no
// symbol of it is unresolved.
func TestNoLibcudaIsNeeded(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil || len(libraries) == 0 {
		t.Fatal(libraries, err)
	}
	for _, l := range libraries {
		if strings.Contains(l, "cuda") {
			t.Errorf("needs %s", l)
		}
	}
	symbols, err := f.ImportedSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if strings.HasPrefix(s.Name, "cu") && len(s.Name) > 2 && s.Name[2] >= 'A' && s.Name[2] <= 'Z' {
			t.Errorf("imports %s", s.Name)
		}
	}
}
