package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unicode/utf8"
	"unsafe"

	"github.com/sluice-rag/sluice/internal/durable"
)

// The file of a rowList spares a reader of a large store a query over all chunks: what has changed since it was written
// is read from the database. It is a cache: one that is damaged, of another store or of a state that is not the
// database's past is not used. Little-endian numbers:
//
//	0   8  magic with the version
//	8   16 id of the store
//	24  40 first_row, end_row, generation, regrouped, bytes of all ids
//	64  …  groups (8 bytes each), bits of deleted rows (whole 8 bytes), lengths of ids (4 each), digests (32 each),
//	       ids
//	…   4  CRC-32C of all that
const (
	IndexFolder = "index" // in the store's folder
	rowsName    = "rows"
	rowsMagic   = "slcrows\x01"
	rowsHeader  = 64
)

// IndexDir returns the folder of what could be made again: who keeps something there calls it so that it exists.
func (s *Store) IndexDir() (string, error) {
	if s.Restricted() { // it is everybody's
		return "", s.wrap("keep an index", ErrReadOnly)
	}
	dir := filepath.Join(s.dir, IndexFolder)
	return dir, durable.MkdirAllWith(dir, s.segments.fs.SyncDir)
}

// SaveRows writes the file of the view's rows, so that other processes open the store faster. ErrReadOnly and the like
// do no harm.
func (v *View) SaveRows(ctx context.Context) error {
	s := v.texts.store
	dir, err := s.IndexDir()
	if err == nil {
		err = s.segments.fs.Replace(filepath.Join(dir, rowsName), func(w io.Writer) error {
			return v.rows.write(ctx, w, s.settings.id)
		})
	}
	return s.wrap("write the list of rows", err)
}

func (l *rowList) write(ctx context.Context, to io.Writer, store [16]byte) error {
	n, bytes := len(l.ids), 0
	lengths := make([]uint32, n)
	for i, id := range l.ids {
		lengths[i] = uint32(len(id))
		bytes += len(id)
	}
	head := append([]byte(rowsMagic), store[:]...)
	for _, x := range []int64{l.firstRow, l.endRow, l.generation, l.regrouped, int64(bytes)} {
		head = binary.LittleEndian.AppendUint64(head, uint64(x))
	}
	ids := make([]byte, 0, bytes)
	for _, id := range l.ids {
		ids = append(ids, id...)
	}
	crc := uint32(0)
	for _, b := range [][]byte{head, bytesOf(l.groups), bytesOf(l.dead), bytesOf(lengths), bytesOf(l.digests), ids} {
		crc = durable.MoreChecksum(crc, b)
		if _, err := to.Write(b); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	_, err := to.Write(binary.LittleEndian.AppendUint32(nil, crc))
	return err
}

// bytesOf returns the memory of a list of numbers or arrays of bytes; the machine is little-endian (Open checks).
func bytesOf[T int64 | uint64 | uint32 | float32 | [sha256.Size]byte](list []T) []byte {
	if len(list) == 0 {
		return nil
	}
	var x T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(list))), len(list)*int(unsafe.Sizeof(x)))
}

// loadRows reads the file, or returns nil.
func (s *Store) loadRows() *rowList {
	b, err := os.ReadFile(filepath.Join(s.dir, IndexFolder, rowsName))
	if err != nil {
		return nil
	}
	l, _ := parseRows(b, s.settings.id)
	return l
}

var errRows = errors.New("not a list of this store's rows")

