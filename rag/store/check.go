package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// checkBatch looks at a whole batch before anything of it is written.
func checkBatch(b Batch, dim int) error {
	for _, d := range b.Documents {
		if err := checkDocument(d); err != nil {
			return err
		}
	}
	if err := checkFiles(b.Files); err != nil {
		return err
	}
	texts := make(map[string]string, len(b.Chunks))
	for _, list := range [][]corpus.Chunk{b.Chunks, b.Known} {
		for i := range list {
			k := &list[i]
			if err := checkChunk(k); err != nil {
				return err
			}
			if text, ok := texts[k.ID]; ok && text != k.Text {
				return fmt.Errorf("%w: chunk %q is in the batch twice, with different texts", ErrInput, k.ID)
			}
			texts[k.ID] = k.Text
		}
	}
	for id, list := range b.Labels {
		if _, ok := texts[id]; !ok {
			return fmt.Errorf("%w: labels of chunk %q, which is not in the batch", ErrInput, id)
		}
		for _, l := range list {
			if err := errors.Join(checkText("label's kind", l.Kind, false),
				checkText("label", l.Value, false)); err != nil {
				return fmt.Errorf("chunk %q: %w", id, err)
			}
		}
	}
	return checkVectors(b, dim)
}

func checkDocument(d *corpus.Document) error {
	if d == nil {
		return fmt.Errorf("%w: a document of the batch is nil", ErrInput)
	}
	if err := checkText("document id", d.ID, false); err != nil {
		return err
	}
	for _, f := range [...]struct{ name, value string }{{"source", d.Source}, {"title", d.Title}, {"topic", d.Topic},
		{"digest", d.Digest}} {
		if err := checkText(f.name, f.value, true); err != nil {
			return fmt.Errorf("document %q: %w", d.ID, err)
		}
	}
	return nil
}

func checkChunk(k *corpus.Chunk) error {
	if err := checkText("chunk id", k.ID, false); err != nil {
		return err
	}
	for _, f := range [...]struct {
		name, value string
		emptyOK     bool
	}{{"text", k.Text, false}, {"document", k.Document, false}, {"source", k.Source, true},
		{"heading", k.Heading, true},
		{"anchor", k.Anchor, true}, {"topic", k.Topic, true}} {
		if err := checkText(f.name, f.value, f.emptyOK); err != nil {
			return fmt.Errorf("chunk %q: %w", k.ID, err)
		}
	}
	if k.Start < 0 || k.End < k.Start || k.Tokens < 0 {
		return fmt.Errorf("%w: chunk %q has bytes %d to %d and %d tokens", ErrInput, k.ID, k.Start, k.End, k.Tokens)
	}
	return nil
}

// checkText refuses what cannot be stored and given back as it was: invalid UTF-8, NUL, and nothing
// but white space where words are needed.
func checkText(name, s string, emptyOK bool) error {
	switch {
	case !utf8.ValidString(s):
		return fmt.Errorf("%w: %s %.80q is not valid UTF-8", ErrInput, name, s)
	case strings.IndexByte(s, 0) >= 0:
		return fmt.Errorf("%w: %s %.80q contains a NUL", ErrInput, name, s)
	case !emptyOK && strings.TrimSpace(s) == "":
		return fmt.Errorf("%w: %s %.80q is empty", ErrInput, name, s)
	}
	return nil
}

// checkVectors names the first value that is not a finite number by row (of Batch.Chunks) and column.
func checkVectors(b Batch, dim int) error {
	if want := len(b.Chunks) * dim; len(b.Vectors) != want {
		return fmt.Errorf("%w: %d values for %d chunks of %d dimensions (%d expected)", ErrDimension, len(b.Vectors),
			len(b.Chunks), dim, want)
	}
	const exponent = 0xff << 23 // all ones: infinity or NaN
	for i, v := range b.Vectors {
		if math.Float32bits(v)&exponent == exponent {
			return fmt.Errorf("%w: %v in row %d (chunk %q), column %d", kernels.ErrNonFinite, v, i/dim,
				b.Chunks[i/dim].ID, i%dim)
		}
	}
	return nil
}

// Check reads everything and compares: SQLite's integrity and foreign keys, every segment's header and
// size, every block's checksum, every text's digest, and that every row is live or deleted. The first fault is returned
// as ErrCorrupt.
func (s *Store) Check(ctx context.Context) error {
	for _, q := range []string{`SELECT * FROM pragma_integrity_check WHERE integrity_check <> 'ok'`,
		`SELECT format('%s row %s refers to a missing %s', "table", rowid, parent) FROM pragma_foreign_key_check`} {
		var fault string
		err := s.each(ctx, []any{&fault}, func() error {
			return fmt.Errorf("%w: %s: %s", ErrCorrupt, filepath.Join(s.dir, databaseName), fault)
		}, q)
		if err != nil {
			return s.wrap("check", err)
		}
	}
	return s.wrap("check", s.checkRows(ctx))
}

