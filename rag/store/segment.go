package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/sluice-rag/sluice/internal/durable"
)

const (
	segmentFolder = "segments"
	segmentBytes  = 256 << 20 // size at which a new segment begins
	writeBytes    = 4 << 20   // a cancelled Commit notices after so many
)

// segments is the folder of vector files: row r is row r mod rows of segment r / rows.
// It holds no state about what is committed: callers say which rows exist.
type segments struct {
	fs   fsys
	dir  string // …/segments
	rows int64  // per segment; a multiple of 1024, so that a full segment ends on a page boundary
	head header // with Number 0
}

// segmentRows returns how many rows of dim float32 a segment of about limit bytes takes. With a multiple
// of 1024 rows any dimension fills whole 4 KiB pages, which lets mapAll lay segments end to end.
func segmentRows(dim int, limit int64) int64 {
	return max(limit/(int64(dim)*4*1024), 1) * 1024
}

func (g *segments) path(no int64) string { return filepath.Join(g.dir, fmt.Sprintf("%06d.vec", no)) }
func (g *segments) rowBytes() int64      { return int64(g.head.Dim) * 4 }
func (g *segments) offset(at int64) int64 {
	return headerSize + at*g.rowBytes()
}

// count returns the number of segments that rows 0 … end−1 take.
func (g *segments) count(end int64) int64 { return (end + g.rows - 1) / g.rows }

// used returns how many of rows 0 … end−1 lie in segment no.
func (g *segments) used(no, end int64) int64 { return min(end-no*g.rows, g.rows) }

// write stores vectors from row first on and returns when they are on stable storage. Whatever lies
// at or after row first is overwritten: it was never acknowledged.
func (g *segments) write(ctx context.Context, first int64, data []float32) error {
	dim := int64(g.head.Dim)
	for len(data) > 0 {
		no, at := first/g.rows, first%g.rows
		n := min(int64(len(data))/dim, g.rows-at)
		if err := g.writeOne(ctx, no, at, data[:n*dim]); err != nil {
			return fmt.Errorf("write %s: %w", g.path(no), err)
		}
		first, data = first+n, data[n*dim:]
	}
	return nil
}

func (g *segments) writeOne(ctx context.Context, no, at int64, data []float32) (err error) {
	flag := os.O_RDWR
	if at == 0 { // nothing committed in it: new, or what a killed writer left
		flag |= os.O_CREATE | os.O_TRUNC
	}
	f, err := g.fs.OpenFile(g.path(no), flag)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: the file is missing although %d of its rows are committed", ErrCorrupt, at)
		}
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if at == 0 {
		h := g.head
		h.Number = uint32(no)
		if _, err := f.WriteAt(h.encode(), 0); err != nil {
			return err
		}
	} else if size, err := f.Size(); err != nil || size < g.offset(at) {
		return errors.Join(err, fmt.Errorf("%w: %d bytes expected, %d found", ErrCorrupt, g.offset(at), size))
	}
	for off, b := g.offset(at), bytesOf(data); len(b) > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(len(b), writeBytes)
		if _, err := f.WriteAt(b[:n], off); err != nil {
			return err
		}
		off, b = off+int64(n), b[n:]
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if at == 0 {
		return g.fs.SyncDir(g.dir)
	}
	return nil
}

// pad sees to it that rows from … end−1, which will not be used, are there: what comes behind them in a block has its
// checksum together with them. They are short of it where Compact has begun another segment and its COMMIT failed.
func (g *segments) pad(from, end int64) error {
	for no := from / g.rows; no < g.count(end) && from < end; no++ {
		if err := g.padOne(no, g.offset(g.used(no, end))); err != nil {
			return fmt.Errorf("write %s: %w", g.path(no), err)
		}
	}
	return nil
}

func (g *segments) padOne(no, size int64) (err error) {
	f, err := g.fs.OpenFile(g.path(no), os.O_RDWR)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	now, err := f.Size()
	if err == nil && now < size {
		err = f.Truncate(size)
	}
	if err != nil {
		return err
	}
	return f.Sync() // also if an earlier try was long enough and could not be synced
}

// trim gives back the space of rows first … end−1 after a failed write. It is a courtesy: what stays
// is ignored and overwritten, so its own errors do not matter.
func (g *segments) trim(first, end int64) {
	for no := first / g.rows; no < g.count(end); no++ {
		if no*g.rows >= first {
			_ = g.fs.Remove(g.path(no))
			continue
		}
		if f, err := g.fs.OpenFile(g.path(no), os.O_RDWR); err == nil {
			_ = f.Truncate(g.offset(first % g.rows))
			_ = f.Close()
		}
	}
}

// check opens segment no and compares its header and size with what the database says; rows 0 … end−1
// are committed. Mapping is safe afterwards: no page of the rows lies behind the end of the file.
func (g *segments) check(no, end int64) (file, error) {
	path := g.path(no)
	f, err := g.fs.OpenFile(path, os.O_RDONLY)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil,
				fmt.Errorf("%w: %s is missing: restore it from a backup, or ingest anew into another folder (%w)",
					ErrCorrupt, path, fs.ErrNotExist)
		}
		return nil, err
	}
	if err := g.checkOpen(f, no, end); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s: %w: restore the file from a backup, or ingest anew into another folder", path, err)
	}
	return f, nil
}

