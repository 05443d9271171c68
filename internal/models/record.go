package models

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/filehash"
	"github.com/sluice-rag/sluice/internal/manifest"
)

// recordName is the file in a model's folder that records which files were verified, and their state at that time.
const recordName = ".files.json"

type record struct {
	Files []fileRecord `json:"files"`
}

type fileRecord struct {
	Path   string    `json:"path"`
	SHA256 string    `json:"sha256"`
	Size   int64     `json:"size"`
	MTime  time.Time `json:"mtime"`
	Inode  uint64    `json:"inode,omitempty"`
}

func readRecord(path string) (*record, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rec := &record{}
	if err := unmarshal(text, rec); err != nil {
		return nil, fmt.Errorf("%w: %s: %w; delete it and pull again", ErrCorrupt, path, err)
	}
	return rec, nil
}

// unmarshal refuses fields that are not known.
func unmarshal(text []byte, to any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	return dec.Decode(to)
}

// add records a verified file.
func (rec *record) add(dir, path, sha256 string) error {
	st, err := os.Stat(filepath.Join(dir, path))
	if err != nil {
		return err
	}
	rec.Files = append(rec.Files, fileRecord{path, sha256, st.Size(), st.ModTime(), inode(st)})
	return nil
}

// check compares the files of a pulled model with the manifest's pins, else with the record, and returns its folder.
func (r *Registry) check(ctx context.Context, m manifest.Model, full bool) (string, error) {
	dir := r.dir(m.Name)
	path := filepath.Join(dir, recordName)
	rec, err := readRecord(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: %s; get it with: sluice models pull %s", ErrNotPulled, m.Name, m.Name)
	}
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return "", err
	}
	_, sum, err := settings(m)
	if err != nil {
		return "", err
	}
	files := append([]manifest.File{{Path: settingsName, SHA256: sum}}, m.Files...)
	if err := checkFiles(ctx, m.Name, dir, path, rec, files, full); err != nil {
		return "", err
	}
	return dir, nil
}

// checkFiles compares a model's files with their pins, else with the record, which is at a path. A quick check assumes
// that a file is unchanged if its size, time and inode equal those of the record.
func checkFiles(
	ctx context.Context, model, dir, recordPath string, rec *record, files []manifest.File, full bool,
) error {
	byPath := map[string]*fileRecord{}
	for i := range rec.Files {
		byPath[rec.Files[i].Path] = &rec.Files[i]
	}
	touched := false
	for _, f := range files {
		known, path := byPath[f.Path], filepath.Join(dir, f.Path)
		if known == nil || f.SHA256 != "" && known.SHA256 != f.SHA256 { // pulled with another version of the manifest
			return &CorruptError{model, path, "the file of this version's manifest", "another one"}
		}
		st, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return &CorruptError{model, path, "a file", "none"}
		}
		if err != nil {
			return err
		}
		if st.Size() != known.Size {
			return &CorruptError{model, path, strconv.FormatInt(known.Size, 10) + " bytes",
				strconv.FormatInt(st.Size(), 10)}
		}
		if !full && st.ModTime().Equal(known.MTime) && inode(st) == known.Inode {
			continue
		}
		sum, err := filehash.Sum(ctx, path)
		if err != nil {
			return err
		}
		if sum != known.SHA256 {
			return &CorruptError{model, path, "sha256 " + known.SHA256, sum}
		}
		if !st.ModTime().Equal(known.MTime) || inode(st) != known.Inode {
			known.MTime, known.Inode, touched = st.ModTime(), inode(st), true
		}
	}
	if touched {
		_ = writeJSON(recordPath, rec) // failure only makes the next check slower; the folder may be read-only
	}
	return nil
}

// lockFile records the content of files without a pin at their first download.
type lockFile struct {
	Files map[string]lockEntry `json:"files"` // by URL
}

type lockEntry struct {
	SHA256   string    `json:"sha256"`
	Size     int64     `json:"size"`
	Recorded time.Time `json:"recorded"`
}

func (r *Registry) lockPath() string { return r.cache.Path("models.lock.json") }

func (r *Registry) readLock() (*lockFile, error) {
	l := &lockFile{Files: map[string]lockEntry{}}
	text, err := os.ReadFile(r.lockPath())
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	if err := unmarshal(text, l); err != nil || l.Files == nil {
		return nil,
			fmt.Errorf("%w: %s is not readable (%v); it holds the recorded digests of models: restore it or delete it",
				ErrCorrupt, r.lockPath(), err)
	}
	return l, nil
}

func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return writeAtomic(path, append(text, '\n'))
}

func writeAtomic(path string, text []byte) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, text, 0o644); err != nil {
		return errors.Join(fmt.Errorf("%w: %w", fetch.ErrWrite, err), os.Remove(tmp))
	}
	return os.Rename(tmp, path)
}
