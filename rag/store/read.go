package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/rag/corpus"
)

// queryer is a transaction or a set of connections.
type queryer interface {
	Query(query string, args ...any) (*sql.Rows, error)
}

// eachLine runs a query and calls fn for each line until it fails.
func eachLine(q queryer, fn func(scan func(...any) error) error, query string, args ...any) error {
	rows, err := q.Query(query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// each runs a query, reads each line into the variables that to points to, and calls fn, until that fails or ctx ends.
func each(ctx context.Context, q queryer, to []any, fn func() error, query string, args ...any) error {
	return eachLine(q, func(scan func(...any) error) error {
		if err := scan(to...); err != nil {
			return err
		}
		return cmp.Or(fn(), ctx.Err())
	}, query, args...)
}

// each is the function each on one of the reading connections, for which it waits as long as ctx lets it.
func (s *Store) each(ctx context.Context, to []any, fn func() error, query string, args ...any) error {
	return s.reading(ctx, func(q queryer) error { return each(ctx, q, to, fn, query, args...) })
}

// reading calls fn with one of the reading connections.
func (s *Store) reading(ctx context.Context, fn func(queryer) error) error {
	conn, err := s.read.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return fn(connection{conn})
}

// connection is one connection as a queryer. Queries are without a context: loops over lines ask it, and no query
// is long without one.
type connection struct{ *sql.Conn }

func (c connection) Query(query string, args ...any) (*sql.Rows, error) {
	return c.QueryContext(context.Background(), query, args...)
}

// held is the row stored under a chunk id.
type held struct {
	row     int64
	digest  [sha256.Size]byte
	damaged bool // the text is not that of the digest
}

// lookup finds chunks by id in one query and compares their texts with their digests; what does not exist is left out.
func lookup(ctx context.Context, q queryer, ids []string) (map[string]held, error) {
	found := make(map[string]held, len(ids))
	var id string
	var h held
	var digest sql.RawBytes
	var chunk corpus.Chunk
	err := each(ctx, q, []any{&id, &h.row, &digest, &chunk.Heading, &chunk.Text}, func() error {
		h.digest = [sha256.Size]byte{}
		copy(h.digest[:], digest)
		h.damaged = checkTextOf(&chunk, digest) != nil
		found[id] = h
		return nil
	}, `SELECT c.id, c.row, c.digest, coalesce(t.heading, ''), coalesce(t.text, '')
		FROM json_each(?) AS j CROSS JOIN chunks AS c ON c.id = j.value LEFT JOIN texts AS t USING (row)`, jsonList(ids))
	return found, err
}

// jsonList is ids as json_each reads them. Ids that are not UTF-8 exist in no store; they become
// empty strings, because JSON would turn them into ids that might.
func jsonList(ids []string) string {
	valid := make([]string, len(ids))
	for i, id := range ids {
		if utf8.ValidString(id) {
			valid[i] = id
		}
	}
	b, _ := json.Marshal(valid) // strings always marshal
	return string(b)
}

// Has returns the digests (corpus.Chunk.Digest) of those chunks that exist; of one whose text is damaged "".
func (s *Store) Has(ctx context.Context, ids []string) (map[string]string, error) {
	var found map[string]held
	err := s.reading(ctx, func(q queryer) (err error) {
		found, err = lookup(ctx, q, ids)
		return err
	})
	if err != nil {
		return nil, s.wrap("look up chunks", err)
	}
	has := make(map[string]string, len(found))
	for id, h := range found {
		if has[id] = ""; !h.damaged {
			has[id] = hex.EncodeToString(h.digest[:])
		}
	}
	return has, nil
}

const chunkColumns = `c.id, d.id, t.source, t.heading, t.anchor, coalesce(p.name, ''), t.start_byte, t.end_byte, t.text, c.tokens`

const chunkTables = `chunks AS c JOIN texts AS t USING (row) JOIN documents AS d ON d.no = c.document LEFT JOIN topics AS p ON p.no = c.topic`

// chunkTargets returns what chunkColumns are read into, and more.
func chunkTargets(k *corpus.Chunk, more ...any) []any {
	return append([]any{&k.ID, &k.Document, &k.Source, &k.Heading, &k.Anchor, &k.Topic, &k.Start, &k.End, &k.Text,
		&k.Tokens}, more...)
}

// Chunks returns the chunks of ids in that order, as they are now; ErrNotFound names the first that is missing, and a
// TextError one whose text is not the one committed. Who has
// scores from a View takes its Chunks.
func (s *Store) Chunks(ctx context.Context, ids []string) ([]corpus.Chunk, error) {
	var chunks []corpus.Chunk
	err := s.reading(ctx, func(q queryer) (err error) {
		chunks, err = readChunks(ctx, q, ids)
		return err
	})
	if err != nil {
		return nil, s.wrap("read chunks", err)
	}
	return chunks, nil
}

// readChunks reads the chunks of ids in that order.
func readChunks(ctx context.Context, q queryer, ids []string) ([]corpus.Chunk, error) {
	chunks := make([]corpus.Chunk, 0, len(ids))
	missing := func() error { return fmt.Errorf("%w: chunk %q", ErrNotFound, ids[len(chunks)]) }
	var at int
	var digest sql.RawBytes
	var k corpus.Chunk
	err := each(ctx, q, chunkTargets(&k, &digest, &at), func() error {
		if at != len(chunks) {
			return missing()
		}
		chunks = append(chunks, k)
		return checkTextOf(&k, digest)
	}, `SELECT `+chunkColumns+`, c.digest, j.key FROM json_each(?) AS j CROSS JOIN `+chunkTables+
		` WHERE c.id = j.value ORDER BY j.key`, jsonList(ids))
	if err == nil && len(chunks) < len(ids) {
		err = missing()
	}
	return chunks, err
}

// AllChunks yields the live chunks in row order, which is a View's: one consistent state, however long
// the loop takes. An error ends the sequence.
func (s *Store) AllChunks(ctx context.Context) iter.Seq2[corpus.Chunk, error] {
	return s.chunksWhere(ctx, `true`)
}

// DocumentChunks yields a document's live chunks in row order; none if there is no such document.
func (s *Store) DocumentChunks(ctx context.Context, id string) iter.Seq2[corpus.Chunk, error] {
	return s.chunksWhere(ctx, `d.id = ?`, id)
}

func (s *Store) chunksWhere(ctx context.Context, where string, args ...any) iter.Seq2[corpus.Chunk, error] {
	errStop := errors.New("stop")
	return func(yield func(corpus.Chunk, error) bool) {
		var digest sql.RawBytes
		var k corpus.Chunk
		err := s.each(ctx, chunkTargets(&k, &digest), func() error {
			if err := errors.Join(checkTextOf(&k, digest), ctx.Err()); err != nil {
				return err
			}
			if !yield(k, nil) {
				return errStop
			}
			return nil
		}, `SELECT `+chunkColumns+`, c.digest FROM `+chunkTables+` WHERE `+where+` ORDER BY c.row`, args...)
		if err != nil && err != errStop {
			yield(corpus.Chunk{}, s.wrap("read chunks", err))
		}
	}
}

// Documents lists the documents in the order of their first commit.
func (s *Store) Documents(ctx context.Context) ([]DocumentInfo, error) {
	list, err := s.documents(ctx, `true`)
	return list, s.wrap("list documents", err)
}

// Document returns one document, or ErrNotFound.
func (s *Store) Document(ctx context.Context, id string) (DocumentInfo, error) {
	list, err := s.documents(ctx, `d.id = ?`, id)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%w: document %q", ErrNotFound, id)
	}
	if err != nil {
		return DocumentInfo{}, s.wrap("read a document", err)
	}
	return list[0], nil
}

func (s *Store) documents(ctx context.Context, where string, args ...any) (list []DocumentInfo, err error) {
	err = s.reading(ctx, func(q queryer) error {
		collections, err := s.collections(ctx, q)
		if err != nil {
			return err
		}
		list, err = documentsIn(ctx, q, collections, where, args...)
		return err
	})
	return list, err
}

// documentsIn reads the documents of a condition on them as d.
func documentsIn(
	ctx context.Context, q queryer, collections []Collection, where string, args ...any,
) (list []DocumentInfo, err error) {
	var l documentLine
	return list, each(ctx, q, l.targets(&l.Chunks, &l.Tokens), func() error {
		d, err := l.document(collections)
		list = append(list, d)
		return err
	}, `SELECT `+documentColumns+`, count(c.row), coalesce(sum(c.tokens), 0)
		FROM documents AS d LEFT JOIN chunks AS c ON c.document = d.no WHERE `+where+` GROUP BY d.no ORDER BY d.no`,
		args...)
}

const documentColumns = `d.id, d.source, d.title, d.topic, d.digest, d.meta, d.added, d.collection, d.path, d.line, d.partial`

// documentLine is what documentColumns are read into.
type documentLine struct {
	DocumentInfo
	at   place
	meta string
}

func (l *documentLine) targets(more ...any) []any {
	return append([]any{&l.ID, &l.Source, &l.Title, &l.Topic, &l.Digest, &l.meta, &l.Added, &l.at.collection,
		&l.at.path, &l.Line, &l.Partial}, more...)
}

// document returns the document of the line that was read last.
func (l *documentLine) document(collections []Collection) (DocumentInfo, error) {
	d := l.DocumentInfo
	d.Path, d.Collection = l.at.absolute(collections)
	if l.meta == "{}" || l.meta == "null" { // most documents have none
		return d, nil
	}
	if err := json.Unmarshal([]byte(l.meta), &d.Meta); err != nil {
		return d, fmt.Errorf("%w: document %q: %w", ErrCorrupt, d.ID, err)
	}
	return d, nil
}

// Meta returns the value under key, or ErrNotFound.
func (s *Store) Meta(ctx context.Context, key string) (value []byte, err error) {
	err = fmt.Errorf("%w: key %q", ErrNotFound, key)
	if failed := s.each(ctx, []any{&value}, func() error { err = nil; return nil },
		`SELECT value FROM meta WHERE key = ?`, key); failed != nil {
		err = failed
	}
	if err != nil {
		return nil, s.wrap("read", err)
	}
	return value, nil
}
