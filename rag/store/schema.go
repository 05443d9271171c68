package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/kernels"
)

const (
	databaseName  = "sluice.db"
	applicationID = 0x736c6365 // "slce", in the database's own header
	schemaVersion = 5          // user_version, the only one that is read
	blockRows     = 256        // of a new store, vectors that have one checksum
)

// schema: texts lie apart from chunks so that a View reads a few MB of chunks instead of
// all texts. Chunks name their document and topic by number for the same reason.
const schema = `
CREATE TABLE store (
	one              INTEGER PRIMARY KEY CHECK (one = 1),
	id               BLOB NOT NULL,     -- also in every segment header
	created          TEXT NOT NULL,
	encoder          TEXT NOT NULL,
	encoder_digest   TEXT NOT NULL,
	tokenizer_digest TEXT NOT NULL,
	dim              INTEGER NOT NULL,
	metric           TEXT NOT NULL,
	segment_rows     INTEGER NOT NULL,  -- row r is row r % segment_rows of segment r / segment_rows
	block_rows       INTEGER NOT NULL,  -- row r is of block r / block_rows
	first_row        INTEGER NOT NULL,  -- rows below are of segments that Compact has removed; begins a segment
	end_row          INTEGER NOT NULL,  -- rows below are committed, live or deleted; the next Commit starts here
	generation       INTEGER NOT NULL,  -- of the content: each transaction makes the next one
	regrouped        INTEGER NOT NULL   -- generation in which a chunk that stays got another document or topic
) STRICT;
CREATE TABLE topics (
	no   INTEGER PRIMARY KEY,
	name TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE documents (
	no     INTEGER PRIMARY KEY,
	id     TEXT NOT NULL UNIQUE,
	source TEXT NOT NULL,
	title  TEXT NOT NULL,
	topic  TEXT NOT NULL,
	digest TEXT NOT NULL,
	meta   TEXT NOT NULL,               -- JSON object
	added  TEXT NOT NULL,
	collection INTEGER NOT NULL DEFAULT 0, -- of the file; 0: of none
	path       TEXT NOT NULL DEFAULT '',   -- of the file: below the collection's root, or absolute; '': not known
	line       INTEGER NOT NULL DEFAULT 0, -- 1: a line of the file
	partial    INTEGER NOT NULL DEFAULT 0  -- 1: not all of its chunks are there
) STRICT;
CREATE TABLE collections (             -- a file is one document
	no   INTEGER PRIMARY KEY,
	name TEXT NOT NULL UNIQUE,
	root TEXT NOT NULL,                 -- absolute
	near TEXT NOT NULL,                 -- the same from the store's folder, if it lies below the one above; or empty
	flat INTEGER NOT NULL               -- 1: only files directly in it
) STRICT;
CREATE UNIQUE INDEX documents_file ON documents (collection, path) WHERE line = 0 AND path <> '';
CREATE TABLE chunks (
	row      INTEGER PRIMARY KEY,       -- of the vector; a row that is not here is deleted
	id       TEXT NOT NULL UNIQUE,
	digest   BLOB NOT NULL,             -- SHA-256 of the text
	document INTEGER NOT NULL REFERENCES documents (no),
	topic    INTEGER REFERENCES topics (no),
	tokens   INTEGER NOT NULL
) STRICT;
CREATE INDEX chunks_document ON chunks (document);
CREATE TABLE texts (
	row        INTEGER PRIMARY KEY REFERENCES chunks (row) ON DELETE CASCADE,
	source     TEXT NOT NULL,
	heading    TEXT NOT NULL,
	anchor     TEXT NOT NULL,
	start_byte INTEGER NOT NULL,
	end_byte   INTEGER NOT NULL,
	text       TEXT NOT NULL
) STRICT;
CREATE TABLE deleted (
	row        INTEGER PRIMARY KEY,     -- first_row and above; it is not in chunks and not used again
	generation INTEGER NOT NULL         -- that deleted it
) STRICT;
CREATE INDEX deleted_generation ON deleted (generation);
CREATE TABLE blocks (
	no  INTEGER PRIMARY KEY,
	crc INTEGER NOT NULL                -- CRC-32C of the block's rows below end_row, live or deleted
) STRICT;
CREATE TABLE labels (                  -- what is said in chunks, such as the people that they name
	row   INTEGER NOT NULL REFERENCES chunks (row) ON DELETE CASCADE ON UPDATE CASCADE,
	kind  TEXT NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY (row, kind, value)
) STRICT, WITHOUT ROWID;
CREATE INDEX labels_value ON labels (kind, value);
` + files + `
CREATE TABLE meta (
	key   TEXT PRIMARY KEY,
	value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
`

