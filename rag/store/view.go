package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// View maps the live chunks. If their rows are without gaps (nothing deleted but at the ends), the
// vectors are the segments themselves, mapped end to end without a copy, however many there are;
// otherwise the live rows are read into memory of their own. Segments are compared with the database
// first: a missing, short or foreign one is ErrCorrupt.
//
// Ids, digests and texts are read in one transaction of the database, which lasts until the view is closed: what is
// deleted or replaced meanwhile keeps its old pages for it in SQLite's log. The log cannot begin anew before.
func (s *Store) View(ctx context.Context) (_ *View, err error) {
	texts, err := s.beginRead()
	if err != nil {
		return nil, wrap(s.dir, "view", err)
	}
	defer func() {
		if err != nil {
			_ = texts.close() // the first error counts
		}
	}()
	l, err := readLive(ctx, texts.tx)
	if err != nil {
		return nil, wrap(s.dir, "view", err)
	}
	dim := int64(s.settings.encoder.Dim)
	v := &View{IDs: l.ids, Rows: l.rows, TextDigests: l.hexDigests(), Groups: l.groups, Digest: l.digest(),
		texts: texts}
	v.Vectors = engine.Vectors{Rows: len(l.ids), Dim: int(dim), Stride: int(dim)}
	n := int64(len(l.rows))
	switch {
	case n == 0:
	case l.rows[n-1]-l.rows[0] == n-1 && s.segments.mappable():
		var all []float32
		if all, v.release, err = s.segments.mapAll(l.rows[n-1] + 1); err == nil {
			v.Vectors.Data = all[l.rows[0]*dim:]
		}
	default:
		v.Vectors.Data, err = s.segments.gather(ctx, l.rows, l.rows[n-1]+1)
	}
	if err != nil {
		return nil, wrap(s.dir, "view", err)
	}
	return v, nil
}

// Chunks returns the view's chunks of ids in that order, with the texts that they had when the view was taken;
// ErrNotFound names the first that it lacks. ErrClosed after Close.
func (v *View) Chunks(ctx context.Context, ids []string) ([]corpus.Chunk, error) {
	return v.texts.chunks(ctx, ids)
}

// Close releases the view's mappings and ends its transaction. Closing twice is harmless.
func (v *View) Close() error {
	err := v.texts.close()
	if r := v.release; r != nil {
		v.release, v.Vectors.Data = nil, nil
		err = errors.Join(err, r())
	}
	return err
}

// reader is one state of the database: a transaction that only reads, used by one caller at a time.
type reader struct {
	dir  string
	turn chan struct{} // holds a token while nobody reads
	tx   *sql.Tx       // nil once closed
}

// beginRead begins a transaction. Its state is that of its first query.
func (s *Store) beginRead() (*reader, error) {
	tx, err := s.read.Begin()
	if err != nil {
		return nil, err
	}
	r := &reader{dir: s.dir, turn: make(chan struct{}, 1), tx: tx}
	r.turn <- struct{}{}
	return r, nil
}

// chunksAtOnce are read before another caller has its turn: some milliseconds.
const chunksAtOnce = 256

func (r *reader) chunks(ctx context.Context, ids []string) ([]corpus.Chunk, error) {
	chunks := make([]corpus.Chunk, 0, len(ids))
	for part := range slices.Chunk(ids, chunksAtOnce) {
		more, err := r.read(ctx, part)
		if err != nil {
			return nil, wrap(r.dir, "read chunks", err)
		}
		chunks = append(chunks, more...)
	}
	return chunks, nil
}

