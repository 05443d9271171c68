package dist

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/internal/buildinfo"
	"github.com/sluice-rag/sluice/internal/filehash"
	"github.com/sluice-rag/sluice/tools/setup"
)

// ErrSetup is returned when the program would run on machines like this one only, or without its native parts.
var ErrSetup = errors.New("dist: the set-up is not that of make dist, which runs on all machines; run make dist")

// builder makes one archive.
type builder struct {
	repo  string // the checkout
	env   *setup.Env
	work  string // scratch, below build/out
	stage string // what becomes the archive's folder

	fallback []string // files of lib/fallback with their digests, as embed.fallbackDigests wants them
}

// Build makes the archive of the checkout at repo in its folder dist and returns its path. Progress is written to log.
func Build(ctx context.Context, repo string, log io.Writer) (archive string, err error) {
	env, err := setup.New(repo, log)
	if err != nil {
		return "", err
	}
	if !env.HasAllSets() || !strings.Contains(os.Getenv("GOFLAGS"), "native") {
		return "", ErrSetup
	}
	work := filepath.Join(repo, "build", "out", "dist")
	b := builder{repo: repo, env: env, work: work,
		stage: filepath.Join(work, "sluice-"+buildinfo.Version+"-linux-"+env.Machine())}
	if err := os.RemoveAll(work); err != nil {
		return "", err
	}
	if err := os.MkdirAll(b.stage, 0o755); err != nil {
		return "", err
	}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{{"libraries", b.libraries}, {"the program", b.compile}, {"documents and completions", b.share},
		{"licences", b.licences}} {
		fmt.Fprintf(log, "dist: %s\n", step.what)
		if err := step.do(ctx); err != nil {
			return "", fmt.Errorf("dist: %s: %w", step.what, err)
		}
	}
	glibc, err := glibcOf(b.program(), b.path("lib"))
	if err != nil {
		return "", err
	}
	if err := writeSums(ctx, b.stage); err != nil {
		return "", err
	}
	return b.pack(ctx, glibc)
}

// path returns the path of a file in the archive.
func (b *builder) path(names ...string) string {
	return filepath.Join(append([]string{b.stage}, names...)...)
}

func (b *builder) program() string { return b.path("bin", "sluice") }

// compile links the program with its own C++ runtime, so that it asks the system for glibc and nothing else. libstdc++
// is named by the packages that need it (-lstdc++), so it becomes static through a folder that has no shared one.
func (b *builder) compile(ctx context.Context) error {
	cxx := b.cxx()
	static, err := b.ofCompiler(ctx, cxx, "libstdc++.a")
	if err != nil {
		return err
	}
	if static == "" {
		return fmt.Errorf("%w: %s has no static libstdc++ (Fedora: dnf install libstdc++-static)", ErrNeeds, cxx)
	}
	only := filepath.Join(b.work, "static")
	if err := os.MkdirAll(only, 0o755); err != nil {
		return err
	}
	if err := os.Symlink(static, filepath.Join(only, "libstdc++.a")); err != nil {
		return err
	}
	compat := filepath.Join(b.work, "compat.o")
	if err := b.run(ctx, b.cc(), "-O2", "-fPIC", "-Wall", "-Wextra", "-Werror", "-c",
		filepath.Join("tools", "dist", "compat", "compat.c"), "-o", compat); err != nil {
		return err
	}
	link := fmt.Sprintf("-static-libgcc '-L%s' '%s' -Wl,-z,relro,-z,now", only, compat)
	if strings.ContainsAny(b.work, `'"`) {
		return fmt.Errorf("%s has a quote in its name, which the linker's flags cannot hold", b.work)
	}
	if err := b.run(ctx, "go", "build", "-trimpath", `-ldflags=-s -w -linkmode=external `+
		`"-X=github.com/sluice-rag/sluice/embed.fallbackDigests=`+strings.Join(b.fallback, " ")+`" `+
		`"-extldflags=`+link+`"`, "-o", b.program(), "./cmd/sluice"); err != nil {
		return err
	}
	needs, err := ReadNeeds(b.program())
	if err != nil {
		return err
	}
	return needs.checkProgram()
}

// ofCompiler returns the path of a file in the compiler's search path for linking, or "".
func (b *builder) ofCompiler(ctx context.Context, compiler, name string) (string, error) {
	path, err := output(ctx, b.repo, compiler, "-print-file-name="+name)
	if path = strings.TrimSpace(path); !filepath.IsAbs(path) {
		return "", err
	}
	return path, err
}

