package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/kernels"
)

// Store is an open store folder. Its methods may be called from any number of goroutines.
type Store struct {
	dir      string
	groups   []string // that it is read for; nil: it is read as a whole
	shared   *Shared  // that keeps it; nil: the folder does
	settings settings // as of Open; what changes of it is not kept up to date
	segments segments
	read     *sql.DB
	write    *sql.DB     // nil when read-only
	lock     *writerLock // nil when read-only
	closed   atomic.Bool

	waiting waiting // for a transaction

	burnt int64 // rows below are not used, see Commit; of whoever has the lock
	step  func(string) error

	viewing chan struct{} // holds a token while nobody makes a View; of whom what follows is
	rows    *rowList      // of the last View
	mapped  *mapping      // as rows
}

// seams are where tests reach in: the file system, a smaller segment size, a call before each
// step on the database that may fail it, and how long a transaction waits for another process's.
type seams struct {
	fs           fsys
	segmentBytes int64
	step         func(string) error
	patient      time.Duration
}

// Open opens the store in folder dir. Writing (the default) takes the writer's lock for the time of each transaction,
// so that any number of processes may have the store open for it; ReadOnly works beside writers, and on a
// read-only file system if the last writer closed the store. Errors: ErrNotFound, ErrLocked, ErrEncoder, ErrCorrupt,
// ErrVersion, ErrInput, ErrDimension.
func Open(ctx context.Context, dir string, o Options) (*Store, error) {
	return open(ctx, dir, o, realSeams())
}

func realSeams() seams {
	return seams{fs: osFS{}, segmentBytes: segmentBytes, step: func(string) error { return nil }, patient: lockPatient}
}

func open(ctx context.Context, dir string, o Options, x seams) (_ *Store, err error) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return nil, fmt.Errorf("%w: the store needs a little-endian machine", kernels.ErrUnavailable)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	o.Create = o.Create && !o.ReadOnly
	if o.Shared != nil {
		if err := o.Shared.prepare(ctx, o); err != nil {
			return nil, err
		}
	}
	if err := checkFolder(dir, o); err != nil {
		return nil, err
	}
	if o.Groups != nil && !o.ReadOnly {
		return nil, fmt.Errorf("%w: a store that is opened for groups is opened for reading", ErrInput)
	}
	s := &Store{dir: dir, groups: o.Groups, shared: o.Shared, step: x.step, viewing: make(chan struct{}, 1)}
	s.viewing <- struct{}{}
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	if !o.ReadOnly {
		if err := s.openForWriting(ctx, o, x); err != nil {
			return nil, err
		}
	}
	if err := s.openForReading(ctx); err != nil {
		return nil, err
	}
	if want := o.Encoder; want != nil && !s.settings.encoder.Same(*want) { // its name does not matter
		return nil, fmt.Errorf("%w: %s holds vectors of %s, not of %s: use that encoder, or ingest into another folder",
			ErrEncoder, dir, s.settings.encoder, *want)
	}
	s.segments = s.settings.segments(dir, x.fs)
	return s, s.checkSegments(ctx)
}

// segments returns the vector files of these settings.
func (s *settings) segments(dir string, fs fsys) segments {
	return segments{fs: fs, dir: filepath.Join(dir, segmentFolder), rows: s.segmentRows,
		head: header{Dim: uint32(s.encoder.Dim), Store: s.id, EncoderDigest: s.encoder.Digest}}
}

