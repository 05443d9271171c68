package dist

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/tools/setup"
)

// ErrNoLicence is wrapped when something that goes into the archive has no licence file where it was downloaded to.
var ErrNoLicence = errors.New("dist: no licence file")

var licenceName = regexp.MustCompile(`(?i)^(((un)?licen[cs]e|copying|copyright|notice|patents)([-_. ]|$)|third.?party)`)

var licenceFolder = regexp.MustCompile(`(?i)^licen[cs]es?$`)

// collect copies the licence files that are directly in the folders, and in their folders named licences, to dst. The
// copies' paths are relative to root.
func collect(dst, root string, folders ...string) error {
	copied := 0
	for _, dir := range folders {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, d := range entries {
			from := filepath.Join(dir, d.Name())
			switch {
			case d.IsDir() && licenceFolder.MatchString(d.Name()):
				n, err := copyTree(dst, root, from)
				copied += n
				if err != nil {
					return err
				}
			case d.Type().IsRegular() && licenceName.MatchString(d.Name()) && path.Ext(d.Name()) != ".go":
				copied++
				if err := copyBelow(dst, root, from); err != nil {
					return err
				}
			}
		}
	}
	if copied == 0 {
		return fmt.Errorf("%w in %s", ErrNoLicence, root)
	}
	return nil
}

func copyTree(dst, root, dir string) (n int, err error) {
	names, err := files(dir)
	for _, name := range names {
		n++
		err = errors.Join(err, copyBelow(dst, root, filepath.Join(dir, name)))
	}
	return n, err
}

// copyBelow copies a file to the place below dst that it has below root; a licence is never a program.
func copyBelow(dst, root, from string) error {
	rel, err := filepath.Rel(root, from)
	if err != nil {
		return err
	}
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	return setup.WriteFile(filepath.Join(dst, rel), f, 0o644)
}

// goPackage has the fields of `go list -json` for a package.
type goPackage struct {
	Dir    string
	Module *struct {
		Path, Version, Dir string
		Main               bool
	}
}

// goLicences collects the licences of every module with a package in the program, and Go's own.
func goLicences(ctx context.Context, repo, dst string) error {
	out, err := output(ctx, repo, "go", "list", "-deps", "-json=Dir,Module", "./cmd/sluice")
	if err != nil {
		return err
	}
	folders := map[string][]string{} // per module: those of its packages and all between
	roots := map[string]string{}
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("go list: %w", err)
		}
		if p.Module == nil || p.Module.Main {
			continue
		}
		name := p.Module.Path + "@" + p.Module.Version
		roots[name] = p.Module.Dir
		for dir := p.Dir; ; dir = filepath.Dir(dir) {
			if !slices.Contains(folders[name], dir) {
				folders[name] = append(folders[name], dir)
			}
			if dir == p.Module.Dir || dir == filepath.Dir(dir) {
				break
			}
		}
	}
	if len(roots) < 20 { // the list would be one of another program
		return fmt.Errorf("%w: only %d Go modules are linked, says go list", ErrNoLicence, len(roots))
	}
	for name, root := range roots {
		if err := collect(filepath.Join(dst, filepath.FromSlash(name)), root, folders[name]...); err != nil {
			return fmt.Errorf("Go module %s: %w", name, err)
		}
	}
	goroot, err := output(ctx, repo, "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	goroot = strings.TrimSpace(goroot)
	if err := collect(filepath.Join(dst, "go"), goroot, goroot); err != nil {
		return fmt.Errorf("Go's own libraries: %w", err)
	}
	return nil
}

// crate has the fields of `cargo metadata` for a package.
type crate struct {
	Name, Version, License string
	Authors                []string
	Manifest               string  `json:"manifest_path"`
	Source                 *string // nil: our own
}

// crateLicences collects the licences of every crate that is linked into the tokenizers library or runs while it is
// compiled, and of Rust's own libraries. The crate's folder has its Cargo.toml and Cargo.lock, and the crates are
// downloaded.
func crateLicences(ctx context.Context, folder, triple, dst string) error {
	out, err := output(ctx, folder, "cargo", "metadata", "--locked", "--offline", "--format-version", "1",
		"--filter-platform", triple)
	if err != nil {
		return err
	}
	var meta struct{ Packages []crate }
	if err := json.Unmarshal([]byte(out), &meta); err != nil {
		return fmt.Errorf("cargo metadata: %w", err)
	}
	for _, c := range meta.Packages {
		if c.Source == nil {
			continue
		}
		if e := crateLicence(c, filepath.Join(dst, c.Name+"-"+c.Version)); e != nil {
			err = errors.Join(err, fmt.Errorf("crate %s %s: %w", c.Name, c.Version, e))
		}
	}
	if err != nil {
		return err
	}
	return rustLicences(ctx, folder, filepath.Join(dst, "rust"))
}

