package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	bits64 "math/bits"
	"os"
	"path/filepath"
	"slices"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// View is a snapshot of the chunks: row i of Vectors belongs to IDs[i], and Chunks has the texts. Rows of deleted
// chunks are there as well: Deleted reports which they are, and Live leaves them out. It stays valid until Close, also
// while a writer, of any process, adds, replaces or deletes, and after the store's own Close. Its slices are shared and
// may be read-only memory: do not write to them, nor use Vectors after Close.
type View struct {
	Vectors    engine.Vectors
	IDs        []string            // those of deleted rows mean nothing
	Digests    [][sha256.Size]byte // of the texts: corpus.Chunk.Digest in binary
	First      int64               // row in the store of row 0
	Generation int64               // of the store's content
	Damage     *Damage             // what is left out because it is not as it was committed; nil: nothing
	rows       *rowList
	places     []int64 // rows in the store, of a view for groups; nil: from First on
	mapping    *mapping
	texts      *reader
	checksums  []uint32   // of the whole blocks
	live       chan *Live // holds Live's result once it is known, else nil
}

// View maps all rows, live and deleted, without a copy, and compares those that this Store has not mapped before with
// their checksums; a missing, short or foreign segment is ErrCorrupt. What has changed since the last View is read, not
// all. The chunks of damaged blocks count as deleted, and View.Damage lists them; all rows are then read into
// memory. If no chunk is left, the error is a BlockError, which names the file and the block.
//
// Ids, digests and texts are read in one transaction of the database, which lasts until the view is closed: what is
// deleted or replaced meanwhile keeps its old pages for it in SQLite's log. The log cannot begin anew before.
func (s *Store) View(ctx context.Context) (*View, error) {
	select {
	case <-s.viewing:
		defer func() { s.viewing <- struct{}{} }()
	case <-ctx.Done():
		return nil, s.wrap("view", ctx.Err())
	}
	for {
		v, now, err := s.view(ctx)
		if err == nil {
			return v, nil
		}
		// Compact may have removed segments of the state that was read: there is a newer one then.
		newer, stateErr := s.Generation(ctx)
		if stateErr != nil || newer == now.generation || !errors.Is(err, fs.ErrNotExist) {
			return nil, s.wrap("view", err)
		}
	}
}

func (s *Store) view(ctx context.Context) (_ *View, now state, err error) {
	texts, err := s.beginRead(ctx)
	if err != nil {
		return nil, now, err
	}
	defer func() {
		if err != nil {
			_ = texts.close() // the first error counts
		}
	}()
	if now, err = readState(context.WithoutCancel(ctx), texts.tx); err != nil {
		return nil, now, err
	}
	if s.rows == nil && !s.Restricted() {
		s.rows = s.loadRows()
	}
	if s.rows == nil || s.rows.generation != now.generation {
		if s.rows, err = readRows(ctx, texts.tx, now, s.rows); err != nil {
			s.rows = nil
			return nil, now, err
		}
	}
	if err := s.mapRows(ctx, texts.tx, now); err != nil {
		return nil, now, err
	}
	v := &View{IDs: s.rows.ids, Digests: s.rows.digests, First: now.firstRow, Generation: now.generation,
		rows: s.rows, mapping: s.mapped.use(), texts: texts, live: make(chan *Live, 1), checksums: s.mapped.checksums}
	texts.generation = now.generation
	dim := s.settings.encoder.Dim
	v.Vectors = engine.Vectors{Rows: len(v.IDs), Dim: dim, Stride: dim, Data: s.mapped.rows(now.firstRow, now.endRow)}
	if len(s.mapped.damaged) > 0 {
		if err := v.leaveOut(ctx, texts.tx, s.mapped.damaged); err != nil {
			return nil, now, errors.Join(err, v.mapping.release())
		}
	}
	if s.Restricted() {
		if err := v.compact(ctx); err != nil {
			return nil, now, errors.Join(err, v.mapping.release())
		}
		s.rows = nil // of all rows
	}
	v.live <- nil
	return v, now, nil
}