// libraries copies ONNX Runtime, which the program opens, by its path beside the program, when a model is needed. It
// needs a libstdc++ of GCC 6 or newer, which is the system's; for systems without one the compiler's is in a separate
// folder, from which the program opens it. That one may need a newer glibc than the rest.
func (b *builder) libraries(ctx context.Context) error {
	from := filepath.Join(b.repo, "third_party", "onnxruntime", "lib", "libonnxruntime.so")
	if err := copyFile(from, b.path("lib", "libonnxruntime.so")); err != nil {
		return fmt.Errorf("%w; run make setup", err)
	}
	for _, name := range fallbackLibraries {
		path, err := b.ofCompiler(ctx, b.cxx(), name)
		if err != nil {
			return err
		}
		if path == "" {
			return fmt.Errorf("%w: the compiler has no %s", ErrNeeds, name)
		}
		if err := copyFile(path, b.path("lib", fallbackFolder, name)); err != nil {
			return err
		}
		sum, err := filehash.Sum(ctx, path)
		if err != nil {
			return err
		}
		b.fallback = append(b.fallback, name+"=sha256:"+sum)
	}
	return nil
}

// fallbackLibraries are the C++ runtime, in the order of opening; package embed finds them below lib.
var fallbackLibraries = []string{"libgcc_s.so.1", "libstdc++.so.6"}

const fallbackFolder = "fallback"

// gccSource writes where the shared runtime comes from, as its licence requires.
func (b *builder) gccSource(ctx context.Context, dst string) error {
	version, err := output(ctx, b.repo, b.cxx(), "--version")
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(version, "\n")
	text := "lib/fallback holds " + strings.Join(fallbackLibraries, " and ") + ", unchanged, as they come with this " +
		"compiler:\n\n" + first + "\n\nTheir source is that of GCC in this version, from the distribution that the " +
		"line names or from gcc.gnu.org.\nThe program is linked with parts of libstdc++.a and libgcc.a of the same.\n"
	return setup.WriteFile(filepath.Join(dst, "SOURCE"), strings.NewReader(text), 0o644)
}

// glibcOf returns the version of glibc that a program and the libraries in a folder need.
func glibcOf(program, libraries string) (Version, error) {
	paths, err := filepath.Glob(filepath.Join(libraries, "*.so*"))
	if err != nil {
		return nil, err
	}
	var highest Version
	for _, p := range append(paths, program) {
		needs, err := ReadNeeds(p)
		if err != nil {
			return nil, err
		}
		if v := needs.Versions["GLIBC"]; highest.less(v) {
			highest = v
		}
	}
	return highest, nil
}

// completions are the shells that the program writes completions for, and where they look for them below a prefix.
var completions = map[string]string{
	"bash": "share/bash-completion/completions/sluice",
	"zsh":  "share/zsh/site-functions/_sluice",
	"fish": "share/fish/vendor_completions.d/sluice.fish",
}

func (b *builder) share(ctx context.Context) error {
	for shell, to := range completions {
		text, err := output(ctx, b.work, b.program(), "completion", shell)
		if err != nil {
			return err
		}
		if !strings.Contains(text, "sluice") {
			return fmt.Errorf("the completion for %s is empty", shell)
		}
		if err := setup.WriteFile(b.path(filepath.FromSlash(to)), strings.NewReader(text), 0o644); err != nil {
			return err
		}
	}
	const doc = "share/doc/sluice"
	for from, to := range map[string]string{"LICENSE": "LICENSE", "README.md": doc + "/README.md",
		"CHANGELOG.md": doc + "/CHANGELOG.md", "third_party/LICENSES.md": doc + "/third_party/LICENSES.md"} {
		if err := copyFile(filepath.Join(b.repo, filepath.FromSlash(from)),
			b.path(filepath.FromSlash(to))); err != nil {
			return err
		}
	}
	for _, name := range []string{"systemd/sluice.service", "containers/compose.yaml"} {
		from := filepath.Join(b.repo, "tools", "dist", "share", filepath.Base(name))
		if err := copyFile(from, b.path("share", filepath.FromSlash(name))); err != nil {
			return err
		}
	}
	if _, err := copyTree(b.path(doc), b.repo, filepath.Join(b.repo, "docs")); err != nil {
		return err
	}
	install, err := os.ReadFile(filepath.Join(b.repo, "docs", "install.md"))
	if err != nil {
		return err
	}
	text := strings.ReplaceAll(string(install), "](../", "]("+doc+"/") // links as from the archive's folder
	return setup.WriteFile(b.path("INSTALL.md"), strings.NewReader(text), 0o644)
}

