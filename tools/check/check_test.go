package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTags(t *testing.T) {
	for _, c := range []struct{ flags, with, without string }{
		{"", "-tags=native", ""},
		{"-buildvcs=false", "-buildvcs=false -tags=native", "-buildvcs=false"},
		{"-tags=a,b -v", "-tags=a,b,native -v", "-tags=a,b -v"},
		{"-v -tags=native", "-v -tags=native", "-v"},
		{"-tags=a,native", "-tags=a,native", "-tags=a"},
	} {
		if got := withTag(c.flags, "native"); got != c.with {
			t.Errorf("withTag(%q) = %q, want %q", c.flags, got, c.with)
		}
		if got := withoutTag(c.flags, "native"); got != c.without {
			t.Errorf("withoutTag(%q) = %q, want %q", c.flags, got, c.without)
		}
	}
}

// The events are what go 1.26 printed for small packages: a pass, a skip, a failure, a package that does not compile, a
// test that calls os.Exit, and a package without tests.
const events = `{"Action":"run","Package":"m/a","Test":"TestGood"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"pass","Package":"m/a","Test":"TestGood","Elapsed":0.01}
{"Action":"output","Package":"m/a","Test":"TestSkip","Output":"=== RUN   TestSkip\n"}
{"Action":"output","Package":"m/a","Test":"TestSkip","Output":"    a_test.go:9: no ../shared/data here\n"}
{"Action":"output","Package":"m/a","Test":"TestSkip","Output":"--- SKIP: TestSkip (0.00s)\n"}
{"Action":"skip","Package":"m/a","Test":"TestSkip","Elapsed":0}
{"Action":"output","Package":"m/a","Test":"TestBad","Output":"    a_test.go:12: got 1, want 2\n"}
{"Action":"fail","Package":"m/a","Test":"TestBad","Elapsed":0}
{"Action":"fail","Package":"m/a","Elapsed":0.2}
{"ImportPath":"m/b [m/b.test]","Action":"build-output","Output":"b/b.go:3:1: syntax error\n"}
{"ImportPath":"m/b [m/b.test]","Action":"build-fail"}
{"Action":"output","Package":"m/b","Output":"FAIL\tm/b [build failed]\n"}
{"Action":"fail","Package":"m/b","Elapsed":0,"FailedBuild":"m/b [m/b.test]"}
{"Action":"output","Package":"m/c","Test":"TestExit","Output":"about to die\n"}
{"Action":"output","Package":"m/c","Output":"FAIL\tm/c\t0.1s\n"}
{"Action":"fail","Package":"m/c","Elapsed":0.1}
{"Action":"skip","Package":"m/d","Elapsed":0}
not JSON
`

func TestParser(t *testing.T) {
	var out bytes.Buffer
	p := &parser{label: "native", out: &out}
	for line := range strings.Lines(events) {
		p.line([]byte(strings.TrimSpace(line)))
	}
	if p.total.Passed != 1 || p.total.Failed != 3 || p.total.Skipped != 1 {
		t.Errorf("counts: %+v", p.total)
	}
	if p.total.Reasons["no ../shared/data here"] != 1 {
		t.Errorf("reasons: %v", p.total.Reasons)
	}
	for _, want := range []string{"got 1, want 2", "syntax error", "about to die", "not JSON", "FAIL  m/a"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, &out)
		}
	}
	if got := strings.Join(p.skipped["m/a"], " "); got != "TestSkip" {
		t.Errorf("skipped: %q", got)
	}
	if want := "native: m/a TestBad|native: m/b|native: m/c"; strings.Join(p.failed, "|") != want {
		t.Errorf("failed: %q", p.failed)
	}
	if strings.Contains(out.String(), "m/d") {
		t.Error("a package without tests is not worth a line")
	}
}

// TestParserLongOutput checks that the beginning and the end of a long output are printed.
func TestParserLongOutput(t *testing.T) {
	var out bytes.Buffer
	p := &parser{label: "native", out: &out}
	for i := range 10_000 {
		p.line(fmt.Appendf(nil, `{"Action":"output","Package":"m/a","Test":"TestLong","Output":"line %d\n"}`, i))
	}
	p.line([]byte(`{"Action":"fail","Package":"m/a","Test":"TestLong"}`))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2*maxOutput+1 || lines[0] != "line 0" || lines[maxOutput] != "…" ||
		lines[2*maxOutput] != "line 9999" {
		t.Errorf("%d lines, the first %q, the last %q", len(lines), lines[0], lines[len(lines)-1])
	}
}

func TestSummaryFailsOnFailures(t *testing.T) {
	var out bytes.Buffer
	r := &runner{out: &out}
	if r.summary() != 0 {
		t.Error("no failures: exit code 0")
	}
	r.silent(t.Context(), "prints", "", "echo", "something")
	r.silent(t.Context(), "fails", "", "false")
	r.silent(t.Context(), "is missing", "", "no-such-command-at-all")
	r.silent(t.Context(), "works", "", "true")
	if code := r.summary(); code != 1 || !strings.Contains(out.String(), "1 passed, 3 failed, 0 skipped") {
		t.Errorf("exit code %d:\n%s", code, &out)
	}
}