// settings is the one line of table store.
type settings struct {
	id          [16]byte
	created     string
	encoder     identity.Encoder
	metric      kernels.Metric
	segmentRows int64
	blockRows   int64
	state
}

// state holds the settings that change.
type state struct {
	firstRow, endRow, generation, regrouped int64
}

const stateColumns = `first_row, end_row, generation, regrouped`

const settingsColumns = `id, created, encoder, encoder_digest, tokenizer_digest, dim, metric, segment_rows,
	block_rows, ` + stateColumns

// scanSettings reads settingsColumns.
func scanSettings(scan func(...any) error) (s settings, err error) {
	var id []byte
	var metric string
	if err = scan(&id, &s.created, &s.encoder.Name, &s.encoder.Digest, &s.encoder.TokenizerDigest, &s.encoder.Dim,
		&metric, &s.segmentRows, &s.blockRows, &s.firstRow, &s.endRow, &s.generation, &s.regrouped); err != nil {
		return s, err
	}
	copy(s.id[:], id)
	if s.metric, err = kernels.ParseMetric(metric); err != nil {
		return s, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return s, nil
}

// readState reads the state within a transaction, or as it is now.
func readState(ctx context.Context, q interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) (s state, err error) {
	err = q.QueryRowContext(ctx, `SELECT `+stateColumns+` FROM store`).
		Scan(&s.firstRow, &s.endRow, &s.generation, &s.regrouped)
	return s, err
}

// dsn builds the connection string; path is absolute, so that its characters need escaping only.
func dsn(path string, q url.Values) string {
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

// openWriter opens the one connection that writes. With references, what a line refers to has to be there.
func openWriter(dir string, references bool) (*sql.DB, error) {
	db, err := sql.Open("sqlite", dsn(filepath.Join(dir, databaseName), url.Values{
		"_txlock": {"immediate"}, "_journal_mode": {"WAL"}, "_synchronous": {"FULL"}, "_busy_timeout": {"10000"},
		"_foreign_keys": {strconv.FormatBool(references)}, "_error_rc": {"1"}, "_dqs": {"0"},
		"_pragma": {"cache_size(-32768)"},
	}))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// maxReaders bounds the reading connections of a Store: one for each open View, and one for each query that runs. Who
// finds none waits for it, as long as his context lets him.
const maxReaders = 64

// openReader opens connections that only read. immutable is for folders where SQLite could not make
// its shared-memory file: it takes no locks and sees the database file alone.
// With groups they read what these may (access.go).
func openReader(dir string, immutable bool, groups []string) (db *sql.DB, err error) {
	q := url.Values{"mode": {"ro"}, "_busy_timeout": {"10000"}, "_error_rc": {"1"}, "_dqs": {"0"}}
	if immutable {
		q.Set("immutable", "1")
	}
	if at := filepath.Join(dir, databaseName); groups != nil {
		db = sql.OpenDB(restricted{dsn(at, q), groups})
	} else {
		q.Set("_query_only", "1")
		if db, err = sql.Open("sqlite", dsn(at, q)); err != nil {
			return nil, err
		}
	}
	db.SetMaxOpenConns(maxReaders)
	db.SetMaxIdleConns(8)
	return db, nil
}

// createSchema makes the tables and the settings line in one transaction.
func createSchema(db *sql.DB, o Options, limit int64) error {
	e := *o.Encoder
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails (crypto/rand)
	created := time.Now().UTC().Format(time.RFC3339)
	rows := segmentRows(e.Dim, limit)
	if o.like != nil {
		id, created = o.like.id, o.like.created
		rows = cmp.Or(o.like.segmentRows, rows)
	}
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, q := range []string{
		schema,
		fmt.Sprintf("PRAGMA application_id = %d", applicationID),
		fmt.Sprintf("PRAGMA user_version = %d", schemaVersion),
	} {
		if _, err := tx.Exec(q); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(`INSERT INTO store VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0)`, id[:],
		created, e.Name, e.Digest, e.TokenizerDigest, e.Dim, o.Metric.String(), rows, blockRows); err != nil {
		return err
	}
	return tx.Commit()
}

// readSettings checks that the database is one of ours, of a version we read, and returns its settings.
// empty reports whether it has no table at all: a creation that was cut short, or a file cut to nothing.
func readSettings(ctx context.Context, db *sql.DB) (s settings, empty bool, err error) {
	var app, version, tables int64
	if err := db.QueryRowContext(ctx, `SELECT (SELECT application_id FROM pragma_application_id),
		(SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema)`).Scan(&app, &version, &tables); err != nil {
		return s, false, err
	}
	switch {
	case tables == 0 && version == 0:
		return s, true, nil
	case app != applicationID:
		return s, false,
			fmt.Errorf("%w: it is not a database of Sluice (application id %#x, expected %#x)", ErrCorrupt, app,
				applicationID)
	case version != schemaVersion:
		return s, false, fmt.Errorf("%w: it has format %d, this program reads format %d: write an archive with the "+
			"program that made it (sluice docs export) and restore that with this one (sluice docs restore)", ErrVersion,
			version, schemaVersion)
	}
	var lastRow int64
	s, err = scanSettings(func(to ...any) error {
		return db.QueryRowContext(ctx, `SELECT coalesce((SELECT max(row) FROM chunks), -1), `+settingsColumns+
			` FROM store`).Scan(append([]any{&lastRow}, to...)...)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("%w: its settings are gone", ErrCorrupt)
	}
	if err != nil {
		return s, false, err
	}
	if s.encoder.Dim < 1 || s.encoder.Dim > maxDim || s.segmentRows < 1 || s.segmentRows%1024 != 0 ||
		s.blockRows < 1 || 1024%s.blockRows != 0 || s.firstRow < 0 || s.firstRow%s.segmentRows != 0 ||
		s.endRow < s.firstRow || lastRow >= s.endRow {
		return s, false,
			fmt.Errorf("%w: settings do not fit together (dimension %d, %d rows per segment, %d per block, rows from "+
				"%d to %d, last chunk in row %d)",
				ErrCorrupt, s.encoder.Dim, s.segmentRows, s.blockRows, s.firstRow, s.endRow, lastRow)
	}
	return s, false, nil
}

// wrap gives an error the folder, and one of SQLite the database's name and the sentinel that belongs to it.
func wrap(dir, doing string, err error) error {
	if err == nil {
		return nil
	}
	var se *sqlite.Error
	switch {
	case errors.As(err, &se):
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("store %s: %s: %w: %s", dir, doing, err, adviceFull)
	default:
		return fmt.Errorf("store %s: %s: %w", dir, doing, err)
	}
	path := filepath.Join(dir, databaseName)
	switch se.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT:
		return fmt.Errorf("%w: %s: %s: %w: restore the file from a backup, or ingest anew into another folder",
			ErrCorrupt, path, doing, err)
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%s: %s: %w: %w: %s", path, doing, syscall.ENOSPC, err, adviceFull)
	case sqlite3.SQLITE_READONLY:
		return fmt.Errorf("%w: %s: %s: %w", ErrReadOnly, path, doing, err)
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN: // SQLite does not say why
		switch why := whyNoWrite(dir); {
		case errors.Is(why, syscall.ENOSPC), errors.Is(why, syscall.EFBIG):
			return fmt.Errorf("%s: %s: %w: %w: %s", path, doing, why, err, adviceFull)
		case why != nil:
			return fmt.Errorf("%w: %s: %s: %w: %w", ErrReadOnly, path, doing, why, err)
		}
	}
	return fmt.Errorf("%s: %s: %w", path, doing, err)
}

// whyNoWrite returns why nothing can be written to a folder, as far as the system tells: a file system that is
// read-only or full, a permission that is missing, or the process's limit of a file's size.
func whyNoWrite(dir string) error {
	if err := unix.Access(dir, unix.W_OK); err != nil {
		return err
	}
	var at unix.Statfs_t
	if err := unix.Statfs(dir, &at); err == nil && uint64(at.Bavail)*uint64(at.Bsize) < pageOfShm {
		return syscall.ENOSPC
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return nil //nolint:nilerr // then nothing is known
	}
	for _, name := range []string{databaseName, databaseName + "-wal", databaseName + "-shm"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err == nil && uint64(info.Size())+pageOfShm > uint64(limit.Cur) {
			return syscall.EFBIG
		}
	}
	return nil
}

// pageOfShm is the step in which SQLite's shared memory grows.
const pageOfShm = 32 << 10

// wrapSettings is wrap for readSettings, whose own findings are about the database as well.
func wrapSettings(dir string, err error) error {
	if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion) {
		return fmt.Errorf("%s: %w", filepath.Join(dir, databaseName), err)
	}
	return wrap(dir, "read settings", err)
}

const adviceFull = "free some space and repeat; nothing that was committed is lost"
