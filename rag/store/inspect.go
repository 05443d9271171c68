package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/sluice-rag/sluice/rag/corpus"
)

// Finding is something that is not as it should be.
type Finding struct {
	What     string `json:"what"`     // database, segment, vectors, text, rows, index; elsewhere also others
	Where    string `json:"where"`    // file, or document
	Problem  string `json:"problem"`  // in words
	Mend     string `json:"mend"`     // the command or action that mends it
	Harmless bool   `json:"harmless"` // nothing of the store is damaged: a leftover, or a document that is incomplete
}

// Inspected is how much was compared.
type Inspected struct {
	Documents int   `json:"documents"`
	Chunks    int   `json:"chunks"`
	Rows      int64 `json:"rows"`   // of vectors, live or deleted
	Blocks    int   `json:"blocks"` // of vectors, by their checksums
	Texts     int   `json:"texts"`  // by their SHA-256
	Bytes     int64 `json:"bytes"`  // of vectors
}

const (
	mendBackup = "restore the file from a backup, or bring an export back into another folder ('sluice docs restore')"
	mendDump   = "'sluice docs export --out FILE' and 'sluice docs restore FILE' into another folder leave it behind"
)

// Inspect is Check that goes on: it calls found for all that is damaged, and for what is odd but harmless. It compares
// one state of the store; others may read and write meanwhile. An error is one of the inspection.
func (s *Store) Inspect(ctx context.Context, found func(Finding)) (done Inspected, err error) {
	texts, err := s.beginRead(ctx)
	if err != nil {
		return done, s.wrap("inspect", err)
	}
	defer func() { err = errors.Join(err, texts.close()) }()
	i := &inspection{store: s, tx: texts.tx, found: found, database: filepath.Join(s.dir, databaseName)}
	if i.now, err = readState(ctx, texts.tx); err != nil {
		return done, s.wrap("inspect", err)
	}
	for _, part := range []func(context.Context) error{i.sqlite, i.segments, i.vectors, i.rows, i.documents, i.list} {
		if err = part(ctx); err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return i.done, s.wrap("inspect", err)
		}
	}
	if s.shared != nil && !s.Restricted() {
		err = s.compare(ctx, found)
	}
	return i.done, s.wrap("inspect", err)
}

type inspection struct {
	store    *Store
	tx       *sql.Tx
	now      state
	database string
	found    func(Finding)
	done     Inspected
	unread   map[int64]bool // segments that cannot be read
}

// sqlite has SQLite compare its own pages and references.
func (i *inspection) sqlite(ctx context.Context) error {
	for _, q := range [...][2]string{{mendBackup, `SELECT * FROM pragma_integrity_check WHERE integrity_check <> 'ok'`},
		{mendDump, `SELECT format('%s row %s refers to a line of %s that is missing', "table", rowid, parent)
			FROM pragma_foreign_key_check`}} {
		var fault string
		err := each(ctx, i.tx, []any{&fault}, func() error {
			i.found(Finding{What: "database", Where: i.database, Problem: fault, Mend: q[0]})
			return nil
		}, q[1])
		if err != nil {
			return err
		}
	}
	return nil
}

// segments compares headers and sizes, and looks for files of no row.
func (i *inspection) segments(context.Context) error {
	g, names := &i.store.segments, []string{}
	i.unread = map[int64]bool{}
	set := i.store.settings
	set.state = i.now
	err := set.each(g.count(i.now.endRow), func(no int64) error {
		names = append(names, filepath.Base(g.path(no)))
		f, err := g.check(no, i.now.endRow)
		if err == nil {
			return f.Close()
		}
		i.unread[no] = true
		i.found(Finding{What: "segment", Where: g.path(no), Problem: err.Error(), Mend: mendBackup})
		return nil
	})
	entries, readErr := os.ReadDir(g.dir)
	for _, e := range entries {
		if !slices.Contains(names, e.Name()) {
			i.found(Finding{What: "segment", Where: filepath.Join(g.dir, e.Name()), Harmless: true,
				Problem: "no vector of the store is in it: a leftover of an interrupted command",
				Mend:    "nothing to do: 'sluice docs compact' or a later ingest removes or overwrites it"})
		}
	}
	return errors.Join(err, readErr)
}

