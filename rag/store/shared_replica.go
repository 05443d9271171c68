package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/sluice-rag/sluice/internal/filelock"
	"github.com/sluice-rag/sluice/internal/panics"
)

// use opens the replica, brings it up to date and follows the database from then on. What cannot be used is made anew.
func (r *Shared) use(ctx context.Context, h sharedHead) error {
	err := r.open(ctx, h)
	for _, known := range []error{errStray, ErrCorrupt, ErrVersion, ErrNoStore, fs.ErrNotExist} {
		if errors.Is(err, known) && h.there {
			if !errors.Is(err, ErrNoStore) {
				r.log.Warn("the replica is made anew", "folder", r.dir, "before", r.dir+asideSuffix, "because", err)
			}
			there := false
			if there, err = r.setAside(); err == nil {
				err = r.open(ctx, h)
			}
			if there && err == nil {
				r.bringRest()
			}
			break
		}
	}
	if err != nil {
		return err
	}
	r.ready = true
	var follow context.Context
	follow, r.stop = context.WithCancel(context.Background())
	go func() {
		defer close(r.ended)
		defer panics.Log(r.log, "following the database")
		r.follow(follow)
	}()
	return nil
}

// asideSuffix is appended to the name of a replica that another one takes the place of: it might hold what the database
// has lost.
const asideSuffix = ".old"

// setAside renames the replica, if there is one, unless another process uses it. A folder that holds only uploads is
// not a replica.
func (r *Shared) setAside() (there bool, err error) {
	f, err := r.openUse()
	if err != nil {
		return false, err
	}
	defer f.Close()
	if err := filelock.Try(f, r.dir); err != nil {
		return false, fmt.Errorf("%w: the replica has to be made anew: %w", ErrLocked, err)
	}
	if _, err := os.Stat(filepath.Join(r.dir, databaseName)); errors.Is(err, fs.ErrNotExist) && !hasSegments(r.dir) {
		return false, nil
	}
	if err := os.RemoveAll(r.dir + asideSuffix); err != nil {
		return false, err
	}
	return true, os.Rename(r.dir, r.dir+asideSuffix)
}

// bringRest moves what the database does not have, such as uploads, from the replica that was set aside into the new
// one.
func (r *Shared) bringRest() {
	has := []string{databaseName, databaseName + "-wal", databaseName + "-shm", segmentFolder, IndexFolder, lockName}
	entries, err := os.ReadDir(r.dir + asideSuffix)
	for _, e := range entries {
		if name := e.Name(); !slices.Contains(has, name) && !isKept(name) {
			err = errors.Join(err, os.Rename(filepath.Join(r.dir+asideSuffix, name), filepath.Join(r.dir, name)))
		}
	}
	if err != nil {
		r.log.Warn("not all of the old replica's folder is in the new one", "error", err)
	}
}

func (r *Shared) openUse() (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(r.dir), 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(r.dir+filelock.Suffix, os.O_RDWR|os.O_CREATE, 0o600)
}

// open opens the replica for pulling, and pulls. h.there is false while the database is away.
func (r *Shared) open(ctx context.Context, h sharedHead) (err error) {
	if r.inUse, err = r.openUse(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			r.inUse.Close()
			if r.lock != nil {
				_ = r.lock.close() // the first error counts
			}
			if r.replica != nil {
				_ = r.replica.Close()
			}
			r.lock, r.replica = nil, nil
		}
	}()
	alone := filelock.Try(r.inUse, r.dir) == nil
	if err := filelock.Wait(r.inUse, !alone); err != nil {
		return err
	}
	if h.there {
		s, err := open(ctx, r.dir, Options{Create: true, Encoder: &h.settings.encoder, Metric: h.settings.metric,
			like: &h.settings}, r.x)
		if err != nil {
			return err
		}
		same := s.settings.id == h.settings.id && s.settings.segmentRows == h.settings.segmentRows
		if err := s.Close(); err != nil {
			return err
		}
		if !same {
			return errStray
		}
	}
	if r.lock, err = openLock(r.dir, r.x.patient); err != nil {
		return err
	}
	if r.replica, err = openWriter(r.dir, false); err != nil {
		return err
	}
	if err := r.learn(); err != nil {
		return err
	}
	if !h.there {
		return filelock.Wait(r.inUse, true)
	}
	if err := r.pull(ctx, nil); err != nil {
		return err
	}
	// Files that nobody has kept are of a process that was killed, unless one that lives is about to keep them.
	if err := r.putFiles(ctx, !alone); err != nil {
		return err
	}
	return filelock.Wait(r.inUse, true)
}
