package drivertest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/filelock"
)

// Flags of the host compiler. Contraction is off because canonical scores round after every operation.
var flags = []string{"-std=c++17", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-shared", "-fPIC",
	"-fvisibility=hidden",
	"-Wl,-soname,libcuda.so.1", "-Wl,--no-undefined"}

// ErrNoCompiler is returned if there is no C++ compiler.
var ErrNoCompiler = errors.New("drivertest: no C++ compiler")

// Build returns the path of a stand-in driver with the kernels of kernels/cuda. It is compiled once per state of its
// sources, in build/out/standin. Without a C++ compiler the test is skipped.
func Build(t testing.TB) string {
	t.Helper()
	return build(t, filepath.Join("kernels", "cuda", "host", "kernels.cpp"), "kernels/cuda")
}

// BuildSmall returns a stand-in driver with the kernels of standin/kernels.cpp, for the tests of package cuda.
func BuildSmall(t testing.TB) string {
	t.Helper()
	return build(t, filepath.Join("cuda", "drivertest", "standin", "kernels.cpp"), "")
}

func build(t testing.TB, kernels, sources string) string {
	t.Helper()
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	path, err := Compile(t.Context(), root, kernels, sources)
	if errors.Is(err, ErrNoCompiler) {
		t.Skip("SKIP: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Compile builds the stand-in driver from the repository at root and returns the library's path. kernels is the file
// that defines slc_host_launch, sources its include folder or ""; both are relative to root.
func Compile(ctx context.Context, root, kernels, sources string) (string, error) {
	cxx := cmp.Or(os.Getenv("CXX"), "g++")
	id, err := exec.CommandContext(ctx, cxx, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s: %w", ErrNoCompiler, cxx, err)
	}
	driver := filepath.Join(root, "cuda", "drivertest", "standin")
	folders := []string{driver}
	if sources != "" {
		folders = append(folders, filepath.Join(root, sources))
	}
	digest, err := digestOf(root, append([]string{string(id), kernels}, flags...), folders)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "build", "out", "standin", digest)
	library := filepath.Join(dir, "libcuda.so.1")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := filelock.Wait(lock, false); err != nil { // for another process that compiles it
		return "", err
	}
	if _, err := os.Stat(library); err == nil {
		return library, nil
	}
	made := library + ".new"
	args := slices.Concat(flags,
		[]string{"-o", made, filepath.Join(driver, "state.cpp"), filepath.Join(driver, "memory.cpp"),
			filepath.Join(driver, "stream.cpp"), filepath.Join(driver, "maps.cpp"),
			filepath.Join(root, kernels), "-lpthread"})
	if out, err := exec.CommandContext(ctx, cxx, args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("drivertest: %s %s: %w\n%s", cxx, strings.Join(args, " "), err, out)
	}
	return library, os.Rename(made, library)
}

// digestOf hashes the strings and the C++ sources of the folders.
func digestOf(root string, words, folders []string) (string, error) {
	h := sha256.New()
	for _, w := range words {
		fmt.Fprintf(h, "%d\x00%s", len(w), w)
	}
	for _, dir := range folders {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			ext := filepath.Ext(path)
			if err != nil || !slices.Contains([]string{".h", ".cpp", ".cu", ".cuh", ".inc"}, ext) {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, path)
			fmt.Fprintf(h, "%s\x00%d\x00%s", name, len(text), text)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8]), nil
}

// repository returns the folder of go.mod, at or above the working directory.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "cuda", "drivertest", "standin")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("drivertest: the working directory is not inside Sluice's repository")
		}
		dir = up
	}
}