func crateLicence(c crate, dst string) error {
	root := filepath.Dir(c.Manifest)
	folders := []string{root}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && p != root {
			folders = append(folders, p) // C sources in a crate have licences of their own
		}
		return err
	})
	if err != nil {
		return err
	}
	err = collect(dst, root, folders...)
	if errors.Is(err, ErrNoLicence) {
		return fmt.Errorf("%w (Cargo.toml says %q, authors %q)", err, c.License, c.Authors)
	}
	return err
}

// rustLicences collects the licences of Rust's standard library from the folders of rustup or a distribution.
func rustLicences(ctx context.Context, folder, dst string) error {
	sysroot, err := output(ctx, folder, "rustc", "--print", "sysroot")
	if err != nil {
		return err
	}
	doc := filepath.Join(strings.TrimSpace(sysroot), "share", "doc", "rust")
	places := []string{filepath.Join(doc, "COPYRIGHT-library.html"), filepath.Join(doc, "COPYRIGHT"),
		"/usr/share/doc/libstd-rust-dev/copyright"}
	for _, p := range places {
		if _, err := os.Stat(p); err != nil {
			continue
		}
		if err := copyBelow(dst, filepath.Dir(p), p); err != nil {
			return err
		}
		if texts := filepath.Join(doc, "licenses"); filepath.Dir(p) == doc {
			if _, err := os.Stat(texts); err == nil {
				_, err := copyTree(dst, doc, texts)
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("Rust's own libraries: %w: none of %s", ErrNoLicence, strings.Join(places, ", "))
}

// llamaLicences collects the licences of llama.cpp from its source archive, and the notices at the top of its files by
// other authors.
func llamaLicences(archive, tree, dst string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	const others = "ggml/src/ggml-cpu/llamafile/sgemm.cpp"
	missing := map[string]bool{"LICENSE": true, "AUTHORS": true, "licenses/LICENSE-jsonhpp": true, others: true}
	for t := tar.NewReader(z); len(missing) > 0; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: llama.cpp's archive lacks %s", ErrNoLicence,
				strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
		name, below := strings.CutPrefix(h.Name, tree+"/")
		if !below || !missing[name] {
			continue
		}
		delete(missing, name)
		text, err := io.ReadAll(t)
		if err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
		if name == others {
			name, text = "NOTICE-llamafile", firstComment(text)
			if !strings.Contains(string(text), "Copyright") {
				return fmt.Errorf("%w: %s does not begin with its notice", ErrNoLicence, others)
			}
		}
		to := filepath.Join(dst, path.Base(name))
		if err := setup.WriteFile(to, strings.NewReader(string(text)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// firstComment returns the lines of // at the top of a source file.
func firstComment(text []byte) []byte {
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, "//")
		if !ok {
			break
		}
		b.WriteString(strings.TrimPrefix(rest, " "))
	}
	return []byte(b.String())
}

// gccLicences collects the licences of libstdc++ and libgcc, parts of which are linked: the GPL with GCC's runtime
// exception.
func gccLicences(dst string) error {
	return systemLicences(dst, "GPL-3", "/usr/share/doc/gcc-*-base/copyright", "/usr/share/licenses/libstdc++/COPYING*",
		"/usr/share/licenses/gcc-libs/*")
}

// glibcLicences collects the licences of the C library, which the container image holds.
func glibcLicences(dst string) error {
	return systemLicences(dst, "LGPL-2.1", "/usr/share/doc/libc6/copyright", "/usr/share/licenses/glibc/*")
}

// systemLicences collects the files of the first pattern that has some. Debian's refer to a common text.
func systemLicences(dst, common string, patterns ...string) error {
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, p := range found {
			if err := copyBelow(filepath.Join(dst, filepath.Base(filepath.Dir(p))), filepath.Dir(p), p); err != nil {
				return err
			}
		}
		if len(found) > 0 && strings.HasSuffix(pattern, "copyright") {
			return copyBelow(dst, "/usr/share/common-licenses", "/usr/share/common-licenses/"+common)
		}
		if len(found) > 0 {
			return nil
		}
	}
	return fmt.Errorf("%s: %w", filepath.Base(dst), ErrNoLicence)
}

// output runs a command in dir and returns what it prints.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return string(out), nil
}
