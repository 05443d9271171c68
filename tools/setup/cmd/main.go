// Command cmd runs the set-up: go run ./tools/setup/cmd [PART…]. Without a part it assembles what the product needs.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/sluice-rag/sluice/tools/setup"
)

const usage = `usage: go run ./tools/setup/cmd [-all-sets] [preflight | PART…]

Assembles native parts and models into git-ignored folders; what is right already is left alone.
Without an argument: everything the product needs. SLUICE_CACHE moves the cache (~/.cache/sluice).

  -all-sets    build ggml's CPU code for all instruction sets, from now on in this clone, not only for this machine's
  preflight    only check that the machine has the tools
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && (args[0] == "-h" || args[0] == "--help" || args[0] == "help") {
		fmt.Print(usage)
		for _, line := range setup.Parts() {
			fmt.Println(" ", line)
		}
		return nil
	}
	root, err := repository()
	if err != nil {
		return err
	}
	env, err := setup.New(root, os.Stderr)
	if err != nil {
		return err
	}
	if len(args) > 0 && args[0] == "-all-sets" {
		if err := env.AllSets(); err != nil {
			return err
		}
		args = args[1:]
	}
	if len(args) == 1 && args[0] == "preflight" {
		return env.Preflight(ctx, true)
	}
	return env.Run(ctx, args...)
}

// repository returns the folder of go.mod at or above the working directory.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "third_party", "manifest.yaml")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("run this inside Sluice's repository: no third_party/manifest.yaml here or above")
		}
		dir = up
	}
}
