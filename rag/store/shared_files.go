package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-rag/sluice/internal/durable"
)

// KeptFiles returns the names, FOLDER/NAME, of the files of calibrations and the router in a store's folder that take
// work to make again, without locks, counts and vectors, which the next calibration makes anew.
func KeptFiles(dir string) (names []string, err error) {
	folders, err := os.ReadDir(dir)
	for _, folder := range folders {
		if !folder.IsDir() || !isKept(folder.Name()) {
			continue
		}
		entries, failed := os.ReadDir(filepath.Join(dir, folder.Name()))
		err = errors.Join(err, failed)
		for _, e := range entries {
			switch filepath.Ext(e.Name()) {
			case ".lock", ".pairs", ".vectors", ".state":
				continue
			}
			if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), ".") {
				names = append(names, folder.Name()+"/"+e.Name())
			}
		}
	}
	return names, err
}

// KeepFiles brings what has changed in the files of calibrations and the router into the database of a shared store.
// If that fails, the files become those of the database again. A store that is not shared has nothing else to keep.
func (s *Store) KeepFiles(ctx context.Context) error {
	if s.shared == nil {
		return nil
	}
	err := s.transact(ctx, "keep files", func(_ context.Context, tx *change) error { return s.shared.keep(tx.Tx) })
	if err != nil {
		err = errors.Join(err, s.shared.putFiles(context.WithoutCancel(ctx), false))
	}
	return err
}

// keep makes table kept what the folders hold.
func (r *Shared) keep(tx *sql.Tx) error {
	names, err := KeptFiles(r.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(r.dir, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			continue
		}
		if err = errors.Join(err, checkKept(name)); err == nil && len(data) > archiveFileMax {
			err = fmt.Errorf("%w: %s has %d bytes, %d is the limit", ErrInput, name, len(data), archiveFileMax)
		}
		if err == nil {
			_, err = tx.Exec(`INSERT INTO kept VALUES (?1, ?2) ON CONFLICT DO UPDATE SET data = excluded.data
				WHERE data <> excluded.data`, name, append([]byte{}, data...))
		}
		if err != nil {
			return err
		}
	}
	_, err = tx.Exec(`DELETE FROM kept WHERE name NOT IN (SELECT value FROM json_each(?))`, jsonList(names))
	return err
}

// putFiles makes the folders what table kept holds; with missing, only files that are not there are written.
func (r *Shared) putFiles(ctx context.Context, missing bool) error {
	has := map[string]bool{}
	var name string
	var data []byte
	err := each(ctx, r.replica, []any{&name, &data}, func() error {
		has[name] = true
		path := filepath.Join(r.dir, filepath.FromSlash(name))
		now, err := os.ReadFile(path)
		if err == nil && (missing || bytes.Equal(now, data)) {
			return ctx.Err()
		}
		return r.putFile(name, data)
	}, `SELECT name, data FROM kept ORDER BY `+keptOrder)
	if err != nil || missing {
		return wrap(r.dir, "write files", err)
	}
	names, err := KeptFiles(r.dir)
	for _, name := range names {
		if !has[name] {
			err = errors.Join(err, os.Remove(filepath.Join(r.dir, filepath.FromSlash(name))))
		}
	}
	return err
}

// putFile writes a file of a calibration or the router.
func (r *Shared) putFile(name string, data []byte) error {
	if err := checkKept(name); err != nil {
		return err
	}
	path := filepath.Join(r.dir, filepath.FromSlash(name))
	if err := durable.MkdirAll(filepath.Dir(path)); err != nil {
		return err
	}
	return durable.Replace(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// removeFile removes the file of a key of table kept. What cannot be removed is of no calibration that is in use.
func (r *Shared) removeFile(key string) {
	var name [1]string
	if json.Unmarshal([]byte(key), &name) == nil && checkKept(name[0]) == nil {
		_ = os.Remove(filepath.Join(r.dir, filepath.FromSlash(name[0])))
	}
}