// vectors compares all blocks with their checksums.
func (i *inspection) vectors(ctx context.Context) error {
	g := &i.store.segments
	i.done.Rows = i.now.endRow - i.now.firstRow
	i.done.Bytes = i.done.Rows * g.rowBytes()
	damaged := func(e *BlockError) error {
		i.found(Finding{What: "vectors", Where: e.File, Mend: "'sluice docs repair'", Problem: fmt.Sprintf(
			"block %d (rows %d to %d) has checksum %08x, committed was %08x", e.Block, e.Rows[0], e.Rows[1]-1, e.Got,
			e.Want)})
		return nil
	}
	for no := i.now.firstRow / g.rows; no < g.count(i.now.endRow); no++ {
		if i.unread[no] {
			continue
		}
		from, end := no*g.rows, min((no+1)*g.rows, i.now.endRow)
		_, err := i.store.findDamage(ctx, i.tx, from, end, func(from, to int64) ([]byte, error) {
			i.done.Blocks++
			return g.read(ctx, from, to)
		}, damaged)
		if errors.Is(err, ErrCorrupt) {
			i.found(Finding{What: "vectors", Where: g.path(no), Problem: err.Error(), Mend: mendBackup})
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rows sees that each row is live or deleted, and compares the texts with their digests.
func (i *inspection) rows(ctx context.Context) error {
	next := i.now.firstRow
	var row int64
	var deleted bool
	var digest sql.RawBytes
	var chunk corpus.Chunk
	return each(ctx, i.tx, []any{&row, &chunk.ID, &deleted, &digest, &chunk.Heading, &chunk.Text, &chunk.Document,
		&chunk.Source}, func() error {
		if row != next {
			i.found(Finding{What: "rows", Where: i.database, Mend: mendDump,
				Problem: fmt.Sprintf("row %d is neither live nor deleted, or both", min(row, next))})
		}
		next = max(row, next-1) + 1
		if deleted {
			return ctx.Err()
		}
		i.done.Chunks++
		i.done.Texts++
		if checkTextOf(&chunk, digest) != nil {
			i.found(Finding{What: "text", Where: chunk.Document, Mend: "'sluice ingest' of " + chunk.Source +
				" reads it again", Problem: fmt.Sprintf("the text of chunk %q is not the one committed", chunk.ID)})
		}
		return nil
	}, `SELECT row, c.id, 0, c.digest, coalesce(heading, ''), coalesce(text, ''), coalesce(d.id, ''),
			coalesce(d.source, '') FROM chunks AS c LEFT JOIN texts USING (row) LEFT JOIN documents AS d ON d.no = c.document
		UNION ALL SELECT row, '', 1, x'', '', '', '', '' FROM deleted ORDER BY row`)
}

// documents counts them and lists those that are incomplete.
func (i *inspection) documents(ctx context.Context) error {
	var id, source string
	var partial bool
	return each(ctx, i.tx, []any{&id, &source, &partial}, func() error {
		if i.done.Documents++; partial {
			i.found(Finding{What: "document", Where: id, Problem: "it is incomplete: an ingest was interrupted",
				Mend: "'sluice ingest' of " + source + " completes it", Harmless: true})
		}
		return nil
	}, `SELECT id, source, partial FROM documents ORDER BY no`)
}

// list compares the file of rows, if there is one, with the database.
func (i *inspection) list(ctx context.Context) error {
	path := filepath.Join(i.store.dir, IndexFolder, rowsName)
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	broken := func(problem string) {
		i.found(Finding{What: "index", Where: path, Problem: problem, Mend: "delete it: it is made again by itself"})
	}
	if err != nil {
		broken(err.Error())
		return nil
	}
	kept, err := parseRows(b, i.store.settings.id)
	if err != nil {
		broken(err.Error())
		return nil
	}
	fresh, err := readRows(ctx, i.tx, i.now, nil)
	if err != nil {
		return err
	}
	updated, err := readRows(ctx, i.tx, i.now, kept)
	if err != nil {
		return err
	}
	if !sameRows(fresh, updated) {
		broken("it does not list the rows of the database")
	}
	return nil
}

// sameRows compares what two lists say of live rows.
func sameRows(a, b *rowList) bool {
	if len(a.ids) != len(b.ids) || !slices.Equal(a.dead, b.dead) {
		return false
	}
	for i := range a.ids {
		if !a.isDead(i) && (a.ids[i] != b.ids[i] || a.groups[i] != b.groups[i] ||
			!bytes.Equal(a.digests[i][:], b.digests[i][:])) {
			return false
		}
	}
	return true
}
