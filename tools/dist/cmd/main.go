// Command cmd makes the archive for other machines: go run ./tools/dist/cmd build.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/sluice-rag/sluice/tools/dist"
)

const usage = `usage: go run ./tools/dist/cmd build

  build    make the archive in dist/, of the checkout in the working folder; its set-up must be done for all
           instruction sets (make dist does that first)
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	if len(args) != 1 || args[0] != "build" {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	repo, err := os.Getwd()
	if err == nil {
		var archive string
		if archive, err = dist.Build(ctx, repo, os.Stderr); err == nil {
			fmt.Println(archive)
			return 0
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}