// checkFolder returns an error unless the folder and its database are there or may be made.
func checkFolder(dir string, o Options) error {
	absent := fmt.Errorf("%w in %s: make one with `sluice ingest --store %s PATH…`", ErrNoStore, dir, dir)
	switch i, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist) && !o.Create:
		return absent
	case err == nil && !i.IsDir():
		return fmt.Errorf("%w: %s is a file, a store is a folder", ErrNoStore, dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("store: %w", err)
	}
	switch _, err := os.Stat(filepath.Join(dir, databaseName)); {
	case errors.Is(err, fs.ErrNotExist) && hasSegments(dir):
		return fmt.Errorf("%w: %s is missing, but there are segments: restore it from a backup, or choose another "+
			"folder", ErrCorrupt, filepath.Join(dir, databaseName))
	case errors.Is(err, fs.ErrNotExist) && !o.Create:
		return absent
	case errors.Is(err, fs.ErrNotExist):
		return checkNewEncoder(o.Encoder)
	case err != nil:
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

func hasSegments(dir string) bool {
	found, _ := filepath.Glob(filepath.Join(dir, segmentFolder, "*.vec"))
	return len(found) > 0
}

func checkNewEncoder(e *identity.Encoder) error {
	switch {
	case e == nil:
		return fmt.Errorf("%w: a store cannot be made without its encoder (Options.Encoder)", ErrInput)
	case e.Dim < 1 || e.Dim > maxDim:
		return fmt.Errorf("%w: encoder %s has %d dimensions, a store takes 1 to %d", ErrDimension, e.Name, e.Dim,
			maxDim)
	case e.Digest == "" || len(e.Digest) > maxDigest || !utf8.ValidString(e.Digest+e.TokenizerDigest+e.Name):
		return fmt.Errorf("%w: encoder %q has digest %.80q: 1 to %d bytes of UTF-8 are needed", ErrInput, e.Name,
			e.Digest, maxDigest)
	}
	return nil
}

// openForWriting makes what is missing, under the writer's lock. A creation that was cut short is resumed.
func (s *Store) openForWriting(ctx context.Context, o Options, x seams) (err error) {
	if o.Create {
		if err := makeFolder(s.dir, x.fs.SyncDir); err != nil {
			return fmt.Errorf("store: %w", err)
		}
	}
	if s.lock, err = openLock(s.dir, x.patient); err != nil {
		return err
	}
	if s.write, err = openWriter(s.dir, true); err != nil {
		return wrap(s.dir, "open", err)
	}
	if err := s.lock.take(ctx); err != nil {
		return wrap(s.dir, "open", err)
	}
	defer s.lock.give(false)
	var mode string
	if err := s.write.QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil {
		return wrap(s.dir, "open", err)
	}
	if mode != "wal" {
		return fmt.Errorf("%w: %s: journal mode is %q, the file system does not do SQLite's WAL (a network share?): "+
			"use a local folder", ErrInput, s.dir, mode)
	}
	_, empty, err := readSettings(context.Background(), s.write)
	switch {
	case err != nil:
		return wrapSettings(s.dir, err)
	case empty && hasSegments(s.dir):
		return errEmpty(s.dir)
	case empty && o.Create:
		if err := checkNewEncoder(o.Encoder); err != nil {
			return err
		}
		if err := createSchema(s.write, o, x.segmentBytes); err != nil {
			return wrap(s.dir, "create", err)
		}
		return x.fs.SyncDir(s.dir) // the database, its log and the lock
	}
	return nil // empty without Create: openForReading says so
}

// makeFolder makes what is missing of a store's folder. That of a new store is its owner's alone, and with it what
// comes into it (durable.FileMode); whoever lets others in later, or has done so, is left to it.
func makeFolder(dir string, sync func(string) error) error {
	if err := durable.MkdirPrivate(dir, sync); err != nil {
		return err
	}
	_, err := os.Lstat(filepath.Join(dir, databaseName))
	isNew := errors.Is(err, fs.ErrNotExist)
	if isNew {
		_ = os.Chmod(dir, 0o700) // it was there, and is somebody else's: his to say
	}
	if err := durable.MkdirAllWith(filepath.Join(dir, segmentFolder), sync); err != nil || !isNew {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, databaseName), os.O_RDWR|os.O_CREATE, durable.FileMode(dir))
	if err != nil {
		return err
	}
	return f.Close() // SQLite gives its log the same mode
}

func errEmpty(dir string) error {
	return fmt.Errorf("%w: %s is empty: restore it from a backup, or choose another folder", ErrCorrupt,
		filepath.Join(dir, databaseName))
}