// parseRows reads a list from the bytes of its file, which it keeps.
func parseRows(b []byte, store [16]byte) (*rowList, error) {
	if len(b) < rowsHeader+4 || string(b[:8]) != rowsMagic || [16]byte(b[8:24]) != store {
		return nil, errRows
	}
	if durable.Checksum(b[:len(b)-4]) != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return nil, fmt.Errorf("%w: checksum", errRows)
	}
	number := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[24+8*i:])) }
	l := &rowList{state: state{number(0), number(1), number(2), number(3)}}
	n, bytes := l.endRow-l.firstRow, number(4)
	if n < 0 || n > maxRows || bytes < 0 || bytes > int64(len(b)) ||
		int64(len(b)) != rowsHeader+8*n+(n+63)/64*8+4*n+sha256.Size*n+bytes+4 {
		return nil, fmt.Errorf("%w: %d rows", errRows, n)
	}
	rest := b[rowsHeader : len(b)-4]
	l.groups, rest = take[int64](rest, n)
	l.dead, rest = take[uint64](rest, (n+63)/64)
	lengths, rest := take[uint32](rest, n)
	l.digests, rest = take[[sha256.Size]byte](rest, n)
	l.ids = make([]string, n)
	for i, length := range lengths {
		if int64(length) > int64(len(rest)) {
			return nil, fmt.Errorf("%w: ids", errRows)
		}
		if length > 0 {
			l.ids[i] = unsafe.String(&rest[0], int(length))
		}
		if rest = rest[length:]; !utf8.ValidString(l.ids[i]) {
			return nil, fmt.Errorf("%w: id %d", errRows, i)
		}
		if l.isDead(i) {
			l.deleted++
		}
	}
	return l, nil
}

// take reinterprets the start of b as n values and returns them with the rest of b. The values share the memory of b
// and have no spare capacity, so appending to them copies.
func take[T int64 | uint64 | uint32 | [sha256.Size]byte](b []byte, n int64) ([]T, []byte) {
	if n == 0 {
		return nil, b
	}
	var x T
	size := n * int64(unsafe.Sizeof(x))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n), b[size:]
}

// rowList is what a View knows of each row from first … end−1, live or deleted, in memory. A list that has a successor
// is not changed any more; the successor shares its slices and goes on behind their ends.
type rowList struct {
	state
	ids     []string            // of deleted rows: what they were, or ""
	digests [][sha256.Size]byte // of the texts
	groups  []int64             // number of the topic; a document without one is −its number
	dead    []uint64            // a bit per row
	deleted int                 // bits set
}

func (l *rowList) isDead(i int) bool { return l.dead[i/64]>>(i%64)&1 != 0 }

func (l *rowList) kill(i int) {
	if !l.isDead(i) {
		l.dead[i/64] |= 1 << (i % 64)
		l.deleted++
	}
}

// grow adds rows up to end, which are dead until they are set.
func (l *rowList) grow(end int64) {
	from, n := len(l.ids), int(end-l.firstRow)
	l.ids = append(l.ids, make([]string, n-from)...)
	l.digests = append(l.digests, make([][sha256.Size]byte, n-from)...)
	l.groups = append(l.groups, make([]int64, n-from)...)
	dead := make([]uint64, (n+63)/64)
	copy(dead, l.dead)
	l.dead = dead
	for i := from; i < n; i++ {
		l.kill(i)
	}
}

// readRows reads the list of a state within its transaction: all of it, or what has changed since old, which is an
// older state's or nil.
func readRows(ctx context.Context, q queryer, now state, old *rowList) (*rowList, error) {
	l := &rowList{state: now}
	if old != nil && old.firstRow == now.firstRow && old.endRow <= now.endRow && old.generation <= now.generation &&
		old.generation >= now.regrouped {
		*l = *old
		l.state = now
	} else {
		old = &rowList{state: state{firstRow: now.firstRow, endRow: now.firstRow}}
	}
	l.grow(now.endRow)
	var row, group int64
	var id string
	var digest sql.RawBytes
	err := each(ctx, q, []any{&row, &id, &digest, &group}, func() error {
		if len(digest) != sha256.Size {
			return fmt.Errorf("%w: chunk %q has a text digest of %d bytes", ErrCorrupt, id, len(digest))
		}
		i := int(row - now.firstRow)
		l.ids[i], l.groups[i] = id, group
		copy(l.digests[i][:], digest)
		l.dead[i/64] &^= 1 << (i % 64)
		l.deleted--
		return nil
	}, `SELECT row, id, digest, coalesce(topic, -document) FROM chunks WHERE row >= ? AND row < ? ORDER BY row`,
		old.endRow, now.endRow)
	if err != nil || old.endRow == old.firstRow {
		return l, err
	}
	err = each(ctx, q, []any{&row}, func() error { l.kill(int(row - now.firstRow)); return nil },
		`SELECT row FROM deleted WHERE generation > ? AND row >= ? AND row < ?`, old.generation, now.firstRow,
		old.endRow)
	return l, err
}