// mapRows maps the rows of a state and compares the checksums of what is new.
func (s *Store) mapRows(ctx context.Context, q queryer, now state) (err error) {
	if !s.segments.mappable() || !s.mapped.fits(now.firstRow, now.endRow) {
		_ = s.mapped.release() // Views that use it keep it
		s.mapped = nil
		if s.segments.mappable() {
			s.mapped, err = s.segments.newMapping(now.firstRow, now.endRow)
		} else {
			s.mapped, err = s.segments.readAll(ctx, now.firstRow, now.endRow)
		}
		if err != nil {
			return err
		}
	}
	m := s.mapped
	if m.base != nil {
		if err := m.extend(now.endRow); err != nil {
			return err
		}
	}
	var damaged []*BlockError
	more, err := s.findDamage(ctx, q, m.whole, now.endRow, func(from, to int64) ([]byte, error) {
		return bytesOf(m.rows(from, to)), nil
	}, func(e *BlockError) error { damaged = append(damaged, e); return nil })
	m.checksums = append(m.checksums, more...)
	m.whole += int64(len(more)) * s.settings.blockRows
	if err != nil || len(damaged) == 0 {
		return err
	}
	return s.withoutDamage(ctx, now, damaged)
}

// Fingerprint identifies the content of the first rows of Vectors by their checksums: what is made of them and kept in
// a file fits other rows only if their blocks have the same checksums.
func (v *View) Fingerprint(_ context.Context, rows int) (sum [sha256.Size]byte, err error) {
	if rows < 0 || rows > v.Vectors.Rows {
		return sum, fmt.Errorf("store: %w: %d rows of %d", ErrInput, rows, v.Vectors.Rows)
	}
	set := &v.texts.store.settings
	whole := int64(rows) / set.blockRows
	b := append([]byte("sluice rows 2 "), set.id[:]...)
	for _, x := range []int64{v.First, int64(rows), int64(v.Vectors.Dim), set.blockRows} {
		b = binary.LittleEndian.AppendUint64(b, uint64(x))
	}
	for _, crc := range v.checksums[:whole] {
		b = binary.LittleEndian.AppendUint32(b, crc)
	}
	last := v.Vectors.Data[int(whole*set.blockRows)*v.Vectors.Dim : rows*v.Vectors.Dim]
	return sha256.Sum256(binary.LittleEndian.AppendUint32(b, durable.Checksum(bytesOf(last)))), nil
}

// Deleted reports whether row i's chunk is deleted.
func (v *View) Deleted(i int) bool { return v.rows.isDead(i) }

// Chunks returns the view's chunks of ids in that order, with the texts that they had when the view was taken;
// ErrNotFound names the first that it lacks. ErrClosed after Close.
func (v *View) Chunks(ctx context.Context, ids []string) ([]corpus.Chunk, error) {
	return v.texts.chunks(ctx, ids)
}

// Count returns the number of live chunks.
func (v *View) Count() int { return len(v.IDs) - v.rows.deleted }

// DeletedSince lists the rows that are deleted and were not in before, an older view of the same rows: those that were
// deleted since, and those that came and went. Without one (nil) it lists all that are deleted.
func (v *View) DeletedSince(before *View) []int {
	var rows []int
	for w, bits := range v.rows.dead {
		if before != nil && w < len(before.rows.dead) {
			bits &^= before.rows.dead[w]
		}
		for ; bits != 0; bits &= bits - 1 {
			rows = append(rows, w*64+bits64.TrailingZeros64(bits))
		}
	}
	return rows
}

// LiveDigests yields the digests of the live chunks' texts.
func (v *View) LiveDigests() iter.Seq[[sha256.Size]byte] {
	return func(yield func([sha256.Size]byte) bool) {
		for i, d := range v.Digests {
			if !v.Deleted(i) && !yield(d) {
				return
			}
		}
	}
}

// Live are the live chunks of a View, one behind the other in the order of its rows.
type Live struct {
	Vectors     engine.Vectors
	IDs         []string
	Rows        []int64  // of the vectors in the store: what RowVectors takes, ascending
	TextDigests []string // corpus.Chunk.Digest of each chunk
	Groups      []int32  // one number per topic; documents without a topic are a group of their own
	Topics      bool     // most chunks have a topic
	Digest      string   // "sha256:…" over (id, chunk digest) in order: identifies the corpus
}

