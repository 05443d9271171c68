// Command cmd makes the archive for other machines and tries it on another system: go run ./tools/dist/cmd build.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/tools/dist"
)

const usage = `usage: go run ./tools/dist/cmd build | check [-root DIR] [-suite NAME] [-arch ARCH] [-documents DIR] [ARCHIVE]

In the root of a checkout.

  build    make the archive in dist/; the set-up must be done for all instruction sets (make dist does that first)
  check    try the archive (default: the one in dist/) in the root folder of another system. If the folder does not
           exist, debootstrap installs a suite of Debian there. Needs root. Models are copied from the cache. The
           programs of another architecture than this machine's run in an emulator (qemu-user-static): give a folder
           of a few sentences instead of docs/adr, one of which says what the build tag native does. QEMU_CPU names
           the processor that it imitates, such as cortex-a72.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if errors.Is(err, errUsage) {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage")

func run(ctx context.Context, args []string) error {
	repo, err := os.Getwd()
	if err != nil {
		return err
	}
	switch {
	case len(args) == 1 && args[0] == "build":
		archive, err := dist.Build(ctx, repo, os.Stderr)
		if err == nil {
			fmt.Println(archive)
		}
		return err
	case len(args) > 0 && args[0] == "check":
		return check(ctx, repo, args[1:])
	}
	return errUsage
}

func check(ctx context.Context, repo string, args []string) error {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	suite := flags.String("suite", "bookworm", "")
	root := flags.String("root", "", "")
	arch := flags.String("arch", runtime.GOARCH, "")
	documents := flags.String("documents", filepath.Join(repo, "docs", "adr"), "")
	flags.Usage = func() {}
	if flags.Parse(args) != nil || flags.NArg() > 1 {
		return errUsage
	}
	cache, err := fetch.Open("")
	if err != nil {
		return err
	}
	o := dist.CheckOptions{Archive: flags.Arg(0), Root: *root, Suite: *suite, Models: cache.Path("models"),
		Documents: *documents, Log: os.Stdout, Arch: *arch}
	if o.Root == "" {
		o.Root = cache.Path("roots", *suite)
		if *arch != runtime.GOARCH {
			o.Root += "-" + *arch
		}
	}
	if o.Archive == "" {
		found, err := filepath.Glob(filepath.Join(repo, "dist", "sluice-*.tar.gz"))
		if err != nil || len(found) != 1 {
			return fmt.Errorf("dist/ holds %d archives; make one with: make dist", len(found))
		}
		o.Archive = found[0]
	}
	return dist.Check(ctx, o)
}
