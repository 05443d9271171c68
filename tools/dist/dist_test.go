package dist

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/tools/setup"
)

func write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := setup.WriteFile(name, strings.NewReader(text), mode); err != nil {
		t.Fatal(err)
	}
}

func compile(t *testing.T, compiler string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skipf("%s is not here", compiler)
	}
	if out, err := exec.CommandContext(t.Context(), compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", compiler, err, out)
	}
}

func TestVersionsAreComparedByNumber(t *testing.T) {
	var highest Version
	for _, name := range []string{"GLIBC_2.9", "GLIBC_2.34", "GLIBC_2.3", "GLIBC_2.3.4"} {
		family, v, err := parseVersion(name)
		if err != nil || family != "GLIBC" {
			t.Fatalf("%s: %q %v", name, family, err)
		}
		if highest.less(v) {
			highest = v
		}
	}
	if highest.String() != "2.34" {
		t.Errorf("the highest is %s", highest)
	}
	for _, name := range []string{"GLIBC_PRIVATE", "GLIBC_ABI_DT_RELR", "GLIBC"} {
		if _, _, err := parseVersion(name); !errors.Is(err, ErrNeeds) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNeedsAreReadFromTheFile(t *testing.T) {
	dir := t.TempDir()
	source, library := filepath.Join(dir, "a.c"), filepath.Join(dir, "a.so")
	write(t, source, `__asm__(".symver old, realpath@GLIBC_2.3");
char *old(const char *, char *);
char *_Zlike(char *p) { return old(p, 0); }
`, 0o644)
	compile(t, "gcc", "-shared", "-fPIC", "-nostdlib", source, "-o", library, "-Wl,-rpath,$ORIGIN/x", "-lc")
	n, err := ReadNeeds(library)
	if err != nil {
		t.Fatal(err)
	}
	if n.Versions["GLIBC"].String() != "2.3" || !slices.Equal(n.Libraries, []string{"libc.so.6"}) ||
		!slices.Equal(n.Search, []string{"$ORIGIN/x"}) || !slices.Contains(n.Exports, "_Zlike") {
		t.Errorf("%+v", n)
	}
	if err := n.checkProgram(); !errors.Is(err, ErrNeeds) || !strings.Contains(err.Error(), "_Zlike") {
		t.Errorf("an exported C++ symbol: %v", err)
	}
	n.Exports, n.Libraries = nil, append(n.Libraries, "libstdc++.so.6")
	if err := n.checkProgram(); !errors.Is(err, ErrNeeds) || !strings.Contains(err.Error(), "libstdc++.so.6") {
		t.Errorf("a library that not every Linux has: %v", err)
	}
	n.Libraries = n.Libraries[:1]
	if err := n.checkProgram(); err != nil {
		t.Error(err)
	}
}

// TestCompatReplacesNewerFunctions checks that compat.c replaces functions of newer C libraries: exceptions are caught,
// random numbers differ, and the program needs no newer glibc than 2.34.
func TestCompatReplacesNewerFunctions(t *testing.T) {
	dir := t.TempDir()
	source, object, program := filepath.Join(dir, "a.cpp"), filepath.Join(dir, "c.o"), filepath.Join(dir, "a")
	write(t, source, `#include <cstdio>
#include <random>
#include <stdexcept>
__attribute__((noinline)) void fail(unsigned n) { throw std::runtime_error(n ? "caught" : "zero"); }
int main() {
    std::random_device random;
    unsigned all = 0;
    for (int i = 0; i < 8; i++) all |= random();
    try { fail(all); } catch (const std::exception &e) { std::puts(e.what()); }
}
`, 0o644)
	compile(t, "gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-c", filepath.Join("compat", "compat.c"), "-o", object)
	compile(t, "g++", "-O2", "-static-libgcc", "-static-libstdc++", source, object, "-o", program)
	n, err := ReadNeeds(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.checkProgram(); err != nil || (Version{2, 34}).less(n.Versions["GLIBC"]) {
		t.Errorf("%v, %v", n.Versions, err)
	}
	out, err := exec.CommandContext(t.Context(), program).CombinedOutput()
	if err != nil || string(out) != "caught\n" {
		t.Errorf("%q %v", out, err)
	}
}

// tree writes the same files in the order given.
func tree(t *testing.T, names ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "sluice-1")
	for _, name := range names {
		mode := os.FileMode(0o600)
		if strings.HasPrefix(name, "bin/") {
			mode = 0o700
		}
		write(t, filepath.Join(dir, name), "text of "+name, mode)
	}
	return dir
}

func TestArchivesOfTheSameFilesAreTheSame(t *testing.T) {
	names := []string{"bin/sluice", "lib/a.so", "share/doc/x", "README"}
	first := tree(t, names...)
	slices.Reverse(names)
	second := tree(t, names...)
	if err := os.Chtimes(filepath.Join(second, "README"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	var archives [][]byte
	for _, dir := range []string{first, second} {
		if err := writeSums(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(t.TempDir(), "a.tar.gz")
		if err := pack(to, dir, time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(to)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, text)
		out := t.TempDir()
		top, err := unpack(to, out)
		if err != nil || top != "sluice-1" {
			t.Fatal(top, err)
		}
		checkTree(t, filepath.Join(out, top), names)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same files differ")
	}
	if err := os.Symlink("README", filepath.Join(first, "link")); err != nil {
		t.Fatal(err)
	}
	if err := pack(filepath.Join(t.TempDir(), "a"), first, time.Unix(1e9, 0)); err == nil {
		t.Error("a link was packed")
	}
}

// checkTree compares an unpacked tree with its own sums and with what tree wrote.
func checkTree(t *testing.T, dir string, names []string) {
	t.Helper()
	have, err := files(dir)
	if err != nil || len(have) != len(names)+1 {
		t.Fatal(have, err)
	}
	sums, err := os.ReadFile(filepath.Join(dir, sumsName))
	if err != nil || strings.Count(string(sums), "\n") != len(names) {
		t.Errorf("sums: %v\n%s", err, sums)
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name))
		st, e := os.Stat(filepath.Join(dir, name))
		if err = errors.Join(err, e); err != nil || string(text) != "text of "+name {
			t.Fatalf("%s: %q %v", name, text, err)
		}
		if executable := st.Mode()&0o111 == 0o111; executable != strings.HasPrefix(name, "bin/") {
			t.Errorf("%s has the mode %v", name, st.Mode())
		}
		if !strings.Contains(string(sums), "  "+name+"\n") {
			t.Errorf("no sum of %s", name)
		}
	}
	if err := verifySums(t.Context(), dir); err != nil {
		t.Error(err)
	}
	write(t, filepath.Join(dir, names[0]), "another text", 0o644)
	if err := verifySums(t.Context(), dir); err == nil || !strings.Contains(err.Error(), names[0]) {
		t.Errorf("a changed file: %v", err)
	}
}

func TestCompletionsAreThoseOfTheProgram(t *testing.T) {
	b := builder{repo: "../..", work: t.TempDir(), stage: t.TempDir()}
	write(t, b.program(), "#!/bin/sh\necho \"sluice $1 $2\"\n", 0o755)
	if err := b.share(t.Context()); err != nil {
		t.Fatal(err)
	}
	for shell, path := range completions {
		text, err := os.ReadFile(b.path(path))
		if err != nil || string(text) != "sluice completion "+shell+"\n" {
			t.Errorf("%s: %q %v", path, text, err)
		}
	}
	for _, name := range []string{"LICENSE", "share/doc/sluice/README.md", "share/doc/sluice/docs/architecture.md"} {
		if _, err := os.Stat(b.path(name)); err != nil {
			t.Error(err)
		}
	}
	install, err := os.ReadFile(b.path("INSTALL.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range regexp.MustCompile(`\]\(([^)#]+)`).FindAllStringSubmatch(string(install), -1) {
		if _, err := os.Stat(b.path(link[1])); err != nil {
			t.Errorf("INSTALL.md: %v", err)
		}
	}
	write(t, b.program(), "#!/bin/sh\n", 0o755)
	if err := b.share(t.Context()); err == nil {
		t.Error("an empty completion was taken")
	}
}

// TestBuildWantsTheWholeSetUp checks that no archive is built without all instruction sets, or without the tag.
func TestBuildWantsTheWholeSetUp(t *testing.T) {
	t.Setenv("GOFLAGS", "-tags=native")
	if _, err := Build(t.Context(), t.TempDir(), io.Discard); !errors.Is(err, ErrSetup) {
		t.Errorf("sets of this machine: %v", err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "build", "out", "setup", "all-sets"), "", 0o644)
	t.Setenv("GOFLAGS", "")
	if _, err := Build(t.Context(), dir, io.Discard); !errors.Is(err, ErrSetup) {
		t.Errorf("no tag: %v", err)
	}
}
