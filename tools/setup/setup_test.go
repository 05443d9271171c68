package setup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/manifest"
)

// newEnv returns an environment over an empty repository and an empty cache.
func newEnv(t *testing.T) (*Env, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	t.Setenv(fetch.EnvCache, t.TempDir())
	e, err := New(t.TempDir(), &out)
	if err != nil {
		t.Fatal(err)
	}
	e.ready = true // no preflight
	return e, &out
}

// counting returns a recipe that writes its input to lib/thing and counts its builds.
func counting(input *string, builds *atomic.Int64) recipe {
	return recipe{name: "thing", version: 1,
		inputs: func(context.Context, *Env) ([]string, error) { return []string{*input}, nil },
		build: func(_ context.Context, _ *Env, j job) error {
			builds.Add(1)
			return WriteFile(filepath.Join(j.out, "lib", "thing"), strings.NewReader(*input), 0o644)
		}}
}

func thingPart(r recipe) part {
	return part{name: "thing", doc: "a thing", key: keyOf(r), recipes: outputsOf(r),
		files: []install{{"lib/*", "third_party/thing/"}}}
}

func TestRecipeRunsWhenAnInputChanges(t *testing.T) {
	e, _ := newEnv(t)
	input, builds := "one", &atomic.Int64{}
	r := counting(&input, builds)
	first, err := e.output(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := e.output(t.Context(), r); err != nil || again != first || builds.Load() != 1 {
		t.Errorf("second time: %q %v, %d builds", again, err, builds.Load())
	}
	input = "two"
	second, err := e.output(t.Context(), r)
	if err != nil || second == first || builds.Load() != 2 {
		t.Errorf("another input: %q %v, %d builds", second, err, builds.Load())
	}
	input = "one"
	if back, err := e.output(t.Context(), r); err != nil || back != first || builds.Load() != 2 {
		t.Errorf("the first input again: %q %v, %d builds", back, err, builds.Load())
	}
	r.version++
	if _, err := e.output(t.Context(), r); err != nil || builds.Load() != 3 {
		t.Errorf("another version of the recipe: %v, %d builds", err, builds.Load())
	}
	if left, _ := os.ReadDir(e.Cache.Path("build")); len(left) > 0 {
		t.Errorf("work left behind: %v", left)
	}
}

func TestFailedBuildLeavesNoOutputAndGoesOn(t *testing.T) {
	e, _ := newEnv(t)
	fail := true
	r := recipe{name: "thing", version: 1, inputs: func(context.Context, *Env) ([]string, error) { return nil, nil }}
	r.build = func(_ context.Context, _ *Env, j job) error {
		half := filepath.Join(j.work, "half")
		if fail {
			return errors.Join(errors.New("out of luck"), os.WriteFile(half, nil, 0o644),
				os.WriteFile(filepath.Join(j.out, "bad"), nil, 0o644))
		}
		if !exists(half) {
			return errors.New("the work of the failed run is gone")
		}
		return os.WriteFile(filepath.Join(j.out, "good"), nil, 0o644)
	}
	if _, err := e.output(t.Context(), r); !errors.Is(err, ErrPart) || !strings.Contains(err.Error(), "out of luck") {
		t.Errorf("%v", err)
	}
	if left, _ := os.ReadDir(e.Cache.Path("out")); len(left) > 0 {
		t.Errorf("output of a failed build: %v", left)
	}
	fail = false
	dir, err := e.output(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if !exists(filepath.Join(dir, "good")) || exists(filepath.Join(dir, "bad")) {
		t.Error("the output holds what the failed run wrote")
	}
}

func TestEditDuringABuildIsNoticed(t *testing.T) {
	e, _ := newEnv(t)
	input := "before"
	r := counting(&input, &atomic.Int64{})
	build := r.build
	r.build = func(ctx context.Context, e *Env, j job) error {
		err := build(ctx, e, j)
		input = "after"
		return err
	}
	if _, err := e.output(t.Context(), r); !errors.Is(err, ErrPart) || !strings.Contains(err.Error(), "changed") {
		t.Errorf("%v", err)
	}
}

func TestTwoSetUpsBuildOnce(t *testing.T) {
	e, _ := newEnv(t)
	input, builds := "x", &atomic.Int64{}
	r := counting(&input, builds)
	build := r.build
	r.build = func(ctx context.Context, e *Env, j job) error {
		time.Sleep(50 * time.Millisecond)
		return build(ctx, e, j)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := e.output(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if builds.Load() != 1 {
		t.Errorf("%d builds", builds.Load())
	}
}

func TestPartIsSkippedWhenRightAndRepairedWhenNot(t *testing.T) {
	e, _ := newEnv(t)
	input, builds := "content", &atomic.Int64{}
	p := thingPart(counting(&input, builds))
	file := filepath.Join(e.Repo, "third_party", "thing", "thing")
	check := func(what string, worked bool) {
		t.Helper()
		did, err := e.ensure(t.Context(), p)
		if err != nil || did != worked {
			t.Errorf("%s: worked %t, want %t; %v", what, did, worked, err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != input {
			t.Errorf("%s: %q %v", what, got, err)
		}
	}
	check("first", true)
	check("second", false)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	check("file removed", true)
	if err := os.WriteFile(file, []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	check("file changed", true)
	if err := os.WriteFile(e.statePath(p), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	check("note damaged", true)
	if builds.Load() != 1 {
		t.Errorf("%d builds for one input", builds.Load())
	}
	input = "other"
	check("input changed", true)
}

// TestLanes checks that the parts of a lane run one after the other, concurrently with other lanes, and that the
// failure of one does not affect the others.
func TestLanes(t *testing.T) {
	e, out := newEnv(t)
	downloading, crated, compiled := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var compilers atomic.Int64
	one := func(name, lane string, assemble func() error) part {
		return part{name: name, lane: lane,
			key:      func(context.Context, *Env) (string, error) { return name, nil },
			assemble: func(context.Context, *Env, []string) error { return assemble() }}
	}
	compile := func(then func() error) func() error {
		return func() error {
			if compilers.Add(1) != 1 {
				t.Error("two parts of a lane at once")
			}
			defer compilers.Add(-1)
			return then()
		}
	}
	did, errs := e.ensureAll(t.Context(), []part{
		one("first", "c++", compile(func() error { <-downloading; return errStop })),
		one("crates", "rust", func() error { close(crated); <-compiled; return nil }),
		one("model", "", func() error { <-crated; close(downloading); <-compiled; return nil }),
		one("second", "c++", compile(func() error { close(compiled); return nil })),
	})
	if did != 4 || len(errs) != 1 || !errors.Is(errs[0], errStop) {
		t.Errorf("%d parts, %v", did, errs)
	}
	for _, want := range []string{"first        FAILED", "model        done", "second       done"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q lacks %q", out, want)
		}
	}
}

var errStop = errors.New("stopped by the test")

func TestRunCommandShowsTheEndOfItsOutput(t *testing.T) {
	e, _ := newEnv(t)
	err := e.run(t.Context(), job{name: "thing"}, e.Repo, []string{"WHO=me"}, "sh", "-c",
		"seq 1 100; echo $WHO; exit 3")
	if err == nil || !strings.Contains(err.Error(), "100\nme\n") || strings.Contains(err.Error(), "\n50\n") {
		t.Fatalf("%v", err)
	}
	log, rerr := os.ReadFile(e.Cache.Path("logs", "thing.log"))
	if rerr != nil || !strings.Contains(string(log), "\n50\n") ||
		!strings.Contains(err.Error(), e.Cache.Path("logs", "thing.log")) {
		t.Errorf("log: %v", rerr)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := e.run(ctx, job{name: "thing"}, e.Repo, nil, "sleep", "60"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("interrupted: %v", err)
	}
}

func TestStamp(t *testing.T) {
	e, _ := newEnv(t)
	lib := filepath.Join(e.Repo, "third_party", "a", "liba.a")
	stamp := filepath.Join(e.Repo, "pkg", "stamp", "native.digest")
	write := func(text string) string {
		t.Helper()
		if err := WriteFile(lib, strings.NewReader(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := e.stamp("pkg", linked{"a/liba.a", "a v1"}, linked{"b/none.a", "not there"}); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(stamp)
		if err != nil {
			t.Fatal(err)
		}
		return string(got)
	}
	// printf '%s' one | sha256sum
	const want = "liba.a sha256:7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed a v1\n"
	if got := write("one"); got != want {
		t.Errorf("%q", got)
	}
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	if err := os.Chtimes(stamp, old, old); err != nil {
		t.Fatal(err)
	}
	write("one")
	if st, err := os.Stat(stamp); err != nil || !st.ModTime().Equal(old) {
		t.Error("an unchanged stamp was written again")
	}
	if write("two") == want {
		t.Error("a changed archive has the same stamp")
	}
}

func TestUnknownPart(t *testing.T) {
	e, _ := newEnv(t)
	if err := e.Run(t.Context(), "no-such-part"); err == nil || !strings.Contains(err.Error(), "onnxruntime") {
		t.Errorf("%v", err)
	}
}

func TestPreflightNamesEverythingThatIsMissing(t *testing.T) {
	e, out := newEnv(t)
	t.Setenv("PATH", t.TempDir())
	for _, name := range []string{"CC", "CXX", EnvPython} {
		t.Setenv(name, "")
	}
	err := e.Preflight(t.Context(), true)
	if !errors.Is(err, ErrPrerequisite) {
		t.Fatalf("%v", err)
	}
	for _, tool := range e.tools() {
		if !strings.Contains(err.Error(), tool.name+" ") || !strings.Contains(err.Error(), tool.hint()) {
			t.Errorf("%s or its hint %q is not in:\n%v", tool.name, tool.hint(), err)
		}
	}
	if out.Len() > 0 {
		t.Errorf("said to be there: %s", out)
	}
}

func TestPreflightOldVersion(t *testing.T) {
	e, _ := newEnv(t)
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	for name, text := range map[string]string{"cmake": "echo cmake version 3.5.2", "ninja": "echo 1.10.0",
		"cargo": "echo broken >&2; exit 1"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := e.Preflight(t.Context(), false)
	if err == nil || !strings.Contains(err.Error(), "at least 3.14") || !strings.Contains(err.Error(), "broken") ||
		strings.Contains(err.Error(), "Ninja") {
		t.Errorf("%v", err)
	}
}

func TestOlder(t *testing.T) {
	for _, c := range []struct {
		got, min string
		want     bool
	}{{"3.14", "3.14", false}, {"3.9", "3.14", true}, {"4.0", "3.14", false}, {"1.26.8", "1.26.0", false},
		{"1.26", "1.26.1", true}, {"", "1.8", true}} {
		if older(c.got, c.min) != c.want {
			t.Errorf("older(%q, %q) = %t", c.got, c.min, !c.want)
		}
	}
}

func TestUntar(t *testing.T) {
	write := func(headers ...*tar.Header) string {
		t.Helper()
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		w := tar.NewWriter(z)
		for _, h := range headers {
			h.Size = int64(len(h.Name))
			if h.Typeflag != tar.TypeReg {
				h.Size = 0
			}
			if err := w.WriteHeader(h); err != nil {
				t.Fatal(err)
			}
			if h.Size > 0 {
				if _, err := w.Write([]byte(h.Name)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := errors.Join(w.Close(), z.Close()); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "a.tar.gz")
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	all := func(string) bool { return true }
	good := write(&tar.Header{Name: "top/src/a.c", Typeflag: tar.TypeReg, Mode: 0o600},
		&tar.Header{Name: "top/doc/b", Typeflag: tar.TypeReg, Mode: 0o755},
		&tar.Header{Name: "other/c", Typeflag: tar.TypeReg})
	dir := t.TempDir()
	err := untar(good, "top", dir, func(name string) bool { return strings.HasPrefix(name, "src/") })
	if got, rerr := os.ReadFile(filepath.Join(dir, "src", "a.c")); err != nil || rerr != nil ||
		string(got) != "top/src/a.c" {
		t.Errorf("%v; %q %v", err, got, rerr)
	}
	for name, h := range map[string]*tar.Header{
		"leaves":  {Name: "top/../../evil", Typeflag: tar.TypeReg},
		"symlink": {Name: "top/link", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink},
		"device":  {Name: "top/dev", Typeflag: tar.TypeChar},
	} {
		if err := untar(write(h), "top", t.TempDir(), all); err == nil {
			t.Errorf("%s: extracted", name)
		}
	}
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.tar.gz")
	if err := os.WriteFile(cut, text[:len(text)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	if err := untar(cut, "top", t.TempDir(), all); err == nil {
		t.Error("a truncated archive was taken as whole")
	}
}

// The recipes of our own manifest have distinct keys that do not depend on the order of calls.
func TestOurKeys(t *testing.T) {
	e, _ := newEnv(t)
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("needs a POSIX system")
	}
	bin := t.TempDir()
	for _, tool := range []string{"gcc", "g++"} {
		if err := os.WriteFile(filepath.Join(bin, tool), []byte("#!/bin/sh\necho "+tool+" 1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	t.Setenv("CC", "")
	t.Setenv("CXX", "")
	for path, text := range map[string]string{
		filepath.Join(e.bindingDir(), "jinja_guard.h"): "// ours", filepath.Join(e.ggmlDir(), "a.h"): "// ours",
		e.patchDir(everywhere, "1.patch"): onePatch, e.patchDir(libraryPatches, "1.patch"): onePatch,
		e.patchDir(cpuPatches, "1.patch"): onePatch, e.patchDir(jinjaPatches, "1.patch"): onePatch,
	} {
		if err := WriteFile(path, strings.NewReader(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	some, all := e.isas()[:1], e.isas()
	cpus := []string{"libcpu-1"}
	for _, r := range []recipe{onnxruntime(), libllama(), llamaBench(), llamaServer(), libjinja(), libcpu(all[0]),
		libcpu(all[1]), libcpu(all[2]), binding(some, "libllama-1", "libjinja-1", cpus, false),
		binding(some, "libllama-2", "libjinja-1", cpus, false), binding(some, "libllama-2", "libjinja-2", cpus, false),
		binding(some, "libllama-2", "libjinja-2", []string{"libcpu-2"}, false),
		binding(all, "libllama-2", "libjinja-2", []string{"libcpu-2", "libcpu-3"}, false),
		binding(some, "libllama-2", "libjinja-2", cpus, true)} {
		k, err := r.key(t.Context(), e)
		if err != nil || seen[k] {
			t.Errorf("%s: key %q, %v", r.name, k, err)
		}
		seen[k] = true
		if again, _ := r.key(t.Context(), e); again != k {
			t.Errorf("%s: %q, then %q", r.name, k, again)
		}
	}
	if got := e.defaults(); len(got) != 2 {
		t.Errorf("default models: %v", got)
	}
	if _, ok := e.Manifest.DefaultModel(manifest.Classifier); ok {
		t.Error("a classifier would have to be in defaults()")
	}
}

func TestFormatting(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1500: "2 kB", 76_589_250: "76.6 MB",
		2_270_000_000: "2.27 GB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{1500 * time.Millisecond: "1.5 s", 125 * time.Second: "2 min 05 s"} {
		if got := took(d); got != want {
			t.Errorf("took(%v) = %q, want %q", d, got, want)
		}
	}
}