// openForReading opens the reading connections and reads the settings.
func (s *Store) openForReading(ctx context.Context) (err error) {
	if s.read, err = openReader(s.dir, false, s.groups); err != nil {
		return wrap(s.dir, "open", err)
	}
	var empty bool
	s.settings, empty, err = readSettings(ctx, s.read)
	if err != nil && s.write == nil && cannotShare(err) && unix.Access(s.dir, unix.W_OK) != nil {
		if err := s.reopenImmutable(); err != nil {
			return err
		}
		s.settings, empty, err = readSettings(ctx, s.read)
	}
	if se, ok := errors.AsType[*sqlite.Error](err); ok && se.Code() == sqlite3.SQLITE_READONLY_ROLLBACK {
		// A creation was cut short before the log was set up: only then there is a journal that must be rolled back.
		empty, err = true, nil
	}
	switch {
	case err != nil:
		return wrapSettings(s.dir, err)
	case empty && hasSegments(s.dir):
		return errEmpty(s.dir)
	case empty:
		return fmt.Errorf("%w: %s was begun but never made: repeat `sluice ingest --store %s PATH…`", ErrNoStore,
			s.dir, s.dir)
	}
	return nil
}

// cannotShare reports whether SQLite failed for want of its -shm file.
func cannotShare(err error) bool {
	var se *sqlite.Error
	if !errors.As(err, &se) {
		return false
	}
	switch se.Code() & 0xff {
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR:
		return true
	}
	return false
}

// reopenImmutable serves folders that cannot be written to. Without a write-ahead log the database
// file alone is complete; with one it would be an older state, which is refused.
func (s *Store) reopenImmutable() (err error) {
	wal := filepath.Join(s.dir, databaseName+"-wal")
	if i, err := os.Stat(wal); err == nil && i.Size() > 0 {
		return fmt.Errorf("%w: %s was not closed by its last writer and this place cannot be written to: open it "+
			"once where it can (%s is merged then)", ErrReadOnly, s.dir, wal)
	}
	_ = s.read.Close()
	if s.read, err = openReader(s.dir, true, s.groups); err != nil {
		return wrap(s.dir, "open", err)
	}
	return nil
}

// checkSegments compares header and size of every segment with the state of now.
func (s *Store) checkSegments(ctx context.Context) error {
	for {
		err := s.settings.each(s.segments.count(s.settings.endRow), func(no int64) error {
			f, err := s.segments.check(no, s.settings.endRow)
			if err != nil {
				return err
			}
			return f.Close()
		})
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		now, stateErr := readState(ctx, s.read)
		if stateErr != nil || now.firstRow == s.settings.firstRow {
			return err
		}
		s.settings.state = now // Compact has removed some meanwhile
	}
}

// each calls fn for the numbers of the segments that there are.
func (s *settings) each(count int64, fn func(no int64) error) error {
	for no := s.firstRow / s.segmentRows; no < count; no++ {
		if err := fn(no); err != nil {
			return err
		}
	}
	return nil
}

// Encoder returns the encoder that made the vectors.
func (s *Store) Encoder() identity.Encoder { return s.settings.encoder }

// Metric returns the metric recorded at creation.
func (s *Store) Metric() kernels.Metric { return s.settings.metric }

// Dir returns the absolute path of the folder.
func (s *Store) Dir() string { return s.dir }

// Close ends reading and writing; calls that run and later ones get ErrClosed. Views stay valid.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	var errs []error
	if s.lock != nil {
		errs = append(errs, s.lock.close()) // after the transaction that runs
	}
	if s.read != nil {
		errs = append(errs, s.read.Close())
	}
	if s.write != nil { // last, so that it merges the write-ahead log
		errs = append(errs, s.write.Close())
	}
	<-s.viewing
	defer func() { s.viewing <- struct{}{} }()
	errs = append(errs, s.mapped.release())
	s.mapped, s.rows = nil, nil
	return errors.Join(errs...)
}

// wrap returns the function wrap, with ErrClosed for what fails because of Close.
func (s *Store) wrap(doing string, err error) error {
	if err != nil && s.closed.Load() && !errors.Is(err, ErrClosed) {
		err = fmt.Errorf("%w (%w)", ErrClosed, err)
	}
	return wrap(s.dir, doing, err)
}
