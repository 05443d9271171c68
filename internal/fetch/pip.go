package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/internal/manifest"
)

// Pip fetches files from the package registry that the user's pip is configured for.
type Pip struct {
	Python string // the interpreter whose pip is used
	Cache  *Cache
}

// Wheel returns the path of one wheel of the package.
func (p Pip) Wheel(ctx context.Context, pkg manifest.Package, b manifest.Blob, progress Progress) (string, error) {
	w, err := manifest.ParseWheel(b.File)
	if err != nil {
		return "", err
	}
	args := []string{"--only-binary", ":all:", "--ignore-requires-python"}
	if !w.Pure() {
		// Explicit, so that the file does not depend on the Python and the machine.
		args = append(args, "--implementation", "cp", "--python-version", fmt.Sprintf("3.%d", w.Minor()), "--abi",
			w.ABI)
		for _, tag := range w.Platforms {
			args = append(args, "--platform", tag)
		}
	}
	return p.get(ctx, pkg, b, args, progress)
}

// Sdist returns the path of the package's source archive. pip runs the archive's build back-end to read its metadata:
// p.Python must be an environment that holds the pinned back-end and nothing else.
func (p Pip) Sdist(ctx context.Context, pkg manifest.Package, progress Progress) (string, error) {
	if pkg.Sdist == nil {
		return "", fmt.Errorf("%w: %s has no source archive", ErrPip, pkg.Name)
	}
	return p.get(ctx, pkg, *pkg.Sdist, []string{"--no-binary", pkg.Name, "--no-build-isolation"}, progress)
}

func (p Pip) get(ctx context.Context, pkg manifest.Package, b manifest.Blob, args []string, progress Progress) (string,
	error) {
	want := Want{Name: b.File, SHA256: b.SHA256, Size: b.Size}
	if path, ok := p.Cache.Blob(want); ok {
		return path, nil
	}
	unlock, err := p.Cache.Lock(ctx, b.SHA256)
	if err != nil {
		return "", err
	}
	defer unlock()
	if path, ok := p.Cache.Blob(want); ok {
		return path, nil
	}
	// pip cannot resume: what an interrupted run left is dropped.
	if err := os.RemoveAll(p.Cache.Path("partial", "pip-"+b.SHA256)); err != nil {
		return "", fmt.Errorf("%w: %w", ErrWrite, err)
	}
	dir, err := p.Cache.Dir("partial", "pip-"+b.SHA256)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	req := filepath.Join(dir, "requirements.txt")
	line := fmt.Sprintf("%s==%s --hash=sha256:%s\n", pkg.Name, pkg.Version, b.SHA256)
	if err := os.WriteFile(req, []byte(line), 0o644); err != nil {
		return "", fmt.Errorf("%w: %w", ErrWrite, err)
	}
	args = append([]string{"-m", "pip", "download", "--no-deps", "--require-hashes", "--no-cache-dir", "--quiet",
		"--disable-pip-version-check", "--no-input", "--requirement", req, "--dest", dir}, args...)
	if err := p.run(ctx, b, dir, args, progress); err != nil {
		return "", err
	}
	file := filepath.Join(dir, b.File)
	if st, err := os.Stat(file); err == nil {
		p.Cache.AddDownloaded(st.Size())
	}
	return p.Cache.adopt(file, want)
}

// run starts pip and reports the growth of its folder, which is the only progress it offers to a program.
func (p Pip) run(ctx context.Context, b manifest.Blob, dir string, args []string, progress Progress) error {
	cmd := exec.CommandContext(ctx, p.Python, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "PIP_REQUIRE_VIRTUALENV=0", "PYTHONNOUSERSITE=1")
	if err := cmd.Start(); err != nil {
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: %w", ErrNoPip, err)
		}
		return fmt.Errorf("%w: %s: %w", ErrPip, p.Python, err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				return pipError(b, err, out.String())
			}
			return nil
		case <-tick.C:
			if progress != nil {
				progress(b.File, min(largest(dir), b.Size), b.Size)
			}
		}
	}
}

// pipError keeps the relevant part of pip's output, and distinguishes a wrong hash from other errors.
func pipError(b manifest.Blob, err error, out string) error {
	if strings.Contains(out, "DO NOT MATCH THE HASHES") {
		return fmt.Errorf("%w: %s: %s", ErrMismatch, b.File, tail(out, 4))
	}
	if strings.Contains(out, "No module named pip") {
		err = fmt.Errorf("%w: install python3-pip (Debian, Ubuntu) or run python3 -m ensurepip", ErrNoPip)
	}
	return fmt.Errorf("%w: %s: %w\n%s", ErrPip, b.File, err, tail(out, 12))
}

// largest returns the size of the biggest file below dir.
func largest(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if st, err := d.Info(); err == nil {
				n = max(n, st.Size())
			}
		}
		return nil
	})
	return n
}

// tail returns the last n lines of text.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