func (s *Store) checkRows(ctx context.Context) error {
	texts, err := s.beginRead(ctx)
	if err != nil {
		return err
	}
	defer texts.close()
	now, err := readState(ctx, texts.tx)
	if err != nil {
		return err
	}
	err = s.checkBlocks(ctx, texts.tx, now.firstRow, now.endRow, func(from, to int64) ([]byte, error) {
		return s.segments.read(ctx, from, to)
	})
	if err != nil {
		return err
	}
	next := now.firstRow
	var row int64
	var id string
	var isDead bool
	var chunk corpus.Chunk
	var digest sql.RawBytes
	return each(ctx, texts.tx, []any{&row, &id, &isDead, &digest, &chunk.Heading, &chunk.Text}, func() error {
		if row != next {
			return fmt.Errorf("%w: %s: row %d is neither live nor deleted, or both", ErrCorrupt,
				filepath.Join(s.dir, databaseName), min(row, next))
		}
		next++
		if isDead {
			return ctx.Err()
		}
		if sum := sha256.Sum256([]byte(chunk.EmbedText())); string(sum[:]) != string(digest) {
			return fmt.Errorf("%w: %s: the text of chunk %q is not the one committed", ErrCorrupt,
				filepath.Join(s.dir, databaseName), id)
		}
		return nil
	}, `SELECT row, id, 0, digest, coalesce(heading, ''), coalesce(text, '') FROM chunks LEFT JOIN texts USING (row)
		UNION ALL SELECT row, '', 1, x'', '', '' FROM deleted ORDER BY row`)
}

// Damage describes what a View leaves out.
type Damage struct {
	Blocks    []*BlockError
	Chunks    int
	Documents []string // ids of documents that chunks are left out of, the first of them
	More      int      // documents beyond these
}

// documentsNamed is how many documents a Damage names.
const documentsNamed = 5

func (d *Damage) String() string {
	names := fmt.Sprintf("%q", d.Documents)
	if d.More > 0 {
		names += fmt.Sprintf(" and %d more documents", d.More)
	}
	return fmt.Sprintf("%d chunks are left out, of %s: %v", d.Chunks, names, d.Blocks[0])
}

// leaveOut lets the rows of damaged blocks count as deleted.
func (v *View) leaveOut(ctx context.Context, q queryer, blocks []*BlockError) error {
	rows := *v.rows // the store's own list stays as it is
	rows.dead = slices.Clone(rows.dead)
	d := &Damage{Blocks: blocks}
	for _, b := range blocks {
		for row := max(b.Rows[0], v.First); row < b.Rows[1]; row++ {
			if i := int(row - v.First); !rows.isDead(i) {
				rows.kill(i)
				d.Chunks++
			}
		}
		var id string
		err := each(ctx, q, []any{&id}, func() error {
			switch {
			case slices.Contains(d.Documents, id):
			case len(d.Documents) < documentsNamed:
				d.Documents = append(d.Documents, id)
			default:
				d.More++
			}
			return nil
		}, `SELECT DISTINCT d.id FROM chunks c JOIN documents d ON d.no = c.document WHERE c.row >= ? AND c.row < ?
			ORDER BY c.row`, b.Rows[0], b.Rows[1])
		if err != nil {
			return err
		}
	}
	if d.Chunks == 0 { // all of them were deleted before
		return nil
	}
	v.rows, v.Damage = &rows, d
	if v.Count() == 0 {
		return blocks[0]
	}
	return nil
}

// withoutDamage replaces the mapping by one in memory, in which the rows of damaged blocks are zero: the file's
// may not be numbers. Each View makes one of its own, because it does not grow with the file.
func (s *Store) withoutDamage(ctx context.Context, now state, damaged []*BlockError) error {
	m := s.mapped
	if m.base != nil {
		var err error
		if m, err = s.segments.readAll(ctx, now.firstRow, now.endRow); err != nil {
			return err
		}
		m.checksums, m.whole = s.mapped.checksums, s.mapped.whole
		_ = s.mapped.release() // Views that use it keep it
		s.mapped = m
	}
	m.damaged = damaged
	for _, d := range damaged {
		clear(m.rows(d.Rows[0], d.Rows[1]))
	}
	return nil
}
