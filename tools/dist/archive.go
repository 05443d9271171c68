package dist

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/internal/filehash"

	"github.com/sluice-rag/sluice/tools/setup"
)

// sumsName is the list of digests, in the archive's folder and beside the archive, in the format of sha256sum -c.
const sumsName = "SHA256SUMS"

// files returns the regular files below dir, by their slash paths in order. Anything else but folders is an error.
func files(dir string) (names []string, err error) {
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is neither a file nor a folder", p)
		}
		rel, err := filepath.Rel(dir, p)
		names = append(names, filepath.ToSlash(rel))
		return err
	})
	return names, err // WalkDir goes in lexical order
}

// writeSums lists the digests of the files below dir, but for the list itself, in dir/SHA256SUMS.
func writeSums(ctx context.Context, dir string) error {
	names, err := files(dir)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, name := range names {
		if name == sumsName {
			continue
		}
		sum, err := filehash.Sum(ctx, filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s  %s\n", sum, name)
	}
	return os.WriteFile(filepath.Join(dir, sumsName), []byte(b.String()), 0o644)
}

// pack writes dir as one folder of that name to a .tar.gz. Its bytes depend only on names, contents, the permission to
// execute, and the given time.
func pack(to, dir string, modified time.Time) (err error) {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	names, err := files(dir)
	if err != nil {
		return err
	}
	made := map[string]bool{}
	for _, name := range names {
		full := path.Join(filepath.Base(dir), name)
		if err := packFolders(t, path.Dir(full), modified, made); err != nil {
			return err
		}
		if err := packFile(t, filepath.Join(dir, filepath.FromSlash(name)), full, modified); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

// packFolders adds a folder and its parents unless they were added before.
func packFolders(t *tar.Writer, name string, modified time.Time, made map[string]bool) error {
	if name == "." || made[name] {
		return nil
	}
	if err := packFolders(t, path.Dir(name), modified, made); err != nil {
		return err
	}
	made[name] = true
	return t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: modified,
		Format: tar.FormatUSTAR})
}

func packFile(t *tar.Writer, from, name string, modified time.Time) error {
	f, st, err := openFile(from)
	if err != nil {
		return err
	}
	defer f.Close()
	err = t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(modeOf(st)), Size: st.Size(),
		ModTime: modified, Format: tar.FormatUSTAR})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	_, err = io.Copy(t, f)
	return err
}

// unpack writes the files of a .tar.gz to dir and returns the name of the one folder at its top.
func unpack(archive, dir string) (top string, err error) {
	f, err := os.Open(archive)
	if err != nil {
		return "", err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return "", fmt.Errorf("%s: %w", archive, err)
	}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return top, nil
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", archive, err)
		}
		first, _, _ := strings.Cut(h.Name, "/")
		if top == "" {
			top = first
		}
		if !filepath.IsLocal(h.Name) || first != top {
			return "", fmt.Errorf("%s: %q is not below %q", archive, h.Name, top)
		}
		to := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(to, 0o755); err != nil {
				return "", err
			}
			continue
		}
		if err := setup.WriteFile(to, t, fs.FileMode(h.Mode)&0o755); err != nil {
			return "", err
		}
	}
}

// copyFile gives the copy the permissions 0755 or 0644.
func copyFile(from, to string) error {
	f, st, err := openFile(from)
	if err != nil {
		return err
	}
	defer f.Close()
	return setup.WriteFile(to, f, modeOf(st))
}

func openFile(name string) (*os.File, fs.FileInfo, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, st, nil
}

// modeOf returns 0755 for programs and 0644 for other files.
func modeOf(st fs.FileInfo) fs.FileMode {
	if st.Mode()&0o100 != 0 {
		return 0o755
	}
	return 0o644
}

// verifySums compares the files below dir with its SHA256SUMS: none is missing, changed or too many.
func verifySums(ctx context.Context, dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, sumsName))
	if err != nil {
		return err
	}
	want := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		want[name] = sum
	}
	names, err := files(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == sumsName {
			continue
		}
		sum, err := filehash.Sum(ctx, filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		if want[name] != sum {
			return fmt.Errorf("%s: %s has the digest %s, not %q", sumsName, name, sum, want[name])
		}
		delete(want, name)
	}
	for name := range want {
		return fmt.Errorf("%s: %s is missing", sumsName, name)
	}
	return nil
}
