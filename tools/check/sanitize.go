package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// instrumented are the packages whose C code is ours.
const instrumented = "./kernels/cpu/..."

// sanitizing returns steps that run the tests of the C kernels, and those of the language model's binding that need no
// large model, under AddressSanitizer, which also watches Go's heap (go help build, -asan), and
// UndefinedBehaviorSanitizer. An access outside a kernel's buffers, or undefined behaviour in C, ends the test. A
// sanitized call from Go allocates, so the tests that count allocations are left out; what go build compiles is tested
// without.
func (r *runner) sanitizing(ctx context.Context) []func(*runner) {
	const what, undefined = "asan, ubsan", "-fsanitize=undefined"
	compiler := cmp.Or(os.Getenv("CC"), "gcc")
	if _, err := exec.LookPath(compiler); err != nil || runtime.GOOS != "linux" ||
		runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		return []func(*runner){func(r *runner) {
			r.leaveOut(what, fmt.Sprintf("sanitizers need gcc on linux, amd64 or arm64 (%s/%s, %s)",
				runtime.GOOS, runtime.GOARCH, compiler))
		}}
	}
	return []func(*runner){
		func(r *runner) {
			wrapper, err := lightly(compiler, "-Og")
			if err != nil {
				r.fail(what, err.Error())
				return
			}
			r.env = []string{"CGO_ENABLED=1", "CC=" + wrapper, "CGO_CFLAGS=" + undefined + " -fno-sanitize-recover=all",
				"CGO_LDFLAGS=" + undefined}
			flags := withoutTag(os.Getenv("GOFLAGS"), "native")
			r.test(ctx, what, flags, "-asan", "-skip", "AllocateNothing|EditsRebuild", instrumented)
		},
		func(r *runner) { r.sanitizeBinding(ctx, what, undefined) },
	}
}

// leaveOut counts a step that cannot run here as a test that was skipped.
func (r *runner) leaveOut(what, reason string) {
	r.total.Skipped++
	r.total.skip(reason, 1)
	fmt.Fprintf(r.out, "skip  %s: %s\n", what, reason)
}

// sanitizeBinding is the half of sanitizing that is about the language model.
func (r *runner) sanitizeBinding(ctx context.Context, what, undefined string) {
	// The sanitized library comes first on the linker's path.
	library, err := filepath.Abs("build/out/asan")
	if err != nil {
		r.fail(what, err.Error())
		return
	}
	if _, err := os.Stat(filepath.Join(library, "libbinding.a")); err != nil {
		r.leaveOut(what, "the sanitized libbinding is not built (make asan builds it)")
		return
	}
	r.env = []string{"CGO_ENABLED=1", "CGO_LDFLAGS=-L" + library + " " + undefined}
	flags := withTag(os.Getenv("GOFLAGS"), "native")
	r.beside(
		func(r *runner) { r.test(ctx, what, flags, "-asan", "-run", bindingTests, "./llm/tests") },
		func(r *runner) { r.test(ctx, what, flags, "-asan", "-run", upstreamTests, "./llm") },
	)
}

// lightly returns a compiler that calls the given one with a low level of optimization after all flags of packages: the
// last -O counts, and with the kernels' -O3 they compile for more than a minute; files that set a level themselves do
// not under SLC_LIGHTLY. It has its own path, because go caches by the compiler's path.
func lightly(compiler, level string) (path string, err error) {
	path, err = filepath.Abs("build/out/lightly" + level + "-" + filepath.Base(compiler))
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte("#!/bin/sh\nexec "+compiler+" \"$@\" -DSLC_LIGHTLY "+level+"\n"), 0o755))
	}
	return path, err
}

// bindingTests are the tests of models of random weights: architectures, caches, pins, queues, grammars, and thousands
// of odd requests. upstreamTests are about upstream's package and chat templates, whose memory C frees, without
// the hostile templates, which throw from the end of a stack of their own: the sanitizer takes that for an overflow
// (google/sanitizers#189), and what they may take is measured in time.
const (
	bindingTests  = "^Test(Arch|Literal|Tools|Pin|Priority|Soak|StructuredRefused|Ambiguous|Grammar|NaN|Chat)"
	upstreamTests = "^Test(Upstream|TemplateNames|Chat(TemplatesAsJinja|SystemMessages|Errors|Contents|Together))"
)
