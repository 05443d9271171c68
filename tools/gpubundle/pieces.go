package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// things returns the files that the second bundle takes from this machine if they exist, by their place in the bundle,
// and how they are made.
func things(cache, data string) []thing {
	return []thing{
		{"models", filepath.Join(cache, "models"), "make setup"},
		{"lib-cuda", filepath.Join(cache, "out", "libonnxruntime-cuda-*", "lib"), "make onnxruntime-cuda"},
		{"llama-cuda", filepath.Join("build", "out", "llama-cuda"), "make llama-cuda ARCH=…"},
		{"data/squad16", filepath.Join(data, "squad16"), "DATA names the folder with squad16"},
	}
}

type thing struct{ to, from, how string }

// packModels writes what the encoder's and the language model's lines need into pieces of an archive,
// gpu-models.tar.gz.00 and so on, each below the limit.
func packModels(parent, cache, data string) error {
	dir := filepath.Join(parent, "gpu-models")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	for _, t := range things(cache, data) {
		found, err := filepath.Glob(t.from)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			fmt.Printf("%s is left out: there is no %s (%s)\n", t.to, t.from, t.how)
			continue
		}
		to := filepath.Join(dir, t.to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		from, err := filepath.Abs(found[len(found)-1])
		if err != nil {
			return err
		}
		if err := os.Symlink(from, to); err != nil { // tar follows it
			return err
		}
	}
	old, err := filepath.Glob(dir + ".tar.gz.*")
	if err != nil {
		return err
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	tar := exec.Command("tar", "-C", dir, "-chzf", "-", ".")
	tar.Stderr = os.Stderr
	out, err := tar.StdoutPipe()
	if err != nil {
		return err
	}
	if err := tar.Start(); err != nil {
		return err
	}
	pieces, err := split(out, dir+".tar.gz.", limit-1)
	if err = errors.Join(err, tar.Wait()); err != nil {
		return err
	}
	fmt.Printf("%s.tar.gz.00 to %02d: put them beside run-gpu\n", dir, pieces-1)
	return nil
}

// split writes files of size bytes, the last one shorter, and returns how many.
func split(r io.Reader, prefix string, size int64) (pieces int, err error) {
	for ; ; pieces++ {
		path := fmt.Sprintf("%s%02d", prefix, pieces)
		f, err := os.Create(path)
		if err != nil {
			return pieces, err
		}
		n, err := io.CopyN(f, r, size)
		if errors.Is(err, io.EOF) {
			err = nil
			if n == 0 && pieces > 0 {
				return pieces, errors.Join(f.Close(), os.Remove(path))
			}
			return pieces + 1, f.Close()
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return pieces, err
		}
		if pieces == 99 {
			return pieces, fmt.Errorf("%s: %w: more than 100 pieces", prefix, fs.ErrInvalid)
		}
	}
}
