// Gpubundle packs the program, tests that run on a GPU, a stand-in for the driver and the script run-gpu into one
// archive for a machine without toolchain and network. Started by `make gpu-bundle`; its arguments are the folder to
// write to and the cache of the set-up. With -models DATA (`make gpu-models`) it packs what the encoder's and the
// language model's lines need, in pieces.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/sluice-rag/sluice/cuda/drivertest"
	"github.com/sluice-rag/sluice/kernels/cuda/image"
)

//go:embed run-gpu
var script []byte

// limit is the size of the archive, in bytes.
const limit = 64 << 20

func main() {
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 2:
		err = pack(context.Background(), args[0], args[1])
	case len(args) == 4 && args[2] == "-models":
		err = packModels(args[0], args[1], args[3])
	default:
		fmt.Fprintln(os.Stderr, "usage: gpubundle FOLDER CACHE [-models DATA]")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpubundle:", err)
		os.Exit(1)
	}
}

func pack(ctx context.Context, parent, cache string) error {
	dir := filepath.Join(parent, "gpu-bundle")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(filepath.Join(dir, "standin"), 0o755)); err != nil {
		return err
	}
	small := "-ldflags=-s -w"
	for _, args := range [][]string{
		{"build", small, "-o", filepath.Join(dir, "sluice"), "./cmd/sluice"},
		{"test", "-c", small, "-o", filepath.Join(dir, "engine.test"), "./engine"},
		{"test", "-c", small, "-o", filepath.Join(dir, "gpu.test"), "./engine/internal/device/gpu"},
		{"test", "-c", small, "-o", filepath.Join(dir, "embed.test"), "./embed"},
	} {
		if err := run(ctx, "go", args...); err != nil {
			return err
		}
	}
	kernels := filepath.Join("kernels", "cuda", "host", "kernels.cpp")
	library, err := drivertest.Compile(ctx, ".", kernels, "kernels/cuda")
	if err != nil {
		return err
	}
	data, err := os.ReadFile(library)
	if err != nil {
		return err
	}
	err = errors.Join(os.WriteFile(filepath.Join(dir, "standin", "libcuda.so.1"), data, 0o755),
		os.WriteFile(filepath.Join(dir, "sluice.fatbin"), image.Bytes(), 0o644),
		os.WriteFile(filepath.Join(dir, "run-gpu"), script, 0o755))
	if err != nil {
		return err
	}
	packages, err := filepath.Glob(filepath.Join(cache, "flashlib", "flashlib*")) // and what pip says of it
	if err != nil {
		return err
	}
	for _, from := range packages {
		if err := os.CopyFS(filepath.Join(dir, "python", filepath.Base(from)), os.DirFS(from)); err != nil {
			return err
		}
	}
	archive := dir + ".tar.gz"
	if err := run(ctx, "tar", "-C", parent, "-czf", archive, "gpu-bundle"); err != nil {
		return err
	}
	info, err := os.Stat(archive)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %.1f MiB\n", archive, float64(info.Size())/(1<<20))
	if info.Size() >= limit {
		return fmt.Errorf("%s has %d bytes, %d is the limit", archive, info.Size(), limit)
	}
	return nil
}

func run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %v: %w", name, args, err)
	}
	return nil
}
