package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
)

// FileState is what a file was when its documents were read: a file that still is that, and whose documents are still
// those, need not be read again. It is no truth about documents, only about files; without it they are read.
type FileState struct {
	Path string // absolute, links followed
	Via  string // absolute, as it was reached: differs from Path for a link
	Size int64
	// Modified and Changed are the file's times (st_mtime, st_ctime), Read is when reading it began: nanoseconds since
	// 1970. Changed and Inode are 0 where the system does not tell.
	Modified, Changed, Read int64
	Inode                   uint64
	How                     string   // what its documents depend on besides: the options of reading and cutting
	Documents               [16]byte // of the ids and digests of its documents
	NoWords                 bool     // it was read, and had none
}

// files is the table of FileState.
const files = `
CREATE TABLE files (
	path      TEXT PRIMARY KEY,          -- absolute
	via       TEXT NOT NULL,             -- absolute, as it was reached; '' when that is the path
	size      INTEGER NOT NULL,
	modified  INTEGER NOT NULL,          -- nanoseconds since 1970, as the other times
	changed   INTEGER NOT NULL,
	read      INTEGER NOT NULL,
	inode     INTEGER NOT NULL,
	how       TEXT NOT NULL,
	documents BLOB NOT NULL,
	no_words  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;`

// Files returns the states of all files that are kept, by their paths.
func (s *Store) Files(ctx context.Context) (map[string]FileState, error) {
	found := map[string]FileState{}
	var f FileState
	var inode int64
	var how string
	var documents sql.RawBytes
	err := s.each(ctx, []any{&f.Path, &f.Via, &f.Size, &f.Modified, &f.Changed, &f.Read, &inode, &how, &documents,
		&f.NoWords}, func() error {
		if f.How != how { // most files share it
			f.How = how
		}
		f.Inode = uint64(inode)
		if copy(f.Documents[:], documents) != len(f.Documents) {
			return fmt.Errorf("%w: the state of file %q", ErrCorrupt, f.Path)
		}
		f.Via = cmp.Or(f.Via, f.Path)
		found[f.Path] = f
		return nil
	}, `SELECT path, via, size, modified, changed, read, inode, how, documents, no_words FROM files`)
	if err != nil {
		return nil, s.wrap("read the states of files", err)
	}
	return found, nil
}

// PutFiles keeps the states of files, and forgets those of the paths in gone. Batch.Files does so with documents.
func (s *Store) PutFiles(ctx context.Context, put []FileState, gone []string) error {
	if len(put)+len(gone) == 0 {
		return ctx.Err()
	}
	if s.write == nil {
		return fmt.Errorf("%w: %s: open it without ReadOnly to keep the states of files", ErrReadOnly, s.dir)
	}
	if err := checkFiles(put); err != nil {
		return fmt.Errorf("store %s: %w", s.dir, err)
	}
	return s.transact(ctx, "keep the states of files", func(ctx context.Context, tx *change) error {
		if len(gone) > 0 {
			if _, err := tx.Exec(`DELETE FROM files WHERE path IN (SELECT value FROM json_each(?))`,
				jsonList(gone)); err != nil {
				return err
			}
		}
		return putFiles(ctx, tx, put)
	})
}

func checkFiles(list []FileState) error {
	for _, f := range list {
		if err := errors.Join(checkText("path", f.Path, false), checkText("path", f.Via, true),
			checkText("options", f.How, true)); err != nil {
			return err
		}
	}
	return nil
}

func putFiles(ctx context.Context, tx *change, list []FileState) error {
	if len(list) == 0 {
		return nil
	}
	put, err := tx.Prepare(`INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	defer put.Close()
	for _, f := range list {
		if f.Via == f.Path {
			f.Via = ""
		}
		if _, err := put.Exec(f.Path, f.Via, f.Size, f.Modified, f.Changed, f.Read, int64(f.Inode), f.How,
			f.Documents[:], f.NoWords); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// DeleteUnchanged deletes those of the documents, by ID, that still have the Digest given, with their chunks: one that
// was deleted or committed anew meanwhile is left alone. It returns the ids that it deleted, and how many chunks went.
func (s *Store) DeleteUnchanged(ctx context.Context, list []DocumentInfo) (ids []string, chunks int, err error) {
	if s.write == nil {
		return nil, 0, fmt.Errorf("%w: %s: open it without ReadOnly to delete", ErrReadOnly, s.dir)
	}
	err = s.transact(ctx, "delete documents", func(ctx context.Context, tx *change) error {
		ids, chunks = nil, 0
		for _, d := range list {
			if err := ctx.Err(); err != nil {
				return err
			}
			var no int64
			err := tx.QueryRow(`SELECT no FROM documents WHERE id = ? AND digest = ?`, d.ID, d.Digest).Scan(&no)
			if errors.Is(err, sql.ErrNoRows) {
				continue
			}
			if err != nil {
				return err
			}
			n, err := tx.deleteWhere(`document = ?1`, no)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(`DELETE FROM documents WHERE no = ?`, no); err != nil {
				return err
			}
			ids, chunks = append(ids, d.ID), chunks+int(n)
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return ids, chunks, nil
}

// TextRows returns the rows of the chunks of documents by the digests of their texts (corpus.Chunk.Digest, as bytes):
// who needs the vector of such a text finds it there (RowVectors), also after the chunk has been deleted, until the
// store is compacted. Of chunks with the same text it is one of them.
func (s *Store) TextRows(ctx context.Context, documents []string) (map[[sha256.Size]byte]int64, error) {
	list, err := json.Marshal(documents)
	if err != nil {
		return nil, err
	}
	rows := map[[sha256.Size]byte]int64{}
	var row int64
	var digest sql.RawBytes
	err = s.each(ctx, []any{&row, &digest}, func() error {
		if len(digest) == sha256.Size {
			rows[[sha256.Size]byte(digest)] = row
		}
		return nil
	}, `SELECT c.row, c.digest FROM json_each(?) AS j CROSS JOIN documents AS d ON d.id = j.value
		CROSS JOIN chunks AS c ON c.document = d.no`, string(list))
	if err != nil {
		return nil, s.wrap("find texts", err)
	}
	return rows, nil
}
