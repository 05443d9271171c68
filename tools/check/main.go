// Command check runs what `make test` and `make fuzz` promise and counts it: formatting, module files, the build
// without set-up, the native build, the race detector, the C kernels under sanitizers. It prints every failure in full,
// a line per package, and at the end
//
//	N passed, N failed, N skipped
//
// with the reasons of the skips. It exits with 1 when anything failed.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const usage = `usage: go run ./tools/check [test | race | asan | arm64 | fuzz [DURATION]]

  test    everything (the default)
  race    only the tests under the race detector
  asan    only the tests of the C kernels under AddressSanitizer and UndefinedBehaviorSanitizer
  arm64   the tests of the C kernels on emulated processors of arm64, and some of the packages above them
  fuzz    every fuzz target, for DURATION each (default 20s)
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	verb := "test"
	if len(args) > 0 {
		verb = args[0]
	}
	r := &runner{out: os.Stdout, started: time.Now()}
	switch {
	case verb == "test" && len(args) <= 1:
		r.checks(ctx)
	case verb == "race" && len(args) == 1:
		r.racing(ctx)
	case verb == "asan" && len(args) == 1:
		for _, step := range r.sanitizing(ctx) { // each with its own environment
			r.beside(step)
		}
	case verb == "arm64" && len(args) == 1:
		r.wholeARM(ctx)
	case verb == "fuzz" && len(args) <= 2:
		each := 20 * time.Second
		if len(args) == 2 {
			var err error
			if each, err = time.ParseDuration(args[1]); err != nil || each <= 0 {
				fmt.Fprintf(os.Stderr, "check: %q is not a positive duration like 20s\n", args[1])
				return 2
			}
		}
		r.fuzz(ctx, each)
	default:
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	if ctx.Err() != nil {
		fmt.Fprintln(os.Stderr, "check: interrupted")
		return 1
	}
	return r.summary()
}

// checks is `make test`. The untagged half must pass in a clone without set-up.
func (r *runner) checks(ctx context.Context) {
	flags := os.Getenv("GOFLAGS")
	plain, native := withoutTag(flags, "native"), withTag(flags, "native")
	r.silent(ctx, "gofmt", native, "gofmt", "-l", ".")
	r.silent(ctx, "go mod tidy", native, "go", "mod", "tidy", "-diff")
	a, err := r.list(ctx, plain)
	if err != nil {
		r.fail("no set-up", err.Error())
		return
	}
	b, err := r.list(ctx, native)
	if err != nil {
		r.fail("native", err.Error())
		return
	}
	stop := r.compileAhead(ctx, (*runner).racing)
	defer stop()
	r.silent(ctx, "go build, no set-up", plain, "go", "build", "./...")
	r.test(ctx, "no set-up", plain, "-p", oneMore(), "./...")
	skipped := r.skipped
	// The output of these steps keeps their order; they run concurrently, so that no processor waits for the last of
	// one.
	r.beside(
		func(r *runner) {
			r.env = []string{"CGO_ENABLED=0"}
			r.silent(ctx, "go vet, no C compiler", plain, "go", "vet", "./kernels/...", "./engine/...")
			r.test(ctx, "no C compiler", plain, "-skip", onceOnly, "./kernels/...", "./engine/...")
		},
		func(r *runner) {
			// The other packages have no file that the next one does not read.
			r.silent(ctx, "go vet, no set-up", plain, "go", append([]string{"vet"}, onlyIn(a, b)...)...)
			r.silent(ctx, "go vet, native", native, "go", "vet", "./...")
		},
	)
	r.native(ctx, native, a, b, skipped)
	stop() // with its low priority it would hardly go on beside busy programs; the next step compiles the rest
	r.beside(func(r *runner) { r.racing(ctx) })
	r.beside(r.sanitizing(ctx)...)
	r.arm(ctx, "max", quickTests, "./kernels/cpu/...", "./kernels/ref", "./rag/gate")
}

// oneMore is how many packages are tested at a time: one more than there are processors, as some tests wait.
func oneMore() string { return strconv.Itoa(runtime.NumCPU() + 1) }

// native tests the packages that have files of their own with the set-up; the others have been tested without. a and b
// are the packages without and with it, skipped the tests that did not run for want of it.
func (r *runner) native(ctx context.Context, flags string, a, b map[string]listed, skipped map[string][]string) {
	if ctx.Err() != nil {
		return
	}
	others, grown, same := affected(a, b)
	others = slices.DeleteFunc(others, func(p string) bool { return slices.Contains(computing, p) })
	var more, names []string
	for path, files := range grown {
		switch {
		case slices.Contains(computing, path):
		case slices.Contains(whole, path):
			others = append(others, path)
		default:
			found, err := declared(files)
			if err != nil {
				r.fail("native", err.Error())
				return
			}
			more, names = append(more, path), slices.Concat(names, found, skipped[path])
		}
	}
	slices.Sort(others)
	slices.Sort(more)
	slices.Sort(names)
	run := "^(" + strings.Join(slices.Compact(names), "|") + ")$"
	fmt.Fprintf(r.out, "----  %d packages have the same files with the set-up and are not tested again\n", same)
	fmt.Fprintf(r.out, "----  %d have more tests with the set-up: these run, and what was skipped without\n", len(more))
	fmt.Fprintf(r.out, "----  %s have been tested; their tests of GPUs come with the set-up\n",
		strings.Join(computing, ", "))
	r.beside(
		func(r *runner) { r.test(ctx, "native", flags, append([]string{"-run", ofGPUs}, computing...)...) },
		func(r *runner) { r.test(ctx, "native", flags, others...) },
		func(r *runner) { r.test(ctx, "native", flags, append([]string{"-run", run}, more...)...) },
	)
}

// whole are the library and the program: all of their tests run with the set-up as well, because it is within them that
// native parts and the rest come together.
var whole = []string{"github.com/sluice-rag/sluice", "github.com/sluice-rag/sluice/cmd/sluice"}

// computing lists packages for which the set-up only adds a GPU's driver. ofGPUs are their tests of that and of their
// dependencies, which run with the set-up; the others, which take a minute, do not run again, nor do those with a
// stand-in for a GPU, except TestOnGPU.
var computing = []string{
	"github.com/sluice-rag/sluice/engine",
	"github.com/sluice-rag/sluice/engine/internal/statistics",
}

const ofGPUs = "CUDA|OnGPU|NoGPU|Resident|Dependencies"

// withTag returns GOFLAGS with a build tag added.
func withTag(flags, tag string) string {
	fields := strings.Fields(withoutTag(flags, tag))
	for i, f := range fields {
		if name, list, ok := strings.Cut(f, "="); ok && (name == "-tags" || name == "--tags") {
			fields[i] = name + "=" + strings.Trim(list+","+tag, ",")
			return strings.Join(fields, " ")
		}
	}
	return strings.Join(append(fields, "-tags="+tag), " ")
}

// withoutTag returns GOFLAGS without a build tag.
func withoutTag(flags, tag string) string {
	var keep []string
	for f := range strings.FieldsSeq(flags) {
		name, list, ok := strings.Cut(f, "=")
		if !ok || name != "-tags" && name != "--tags" {
			keep = append(keep, f)
			continue
		}
		var tags []string
		for t := range strings.SplitSeq(list, ",") {
			if t != tag && t != "" {
				tags = append(tags, t)
			}
		}
		if len(tags) > 0 {
			keep = append(keep, name+"="+strings.Join(tags, ","))
		}
	}
	return strings.Join(keep, " ")
}
