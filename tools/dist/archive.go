package dist

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
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

// sums returns the sorted names of the files below dir and their digests, without the file that lists the digests.
func sums(ctx context.Context, dir string) (names []string, of map[string]string, err error) {
	if names, err = files(dir); err != nil {
		return nil, nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == sumsName })
	of = map[string]string{}
	for _, name := range names {
		if of[name], err = filehash.Sum(ctx, filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			return nil, nil, err
		}
	}
	return names, of, nil
}

// writeSums lists the digests of the files below dir, but for the list itself, in dir/SHA256SUMS.
func writeSums(ctx context.Context, dir string) error {
	names, of, err := sums(ctx, dir)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "%s  %s\n", of[name], name)
	}
	return os.WriteFile(filepath.Join(dir, sumsName), []byte(b.String()), 0o644)
}

// pack writes dir as one folder of that name to a .tar.gz. Its bytes depend only on names, contents, the permission to
// execute, and the given time.
func pack(to, dir string, modified time.Time) error {
	data, err := packed(modified, func(t *tarball) error {
		names, err := files(dir)
		for _, name := range names {
			if err == nil {
				err = t.file(filepath.Join(dir, filepath.FromSlash(name)), path.Join(filepath.Base(dir), name))
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}

// packed returns a .tar.gz of what fill adds.
func packed(modified time.Time, fill func(t *tarball) error) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	t := &tarball{tar.NewWriter(z), modified, map[string]bool{}}
	err = errors.Join(fill(t), t.Close(), z.Close())
	return b.Bytes(), err
}

// tarball is a .tar that is being written. All in it has one time.
type tarball struct {
	*tar.Writer
	modified time.Time
	made     map[string]bool // folders
}

// add adds a header, and before it the folders above that were not added yet.
func (t *tarball) add(h tar.Header) error {
	if above := path.Dir(path.Clean(h.Name)); above != "." && !t.made[above] {
		t.made[above] = true
		if err := t.add(tar.Header{Typeflag: tar.TypeDir, Name: above + "/", Mode: 0o755}); err != nil {
			return err
		}
	}
	h.ModTime, h.Format = t.modified, tar.FormatUSTAR
	return t.WriteHeader(&h)
}

func (t *tarball) text(name string, text []byte) error {
	err := t.add(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text))})
	if err == nil {
		_, err = t.Write(text)
	}
	return err
}

func (t *tarball) link(name, to string) error {
	return t.add(tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, Mode: 0o777})
}

func (t *tarball) file(from, name string) error {
	f, st, err := openFile(from)
	if err != nil {
		return err
	}
	defer f.Close()
	err = t.add(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(modeOf(st)), Size: st.Size()})
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
	names, of, err := sums(ctx, dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if want[name] != of[name] {
			return fmt.Errorf("%s: %s has the digest %s, not %q", sumsName, name, of[name], want[name])
		}
		delete(want, name)
	}
	for name := range want {
		return fmt.Errorf("%s: %s is missing", sumsName, name)
	}
	return nil
}