func (b *builder) licences(ctx context.Context) error {
	if err := goLicences(ctx, b.repo, b.path("licences", "go")); err != nil {
		return err
	}
	folder := filepath.Join(b.work, "crate")
	triple, err := b.env.Crate(ctx, folder)
	if err != nil {
		return err
	}
	if err := crateLicences(ctx, folder, triple, b.path("licences", "rust")); err != nil {
		return err
	}
	native := b.path("licences", "native")
	source, err := b.env.LlamaSource(ctx)
	if err != nil {
		return err
	}
	if err := llamaLicences(source, b.env.Manifest.Native.Llama.Tree, filepath.Join(native, "llama.cpp")); err != nil {
		return err
	}
	onnx := filepath.Join(b.repo, "third_party", "onnxruntime", "lib")
	if err := collect(filepath.Join(native, "onnxruntime"), onnx, onnx); err != nil {
		return fmt.Errorf("ONNX Runtime: %w", err)
	}
	gcc := filepath.Join(native, "gcc")
	return errors.Join(gccLicences(gcc), b.gccSource(ctx, gcc), glibcLicences(filepath.Join(native, "glibc")))
}

// pack writes the archive and its digest to the folder dist, which holds nothing else of this version afterwards.
func (b *builder) pack(ctx context.Context, glibc Version) (string, error) {
	modified, err := b.modified(ctx)
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("%s-glibc%s.tar.gz", filepath.Base(b.stage), glibc)
	to := filepath.Join(b.repo, "dist", name)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return "", err
	}
	old, err := filepath.Glob(filepath.Join(filepath.Dir(to), filepath.Base(b.stage)+"-*.tar.gz"))
	if err != nil {
		return "", err
	}
	for _, p := range old {
		if err := os.Remove(p); err != nil {
			return "", err
		}
	}
	if err := pack(to, b.stage, modified); err != nil {
		return "", err
	}
	debian, data, err := b.debian(glibc, modified)
	if err != nil {
		return "", err
	}
	image, err := b.image(ctx, data, modified)
	if err != nil {
		return "", err
	}
	var lines strings.Builder
	for _, path := range []string{to, debian, image} {
		sum, err := filehash.Sum(ctx, path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&lines, "%s  %s\n", sum, filepath.Base(path))
	}
	return to, os.WriteFile(filepath.Join(filepath.Dir(to), sumsName), []byte(lines.String()), 0o644)
}

// summary says in one line what the program is, in the package and the image.
const summary = "local retrieval with a calibrated gate before it"

// debian writes the package of Debian beside the archive, from the same files, and returns its path and its files as a
// .tar.gz.
func (b *builder) debian(glibc Version, modified time.Time) (to string, data []byte, err error) {
	unit, err := os.ReadFile(b.path("share", "systemd", unitName))
	if err != nil {
		return "", nil, err
	}
	to = filepath.Join(b.repo, "dist", fmt.Sprintf("sluice_%s_%s.deb", buildinfo.Version, b.env.Arch))
	d := deb{name: "sluice", version: buildinfo.Version, arch: b.env.Arch, modified: modified,
		depends: fmt.Sprintf("libc6 (>= %s), libstdc++6", glibc),
		description: summary + "\n Sluice puts documents into a store, calibrates a " +
			"gate on them, and answers\n questions from the documents when the gate finds that they can help.",
		units: map[string][]byte{unitName: bytes.ReplaceAll(unit, []byte("/usr/local/bin/sluice"),
			[]byte("/usr/bin/sluice"))}}
	data, err = d.writeDeb(to, b.stage)
	return to, data, err
}

// unitName is the unit of systemd in the archive's share/systemd.
const unitName = "sluice.service"

// modified returns the time of every file in the archive: SOURCE_DATE_EPOCH, else the commit's, else the beginning of
// time.
func (b *builder) modified(ctx context.Context) (time.Time, error) {
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" {
		out, err := output(ctx, b.repo, "git", "log", "-1", "--format=%ct")
		if err != nil {
			return time.Unix(0, 0), nil // a source archive without history
		}
		seconds = strings.TrimSpace(out)
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(n, 0), nil
}

// run runs a command in the checkout; what it prints is in the error.
func (b *builder) run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = b.repo
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "GOARCH="+b.env.Arch, "CC="+b.cc(), "CXX="+b.cxx())
	out, err := cmd.CombinedOutput()
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", name, err), errors.New(strings.TrimSpace(string(out))))
	}
	return nil
}

func (b *builder) cc() string  { return cmp.Or(os.Getenv("CC"), b.env.Tool("gcc")) }
func (b *builder) cxx() string { return cmp.Or(os.Getenv("CXX"), b.env.Tool("g++")) }
