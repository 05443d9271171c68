package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// runner runs steps one after the other and adds up what they say. A failed step does not stop the rest.
type runner struct {
	out     io.Writer
	started time.Time
	total   counts
	failed  []string            // names, for the summary
	dir     string              // of the commands, if not this folder
	env     []string            // for the commands, in addition to the process's own
	skipped map[string][]string // tests that the last test left out, by package
	ahead   bool                // test only compiles what it would run
}

// hasty lets the compilers, linkers and vet that go calls collect their garbage later, but not the tests: a tenth less
// of their time. What go keeps is the same.
func hasty() []string { return []string{"-toolexec", "env GOGC=800"} }

func (r *runner) command(ctx context.Context, goflags, name string, args ...string) *exec.Cmd {
	if name == "go" && len(args) > 0 && slices.Contains([]string{"build", "vet", "test"}, args[0]) {
		args = slices.Concat(args[:1], hasty(), args[1:])
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = r.dir, slices.Concat(os.Environ(), []string{"GOFLAGS=" + goflags}, r.env)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// silent runs a command that must succeed and print nothing. It counts as one test.
func (r *runner) silent(ctx context.Context, what, goflags, name string, args ...string) {
	if ctx.Err() != nil {
		return
	}
	start := time.Now()
	var stdout, stderr bytes.Buffer
	cmd := r.command(ctx, goflags, name, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err == nil && stdout.Len() == 0 {
		r.total.Passed++
		fmt.Fprintf(r.out, "ok    %-36s %s\n", what, seconds(time.Since(start)))
		return
	}
	r.total.Failed++
	r.failed = append(r.failed, what)
	fmt.Fprintf(r.out, "FAIL  %-36s %s\n$ %s %s\n%s%s\n", what, seconds(time.Since(start)),
		name, strings.Join(args, " "), &stdout, &stderr)
}

// test runs `go test -json` and prints a line per package that has tests. go vet runs by itself: as a part of each
// go test, it would read all that a package needs again for each way of compiling it.
func (r *runner) test(ctx context.Context, what, goflags string, args ...string) {
	if ctx.Err() != nil {
		return
	}
	if r.ahead {
		// A failure here is repeated and reported where it is run.
		_ = r.command(ctx, goflags, "nice", append([]string{"-n", "19", "go"}, compiling(args)...)...).Run()
		return
	}
	fmt.Fprintf(r.out, "----  go test %s (%s)\n", strings.Join(args, " "), what)
	cmd := r.command(ctx, goflags, "go", append([]string{"test", "-json", "-vet=off", "-timeout", "20m"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.fail(what, err.Error())
		return
	}
	p := &parser{label: what, out: r.out}
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		p.line(lines.Bytes())
	}
	if lines.Err() != nil {
		_, _ = io.Copy(io.Discard, stdout)
	}
	err = cmd.Wait()
	r.total.add(p.total)
	r.skipped = p.skipped
	r.failed = append(r.failed, p.failed...)
	if err != nil && p.total.Failed == 0 { // a failure that no event told of
		r.fail(what, fmt.Sprintf("%v\n%s", err, &stderr))
	}
}

// compiling returns the arguments with which go compiles, and keeps, all that a `go test` needs, but does not link it.
func compiling(test []string) []string {
	args := slices.Concat([]string{"list", "-export", "-test"}, hasty())
	for i := 0; i < len(test); i++ {
		if test[i] == "-run" || test[i] == "-skip" {
			i++ // say what is run only
			continue
		}
		args = append(args, test[i])
	}
	return args
}

// compileAhead compiles what the tests of a later step need, with the lowest priority, until stop is called: it is for
// a processor that waits. What has been compiled by then is kept.
func (r *runner) compileAhead(ctx context.Context, step func(*runner, context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { step(&runner{out: io.Discard, started: r.started, ahead: true}, ctx) })
	return func() {
		cancel()
		all.Wait()
	}
}

// beside runs steps concurrently, each on a runner of its own, and prints and adds up their results in order. It is for
// steps with one package each, during which a processor would be idle.
func (r *runner) beside(steps ...func(*runner)) {
	runners := make([]runner, len(steps))
	texts := make([]bytes.Buffer, len(steps))
	var all sync.WaitGroup
	for i, step := range steps {
		runners[i] = runner{out: &texts[i], started: r.started, dir: r.dir, env: r.env, ahead: r.ahead}
		all.Go(func() { step(&runners[i]) })
	}
	all.Wait()
	for i := range runners {
		_, _ = r.out.Write(texts[i].Bytes())
		r.total.add(runners[i].total)
		r.failed = append(r.failed, runners[i].failed...)
	}
}

func (r *runner) fail(what, text string) {
	r.total.Failed++
	r.failed = append(r.failed, what)
	fmt.Fprintf(r.out, "FAIL  %s\n%s\n", what, text)
}

// fuzz runs every fuzz target of every package.
func (r *runner) fuzz(ctx context.Context, each time.Duration) {
	flags := withTag(os.Getenv("GOFLAGS"), "native")
	list, err := r.command(ctx, flags, "go", "list", "./...").Output()
	if err != nil {
		r.fail("go list", err.Error())
		return
	}
	for pkg := range strings.FieldsSeq(string(list)) {
		out, err := r.command(ctx, flags, "go", "test", "-list", "^Fuzz", pkg).CombinedOutput()
		if err != nil {
			r.fail(pkg, string(out))
			continue
		}
		for name := range strings.FieldsSeq(string(out)) {
			if ctx.Err() != nil || !strings.HasPrefix(name, "Fuzz") {
				continue
			}
			start := time.Now()
			// Go makes each input that reaches new code as small as it can, for up to a minute each: in a run of less
			// than that, little else would happen.
			out, err := r.command(ctx, flags, "go", "test", "-run", "^$", "-fuzz", "^"+name+"$", "-fuzztime",
				each.String(), "-fuzzminimizetime", "10x", pkg).CombinedOutput()
			if err != nil {
				r.fail(pkg+" "+name, string(out))
				continue
			}
			r.total.Passed++
			fmt.Fprintf(r.out, "ok    %s %s %s\n", short(pkg), name, seconds(time.Since(start)))
		}
	}
}

// summary prints the counts and returns the exit code.
func (r *runner) summary() int {
	fmt.Fprintf(r.out, "\n%d passed, %d failed, %d skipped in %s\n",
		r.total.Passed, r.total.Failed, r.total.Skipped, seconds(time.Since(r.started)))
	for _, reason := range slices.Sorted(maps.Keys(r.total.Reasons)) {
		fmt.Fprintf(r.out, "  skipped %d × %s\n", r.total.Reasons[reason], reason)
	}
	for _, name := range r.failed {
		fmt.Fprintf(r.out, "  FAILED  %s\n", name)
	}
	if r.total.Failed > 0 {
		return 1
	}
	return 0
}

func seconds(d time.Duration) string {
	if d >= time.Minute {
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}
