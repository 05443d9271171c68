package corpus

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// walked returns the names of the files that a walk finds, and what it leaves out, by its path below dir.
func walked(t *testing.T, dir string, o FileOptions, paths ...string) (names []string, left map[string]error) {
	t.Helper()
	left = map[string]error{}
	w := newWalker(context.Background(), o)
	w.file = func(f found) error { names = append(names, f.name); return nil }
	w.skip = func(source string, err error, _ bool) error {
		left[strings.TrimPrefix(source, dir+"/")] = err
		return nil
	}
	for _, p := range paths {
		if err := w.path(p); err != nil {
			t.Fatal(err)
		}
	}
	return names, left
}

// TestIgnoreAsGit: what a walk reads of a repository is what git does not ignore.
func TestIgnoreAsGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("SKIP: git is not installed")
	}
	dir := must(filepath.EvalSymlinks(t.TempDir()))
	run := func(args ...string) (string, error) {
		cmd := exec.Command(git, append([]string{"-C", dir, "-c", "core.excludesFile=/dev/null"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+dir)
		out, err := cmd.Output()
		return string(out), err
	}
	if out, err := run("init", "-q", "."); err != nil {
		t.Fatal(out, err)
	}
	write(t, dir, ".gitignore",
		"\ufeff# comment\n*.log\n!keep.log\n/top.txt\nbuild/\ndocs/*.tmp\na/**/z.txt\n**/deep/x.txt\n"+
			"whole/**\n\\#hash.txt\n\\!bang.txt\ntrail.txt   \nspace\\ \nq?.txt\n[a-c]1.txt\n[!a-c]2.txt\n{x,y}.txt\n"+
			"sub/only/\n!sub/only/kept.txt\nfoo**bar.txt\n[[:digit:]]3.txt\n"+
			"[unclosed\nabc/**\n!abc/in.txt\n\\*star.txt\r\n/\n!\n")
	write(t, dir, "sub/.gitignore", "*.md\n!good.md\n/here.txt\ninner/*.txt\n")
	write(t, dir, "sub/lower/.gitignore", "!very.md\n*.log\n")
	write(t, dir, ".git/info/exclude", "private.txt\n")
	var all []string
	for _, name := range []string{"a.log", "keep.log", "top.txt", "sub/top.txt", "build/x.txt", "sub/build/y.txt",
		"x/build", "docs/a.tmp", "docs/in/a.tmp", "a/z.txt", "a/b/z.txt", "a/b/c/z.txt", "z.txt", "deep/x.txt",
		"p/deep/x.txt", "whole/a.txt", "whole/b/c.txt", "#hash.txt", "!bang.txt", "trail.txt", "space ", "qa.txt",
		"qab.txt", "a1.txt", "d1.txt", "a2.txt", "d2.txt", "{x,y}.txt", "x.txt", "y.txt", "sub/only/kept.txt",
		"foobar.txt", "fooxxbar.txt", "foo/bar.txt", "73.txt", "x3.txt", "[unclosed", "sub/a.md", "sub/good.md",
		"sub/here.txt", "sub/s/here.txt", "sub/inner/a.txt", "sub/inner/b/a.txt", "sub/lower/very.md",
		"sub/lower/keep.log", "sub/lower/other.md", "private.txt", "sub/private.txt", "a.md", "ümlaut.log",
		"abc/in.txt",
		"abc/out.txt", "*star.txt", "astar.txt"} {
		write(t, dir, name, "words")
		all = append(all, name)
	}
	var want []string
	for _, name := range all {
		out, err := run("check-ignore", "-q", "--no-index", "--", name)
		var exit *exec.ExitError
		switch {
		case err == nil: // ignored
		case errors.As(err, &exit) && exit.ExitCode() == 1:
			want = append(want, name)
		default:
			t.Fatal(name, out, err)
		}
	}
	got, _ := walked(t, dir, FileOptions{}, dir)
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-git +walk):\n%s", diff)
	}
	below, _ := walked(t, dir, FileOptions{}, filepath.Join(dir, "sub"))
	for i := range below {
		below[i] = "sub/" + below[i]
	}
	want = slices.DeleteFunc(want, func(name string) bool { return !strings.HasPrefix(name, "sub/") })
	slices.Sort(below)
	if diff := cmp.Diff(want, below); diff != "" {
		t.Errorf("a folder of the repository (-git +walk):\n%s", diff)
	}
	if open, _ := walked(t, dir, FileOptions{NoIgnore: true}, dir); len(open) != len(all) {
		t.Errorf("%d files without ignore files, want %d", len(open), len(all))
	}
}