func (g *segments) checkOpen(f file, no, end int64) error {
	size, err := f.Size()
	if err != nil {
		return err
	}
	if want := g.offset(g.used(no, end)); size < want {
		return fmt.Errorf("%w: expected at least %d bytes, found %d", ErrCorrupt, want, size)
	}
	b := make([]byte, headerSize)
	if _, err := f.ReadAt(b, 0); err != nil {
		return err
	}
	got, err := parseHeader(b)
	if err != nil {
		return err
	}
	want := g.head
	want.Number = uint32(no)
	if got != want {
		return fmt.Errorf("%w: the header belongs to segment %d of store %x (%d dimensions, encoder %s), expected "+
			"segment %d of store %x (%d dimensions, encoder %s)",
			ErrCorrupt, got.Number, got.Store, got.Dim, got.EncoderDigest, want.Number, want.Store, want.Dim,
			want.EncoderDigest)
	}
	return nil
}

// read reads rows from … to−1, which are in one segment and below the last committed one.
func (g *segments) read(ctx context.Context, from, to int64) ([]byte, error) {
	out := make([]byte, (to-from)*g.rowBytes())
	f, err := g.check(from/g.rows, to)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if _, err := f.ReadAt(out, g.offset(from%g.rows)); err != nil {
		return nil, fmt.Errorf("read %s: %w", g.path(from/g.rows), err)
	}
	return out, nil
}

// floats is the inverse of bytesOf.
func floats(b []byte) []float32 {
	if len(b) < 4 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// A segment starts with a header of one page, little-endian:
//
//	0    8  magic "slcvec\r\n" (the line end shows a transfer in text mode)
//	8    4  format version, 1
//	12   4  element type, 1 = float32 little-endian
//	16   4  dimension
//	20   4  number of the segment
//	24  16  id of the store (random, made with it)
//	40   4  length of the encoder digest
//	44   …  encoder digest, then zeros
//	4092 4  CRC-32C of bytes 0–4091
const (
	headerSize    = 4096
	headerVersion = 1
	dtypeF32      = 1
	maxDim        = 1 << 16
	maxDigest     = 1024
)

var headerMagic = [8]byte{'s', 'l', 'c', 'v', 'e', 'c', '\r', '\n'}

type header struct {
	Dim, Number   uint32
	Store         [16]byte
	EncoderDigest string
}

func (h header) encode() []byte {
	b := make([]byte, headerSize)
	copy(b, headerMagic[:])
	binary.LittleEndian.PutUint32(b[8:], headerVersion)
	binary.LittleEndian.PutUint32(b[12:], dtypeF32)
	binary.LittleEndian.PutUint32(b[16:], h.Dim)
	binary.LittleEndian.PutUint32(b[20:], h.Number)
	copy(b[24:], h.Store[:])
	binary.LittleEndian.PutUint32(b[40:], uint32(len(h.EncoderDigest)))
	copy(b[44:], h.EncoderDigest)
	binary.LittleEndian.PutUint32(b[headerSize-4:], durable.Checksum(b[:headerSize-4]))
	return b
}

// parseHeader is the inverse of encode. The version is looked at before the checksum, because another
// format may keep its checksum elsewhere; that one is ErrVersion, everything else ErrCorrupt.
func parseHeader(b []byte) (header, error) {
	if len(b) < headerSize {
		return header{}, fmt.Errorf("%w: header has %d bytes, expected %d", ErrCorrupt, len(b), headerSize)
	}
	b = b[:headerSize]
	if !bytes.Equal(b[:8], headerMagic[:]) {
		return header{}, fmt.Errorf("%w: magic is %q, expected %q", ErrCorrupt, b[:8], headerMagic[:])
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != headerVersion {
		return header{}, fmt.Errorf("%w: segment format %d, this program reads format %d", ErrVersion, v, headerVersion)
	}
	want, got := durable.Checksum(b[:headerSize-4]), binary.LittleEndian.Uint32(b[headerSize-4:])
	if want != got {
		return header{}, fmt.Errorf("%w: header checksum is %08x, expected %08x", ErrCorrupt, got, want)
	}
	h := header{Dim: binary.LittleEndian.Uint32(b[16:]), Number: binary.LittleEndian.Uint32(b[20:])}
	copy(h.Store[:], b[24:])
	n := binary.LittleEndian.Uint32(b[40:])
	if dtype := binary.LittleEndian.Uint32(b[12:]); dtype != dtypeF32 {
		return header{}, fmt.Errorf("%w: element type %d, expected %d (float32)", ErrCorrupt, dtype, dtypeF32)
	}
	if h.Dim == 0 || h.Dim > maxDim || n > maxDigest {
		return header{}, fmt.Errorf("%w: header gives %d dimensions and a digest of %d bytes", ErrCorrupt, h.Dim, n)
	}
	h.EncoderDigest = string(b[44 : 44+n])
	return h, nil
}
