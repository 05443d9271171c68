// Command cmd compiles kernels/cuda: go run ./tools/cudaimage/cmd [-check]. make cuda-image fetches the compiler first.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/sluice-rag/sluice/tools/cudaimage"
	"github.com/sluice-rag/sluice/tools/setup"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	check := flag.Bool("check", false, "compile and compare with what is checked in, and list its architectures")
	flag.Parse()
	if err := run(ctx, *check); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, check bool) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	tools := filepath.Join(root, "build", "out")
	nvcc := filepath.Join(tools, "nvcc")
	image, report := cudaimage.Paths(root)
	if check {
		i, err := cudaimage.Compare(ctx, root, nvcc)
		if err != nil {
			return err
		}
		fmt.Print(i.Report(), "\nThe image that is checked in has these bytes. cuobjdump lists:\n")
		out, err := exec.CommandContext(ctx, filepath.Join(tools, "cuobjdump"), "-lelf", "-lptx",
			image).CombinedOutput()
		fmt.Print(string(out))
		return err
	}
	i, err := cudaimage.Compile(ctx, root, nvcc)
	if i != nil && i.Bytes != nil {
		fmt.Print(i.Report())
	}
	if err != nil {
		return err
	}
	if err := setup.WriteFile(image, strings.NewReader(string(i.Bytes)), 0o644); err != nil {
		return err
	}
	return setup.WriteFile(report, strings.NewReader(i.Report()), 0o644)
}