// TestBeside checks that the output of concurrent steps appears in their order, and that their failures count.
func TestBeside(t *testing.T) {
	var out bytes.Buffer
	r := &runner{out: &out, env: []string{"A=1"}}
	met := make(chan struct{})
	r.beside(
		func(r *runner) { <-met; r.silent(t.Context(), "first", "", "true") },
		func(r *runner) { r.env = nil; r.silent(t.Context(), "second", "", "false"); close(met) },
	)
	first, second := strings.Index(out.String(), "first"), strings.Index(out.String(), "second")
	if first < 0 || second < first || r.total.Passed != 1 || r.total.Failed != 1 || len(r.env) != 1 ||
		strings.Join(r.failed, " ") != "second" {
		t.Errorf("%+v, %v, %v\n%s", r.total, r.failed, r.env, &out)
	}
}

// TestAffected checks that a package is tested again if its own files differ, or if one of its tests' files is missing,
// and that only additional test files are run.
func TestAffected(t *testing.T) {
	module := func(tag bool) map[string]listed {
		native := map[bool]string{false: "none.go", true: "native.go"}[tag]
		more := map[bool][]string{false: {"a_test.go"}, true: {"a_test.go", "a_native_test.go"}}[tag]
		twins := map[bool][]string{false: {"none_test.go"}, true: {"native_test.go"}}[tag]
		return map[string]listed{
			"m/low":      {GoFiles: []string{"low.go"}, TestGoFiles: []string{"low_test.go"}},
			"m/llm":      {GoFiles: []string{"llm.go", native}, XTestGoFiles: []string{"llm_test.go"}},
			"m/inner":    {Dir: "/m/inner", GoFiles: []string{"inner.go"}, TestGoFiles: more},
			"m/outer":    {GoFiles: []string{"outer.go"}, XTestGoFiles: twins},
			"m/untested": {GoFiles: []string{native}},
		}
	}
	without, with := module(false), module(true)
	with["m/new"] = listed{TestGoFiles: []string{"new_test.go"}}
	others, grown, same := affected(without, with)
	if want := "m/llm m/new m/outer"; strings.Join(others, " ") != want || same != 1 {
		t.Errorf("%v, not %s; %d the same", others, want, same)
	}
	if got := grown["m/inner"]; len(grown) != 1 || len(got) != 1 || got[0] != "/m/inner/a_native_test.go" {
		t.Errorf("more tests: %v", grown)
	}
	if others, grown, same := affected(with, with); len(others)+len(grown) > 0 || same != 5 {
		t.Errorf("compared with itself: %v, %v, %d", others, grown, same)
	}
	if got := strings.Join(onlyIn(without, with), " "); got != "m/llm m/outer m/untested" {
		t.Errorf("files that are only there without the tag: %s", got)
	}
}

func TestDeclared(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a_test.go")
	text := "package a\n\nfunc TestOne(t *testing.T) {\n\tfunc TestNot() {}\n}\n\nfunc FuzzTwo(f *testing.F) {}\n" +
		"func helper() {}\nfunc Example_three() {}\nfunc BenchmarkFour(b *testing.B) {}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := declared([]string{file}); err != nil || strings.Join(got, " ") != "TestOne FuzzTwo Example_three" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := declared([]string{file + ".no"}); err == nil {
		t.Error("a file that is not there declares nothing")
	}
}

// TestOnceOnly: the tests that one pass leaves out exist, so that a renamed one is not left out unseen.
func TestOnceOnly(t *testing.T) {
	declared := ""
	err := filepath.WalkDir("../../engine", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		declared += string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.Trim(onceOnly, "^()$"), "|") {
		if !strings.Contains(declared, "func "+name+"(") {
			t.Errorf("there is no %s in engine", name)
		}
	}
}

// TestCompiling checks that packages are compiled ahead as `go test` does: with the same flags and packages, without
// those that select tests.
func TestCompiling(t *testing.T) {
	got := compiling([]string{"-race", "-skip", "^TestA$", "-run", "TestB", "./cuda", "./engine/..."})
	if diff := cmp.Diff([]string{"list", "-export", "-test", "-toolexec", "env GOGC=800", "-race", "./cuda",
		"./engine/..."}, got); diff != "" {
		t.Error(diff)
	}
}

// TestCompileAhead checks that what a later step would run is compiled in its environment, without output, and that
// stop does not wait for the rest of it.
func TestCompileAhead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	begun := filepath.Join(dir, "begun")
	if err := syscall.Mkfifo(begun, 0o600); err != nil {
		t.Fatal(err)
	}
	write("nice", "#!/bin/sh\necho \"$STEP $GOFLAGS $@\" > "+begun+"\nexec sleep 10000\n")
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	var out bytes.Buffer
	r := &runner{out: &out}
	stop := r.compileAhead(t.Context(), func(r *runner, ctx context.Context) {
		r.env = []string{"STEP=a"}
		r.beside(func(r *runner) { r.test(ctx, "what", "-v", "-race", "-run", "x", "./a") })
	})
	calls, err := os.ReadFile(begun)
	stop()
	if err != nil {
		t.Fatal(err)
	}
	want := "a -v -n 19 go list -export -test -toolexec env GOGC=800 -race ./a\n"
	if diff := cmp.Diff(want, string(calls)); diff != "" || out.Len() > 0 || r.total.Passed+r.total.Failed > 0 {
		t.Errorf("%s\nsaid %q, %+v", diff, &out, r.total)
	}
}