// TestWhatIsLeftOut: hidden files, folders of packages, the order of ignore files, includes and excludes.
func TestWhatIsLeftOut(t *testing.T) {
	dir := must(filepath.EvalSymlinks(t.TempDir()))
	for _, name := range []string{"a.md", "b.txt", "c.txt", ".h.md", ".git/x.md", "node_modules/p/r.md",
		"env/pyvenv.cfg",
		"env/lib/l.md", "CVS/pharmacy.md", "old/CVS/Entries", "old/CVS/e.md", "docs/a.md", "docs/draft/b.md",
		"docs/draft/b.txt", "cache/CACHEDIR.TAG", "cache/c.md"} {
		write(t, dir, name, "words")
	}
	write(t, dir, ".gitignore", "a.md\nb.txt\n")
	write(t, dir, ".ignore", "!a.md\nc.txt\n")
	write(t, dir, ".sluiceignore", "!c.txt\n")
	for _, c := range []struct {
		name string
		o    FileOptions
		want string
	}{
		{"by default", FileOptions{}, "CVS/pharmacy.md a.md c.txt docs/a.md docs/draft/b.md"},
		{"hidden", FileOptions{Hidden: true}, ".gitignore .h.md .ignore .sluiceignore CVS/pharmacy.md a.md c.txt " +
			"docs/a.md docs/draft/b.md"},
		{"include", FileOptions{Include: []string{"*.md"}}, "CVS/pharmacy.md a.md docs/a.md docs/draft/b.md"},
		{"include in folders", FileOptions{Include: []string{"docs/**/*.{md,txt}"}},
			"docs/a.md docs/draft/b.md"},
		{"exclude", FileOptions{Exclude: []string{"draft", "CVS", "/c.txt"}}, "a.md docs/a.md"},
		{"both", FileOptions{Include: []string{"*.md"}, Exclude: []string{"a.md"}}, "CVS/pharmacy.md docs/draft/b.md"},
		{"all", FileOptions{NoIgnore: true, Include: []string{"*.md"}}, "CVS/pharmacy.md a.md cache/c.md docs/a.md " +
			"docs/draft/b.md env/lib/l.md node_modules/p/r.md old/CVS/e.md"},
	} {
		if got, _ := walked(t, dir, c.o, dir); strings.Join(got, " ") != c.want {
			t.Errorf("%s: %s, want %s", c.name, strings.Join(got, " "), c.want)
		}
	}
	_, left := walked(t, dir, FileOptions{}, dir)
	for name, want := range map[string]error{"b.txt": ErrIgnored, ".h.md": ErrHidden, "node_modules": ErrIgnored,
		"env": ErrIgnored, "old/CVS": ErrIgnored, "cache": ErrIgnored} {
		if !errors.Is(left[name], want) {
			t.Errorf("%s: %v, want %v", name, left[name], want)
		}
	}
	if got, _ := walked(t, dir, FileOptions{}, filepath.Join(dir, "b.txt")); !slices.Equal(got, []string{"b.txt"}) {
		t.Errorf("a file that is given is read although it is ignored: %v", got)
	}
	if err := (FileOptions{Include: []string{"[a"}}).check(); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

// TestPatterns: patterns that the shell has not expanded.
func TestPatterns(t *testing.T) {
	dir := must(filepath.EvalSymlinks(t.TempDir()))
	for _, name := range []string{"a.md", "docs/a.md", "docs/x/b.md", "docs/x/b.txt", "docs/.h/c.md", "[odd].md"} {
		write(t, dir, name, "words")
	}
	for pattern, want := range map[string]string{"docs/**/*.md": "a.md x/b.md", "docs/*.md": "a.md",
		"**/b.*": "docs/x/b.md docs/x/b.txt", "docs/{a,x/b}.md": "a.md x/b.md", "docs/**/.h/*": ".h/c.md",
		"[odd].md": "[odd].md", "docs/*/": "a.md x/b.md x/b.txt", "docs/x": "b.md b.txt",
		"doc?": "docs/a.md docs/x/b.md docs/x/b.txt", "docs/?/*": "x/b.md x/b.txt", "nothing/*.md": "",
		"*.pdf": ""} {
		got, left := walked(t, dir, FileOptions{}, filepath.Join(dir, pattern))
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", pattern, got, want)
		}
		if want == "" && left[pattern] == nil {
			t.Errorf("%s: left out %v", pattern, left)
		}
	}
	t.Chdir(dir)
	if got, _ := walked(t, dir, FileOptions{}, "**/a.md"); strings.Join(got, " ") != "a.md docs/a.md" {
		t.Errorf("relative: %v", got)
	}
}

// TestSpecialFiles: only regular files are opened, and no link leads in a circle.
func TestSpecialFiles(t *testing.T) {
	dir := must(filepath.EvalSymlinks(t.TempDir()))
	write(t, dir, "in/a.txt", "Words.")
	for link, to := range map[string]string{"in/loop": dir, "in/self.txt": "self.txt", "in/zero.txt": "/dev/zero",
		"in/again.txt": "a.txt"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "in/pipe.md"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, ".gitignore"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "in/s.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got, left := walked(t, dir, FileOptions{}, dir)
	if !slices.Equal(got, []string{"in/a.txt"}) {
		t.Errorf("read %v", got)
	}
	for name, want := range map[string]error{"in/loop": ErrUnknown, "in/self.txt": ErrFormat, "in/zero.txt": ErrUnknown,
		"in/pipe.md": ErrUnknown, "in/s.txt": ErrUnknown} {
		if !errors.Is(left[name], want) {
			t.Errorf("%s: %v, want %v", name, left[name], want)
		}
	}
	if os.Getuid() == 0 {
		t.Log("permissions do not hold for root: what they forbid is not tested")
		return
	}
	if err := os.Chmod(filepath.Join(dir, "in"), 0); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Chmod(filepath.Join(dir, "in"), 0o755) }()
	if _, left = walked(t, dir, FileOptions{}, dir); !errors.Is(left["in"], fs.ErrPermission) {
		t.Errorf("a folder without permission: %v", left)
	}
}