// Live lists the live chunks. If there are deleted ones between them, their vectors are copied; searches do without
// that (Deleted). It is valid as long as the view.
func (v *View) Live(ctx context.Context) (*Live, error) {
	var l *Live
	select {
	case l = <-v.live:
		defer func() { v.live <- l }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l != nil {
		return l, nil
	}
	made, err := v.makeLive(ctx)
	if err == nil {
		l = made
	}
	return made, err
}

func (v *View) makeLive(ctx context.Context) (*Live, error) {
	n, dim := v.Count(), v.Vectors.Dim
	l := &Live{IDs: make([]string, 0, n), Rows: make([]int64, 0, n), TextDigests: make([]string, 0, n),
		Groups: make([]int32, 0, n), Vectors: v.Vectors}
	copies := v.rows.deleted > 0
	if copies {
		l.Vectors = engine.Vectors{Rows: n, Dim: dim, Stride: dim, Data: make([]float32, 0, n*dim)}
	}
	numbers, topics := map[int64]int32{}, 0
	h, b := sha256.New(), make([]byte, 0, 256)
	for i, id := range v.IDs {
		if i%4096 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if v.Deleted(i) {
			continue
		}
		if v.rows.groups[i] > 0 {
			topics++
		}
		g, ok := numbers[v.rows.groups[i]]
		if !ok {
			g = int32(len(numbers))
			numbers[v.rows.groups[i]] = g
		}
		l.IDs, l.Rows, l.Groups = append(l.IDs, id), append(l.Rows, v.place(i)), append(l.Groups, g)
		l.TextDigests = append(l.TextDigests, hex.EncodeToString(v.Digests[i][:]))
		if copies {
			l.Vectors.Data = append(l.Vectors.Data, v.Vectors.Data[i*dim:(i+1)*dim]...)
		}
		b = append(binary.AppendUvarint(b[:0], uint64(len(id))), id...)
		b = append(b, v.Digests[i][:]...)
		h.Write(b)
	}
	l.Topics = 2*topics > n
	l.Digest = "sha256:" + hex.EncodeToString(h.Sum(nil))
	return l, nil
}

// Close ends the view's use of the mapping, and its transaction. Closing twice is harmless.
func (v *View) Close() error {
	err := v.texts.close()
	m := v.mapping
	v.mapping, v.Vectors.Data = nil, nil
	return errors.Join(err, m.release())
}

// Hold begins a use of the view's texts, Let ends it: in between, and from View on until the first Let, a transaction
// keeps them. A view that nobody holds keeps none, so that SQLite's log can begin anew; ok tells whether Hold has found
// the texts as they were. If not, something has changed, and the view is of no use any more.
func (v *View) Hold(ctx context.Context) (ok bool, err error) {
	ok, err = v.texts.hold(ctx)
	return ok, v.texts.store.wrap("hold a view", err)
}

// Let ends a use that View or Hold has begun.
func (v *View) Let() error { return v.texts.let() }

// reader is one state of the database: a transaction that only reads, used by one caller at a time.
type reader struct {
	store      *Store
	turn       chan struct{} // holds a token while nobody reads
	generation int64
	users      int
	conn       *sql.Conn
	tx         *sql.Tx // nil while nobody uses it
}

// beginRead begins a read transaction with one user. The transaction sees the state of the database at its first query.
func (s *Store) beginRead(ctx context.Context) (*reader, error) {
	r := &reader{store: s, turn: make(chan struct{}, 1), users: 1}
	r.turn <- struct{}{}
	return r, r.begin(ctx)
}

func (r *reader) begin(ctx context.Context) (err error) {
	if r.conn, err = r.store.read.Conn(ctx); err != nil {
		return err
	}
	if r.tx, err = r.conn.BeginTx(context.WithoutCancel(ctx), nil); err != nil {
		return errors.Join(err, r.conn.Close())
	}
	return nil
}

func (r *reader) end() error {
	if r.tx == nil {
		return nil
	}
	err := errors.Join(r.tx.Rollback(), r.conn.Close())
	r.tx = nil
	return err
}

// take waits until nobody else reads, and tells in an error what was to be read; done lets the next one read. ErrClosed
// after close.
func (r *reader) take(ctx context.Context, what string) (done func(), err error) {
	select {
	case <-r.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	done = func() { r.turn <- struct{}{} }
	if r.tx == nil {
		done()
		return nil, wrap(r.store.dir, what, ErrClosed)
	}
	return done, nil
}

// each is the function each in the view's transaction.
func (r *reader) each(ctx context.Context, what string, to []any, fn func() error, query string, args ...any) error {
	done, err := r.take(ctx, what)
	if err != nil {
		return err
	}
	defer done()
	return wrap(r.store.dir, what, each(ctx, r.tx, to, fn, query, args...))
}

func (r *reader) hold(ctx context.Context) (ok bool, err error) {
	select {
	case <-r.turn:
		defer func() { r.turn <- struct{}{} }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if r.users > 0 {
		r.users++
		return true, nil
	}
	if err := r.begin(ctx); err != nil {
		return false, err
	}
	now, err := readState(context.WithoutCancel(ctx), r.tx)
	if err != nil || now.generation != r.generation {
		return false, errors.Join(err, r.end())
	}
	r.users = 1
	return true, nil
}

func (r *reader) let() error {
	<-r.turn
	defer func() { r.turn <- struct{}{} }()
	if r.users--; r.users > 0 {
		return nil
	}
	return r.end()
}

// chunksAtOnce are read before another caller has its turn: some milliseconds.
const chunksAtOnce = 256

func (r *reader) chunks(ctx context.Context, ids []string) ([]corpus.Chunk, error) {
	chunks := make([]corpus.Chunk, 0, len(ids))
	for part := range slices.Chunk(ids, chunksAtOnce) {
		more, err := r.read(ctx, part)
		if err != nil {
			return nil, wrap(r.store.dir, "read chunks", err)
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
	return r.end()
}

// Generation counts the changes of the store, of all processes: two equal ones are the same content.
func (s *Store) Generation(ctx context.Context) (int64, error) {
	conn, err := s.read.Conn(ctx)
	if err != nil {
		return 0, s.wrap("read the state", err)
	}
	defer conn.Close()
	now, err := readState(context.WithoutCancel(ctx), conn)
	return now.generation, s.wrap("read the state", err)
}

// RowVectors reads the vectors of rows as named by Live.Rows, in that order. Rows of deleted chunks exist until
// Compact. A row that does not exist is ErrNotFound.
func (s *Store) RowVectors(ctx context.Context, rows []int64) (engine.Vectors, error) {
	dim := s.settings.encoder.Dim
	out := engine.Vectors{Rows: len(rows), Dim: dim, Stride: dim}
	if len(rows) == 0 {
		return out, nil
	}
	v, err := s.View(ctx)
	if err != nil {
		return out, err
	}
	defer v.Close()
	for _, row := range rows {
		if v.Damage != nil {
			for _, b := range v.Damage.Blocks {
				if row >= b.Rows[0] && row < b.Rows[1] {
					return out, s.wrap("read vectors", b)
				}
			}
		}
		i, ok := v.index(row)
		if !ok {
			return out, s.wrap("read vectors", fmt.Errorf("%w: row %d, there are %d to %d", ErrNotFound, row, v.First,
				v.First+int64(v.Vectors.Rows)-1))
		}
		out.Data = append(out.Data, v.Vectors.Data[i*dim:(i+1)*dim]...)
	}
	return out, nil
}

// Stats are the sizes of a store.
type Stats struct {
	Documents, Chunks int
	Rows              int64 // written, live or deleted
	Segments          int
	VectorBytes       int64   // of all rows
	DatabaseBytes     int64   // sluice.db, without its log
	Deleted           float64 // share of the rows that is deleted, 0 … 1; Compact gives their space back
	Created           string  // RFC 3339
}

// Stats counts. A restricted store has no DatabaseBytes, Segments and deleted rows.
func (s *Store) Stats(ctx context.Context) (Stats, error) {
	st := Stats{Created: s.settings.created}
	var first, end int64
	conn, err := s.read.Conn(ctx)
	if err == nil {
		defer conn.Close()
		err = conn.QueryRowContext(context.WithoutCancel(ctx),
			`SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM chunks), first_row, end_row FROM store`).
			Scan(&st.Documents, &st.Chunks, &first, &end)
	}
	if err != nil {
		return st, s.wrap("count", err)
	}
	if s.Restricted() { // the files hold other documents as well
		st.Rows = int64(st.Chunks)
		st.VectorBytes = st.Rows * s.segments.rowBytes()
		return st, nil
	}
	i, err := os.Stat(filepath.Join(s.dir, databaseName))
	if err != nil {
		return st, fmt.Errorf("store: %w", err)
	}
	st.DatabaseBytes, st.Rows = i.Size(), end-first
	st.Segments = int(s.segments.count(end) - first/s.segments.rows)
	st.VectorBytes = st.Rows * s.segments.rowBytes()
	if st.Rows > 0 {
		st.Deleted = float64(st.Rows-int64(st.Chunks)) / float64(st.Rows)
	}
	return st, nil
}