func (r *reader) read(ctx context.Context, ids []string) ([]corpus.Chunk, error) {
	select {
	case <-r.turn:
		defer func() { r.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if r.tx == nil {
		return nil, ErrClosed
	}
	return readChunks(ctx, r.tx, ids)
}

// close ends the transaction, after the caller whose turn it is.
func (r *reader) close() error {
	<-r.turn
	defer func() { r.turn <- struct{}{} }()
	if r.tx == nil {
		return nil
	}
	err := r.tx.Rollback()
	r.tx = nil
	return err
}

// RowVectors reads the vectors of rows as View.Rows names them, in that order. Rows of chunks that have been deleted
// are there as well: their space is not used again. A row that was never written is ErrNotFound.
func (s *Store) RowVectors(ctx context.Context, rows []int64) (engine.Vectors, error) {
	dim := s.settings.encoder.Dim
	out := engine.Vectors{Rows: len(rows), Dim: dim, Stride: dim}
	if len(rows) == 0 {
		return out, nil
	}
	var end int64
	if err := s.read.QueryRowContext(ctx, `SELECT end_row FROM store`).Scan(&end); err != nil {
		return out, wrap(s.dir, "read vectors", err)
	}
	order := make([]int, len(rows))
	for i, row := range rows {
		if order[i] = i; row < 0 || row >= end {
			return out, wrap(s.dir, "read vectors", fmt.Errorf("%w: row %d of %d", ErrNotFound, row, end))
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(rows[a], rows[b]) })
	sorted := make([]int64, len(rows))
	for i, k := range order {
		sorted[i] = rows[k]
	}
	data, err := s.segments.gather(ctx, sorted, end)
	if err != nil {
		return out, wrap(s.dir, "read vectors", err)
	}
	out.Data = make([]float32, len(data))
	for i, k := range order {
		copy(out.Data[k*dim:(k+1)*dim], data[i*dim:(i+1)*dim])
	}
	return out, nil
}

// live is the list of live rows, read in one snapshot of the database.
type live struct {
	rows    []int64
	ids     []string
	digests []byte // 32 each
	groups  []int32
}

func readLive(ctx context.Context, q queryer) (l live, err error) {
	numbers := map[int64]int32{} // topic → group; a document without one is −its number
	err = each(q, func(scan func(...any) error) error {
		var row, group int64
		var id string
		var digest sql.RawBytes
		if err := scan(&row, &id, &digest, &group); err != nil {
			return err
		}
		if len(digest) != sha256.Size {
			return fmt.Errorf("%w: chunk %q has a text digest of %d bytes", ErrCorrupt, id, len(digest))
		}
		g, ok := numbers[group]
		if !ok {
			g = int32(len(numbers))
			numbers[group] = g
		}
		l.rows, l.ids, l.groups = append(l.rows, row), append(l.ids, id), append(l.groups, g)
		l.digests = append(l.digests, digest...)
		return ctx.Err()
	}, `SELECT row, id, digest, coalesce(topic, -document) FROM chunks ORDER BY row`)
	return l, err
}

// hexDigests are the digests as text, all in one allocation.
func (l live) hexDigests() []string {
	all := hex.EncodeToString(l.digests)
	list := make([]string, len(l.ids))
	for i := range list {
		list[i] = all[i*2*sha256.Size : (i+1)*2*sha256.Size]
	}
	return list
}

// digest identifies the corpus: SHA-256 over, for each live chunk in row order, the length of its id
// as a varint, the id, and the 32 bytes of its text's SHA-256.
func (l live) digest() string {
	h := sha256.New()
	b := make([]byte, 0, 256)
	for i, id := range l.ids {
		b = binary.AppendUvarint(b[:0], uint64(len(id)))
		b = append(b, id...)
		b = append(b, l.digests[i*sha256.Size:(i+1)*sha256.Size]...)
		h.Write(b)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// Stats are the sizes of a store.
type Stats struct {
	Documents, Chunks int
	Rows              int64 // written, live or deleted
	Segments          int
	VectorBytes       int64   // of all rows
	DatabaseBytes     int64   // sluice.db, without its log
	Deleted           float64 // share of the rows that is deleted, 0 … 1; their space is not reused
	Created           string  // RFC 3339
}

// Stats counts.
func (s *Store) Stats(ctx context.Context) (Stats, error) {
	st := Stats{Created: s.settings.created}
	err := s.read.QueryRowContext(ctx,
		`SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM chunks), end_row FROM store`).
		Scan(&st.Documents, &st.Chunks, &st.Rows)
	if err != nil {
		return st, wrap(s.dir, "count", err)
	}
	i, err := os.Stat(filepath.Join(s.dir, databaseName))
	if err != nil {
		return st, fmt.Errorf("store: %w", err)
	}
	st.DatabaseBytes = i.Size()
	st.Segments = int(s.segments.count(st.Rows))
	st.VectorBytes = st.Rows * s.segments.rowBytes()
	if st.Rows > 0 {
		st.Deleted = float64(st.Rows-int64(st.Chunks)) / float64(st.Rows)
	}
	return st, nil
}
