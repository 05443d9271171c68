package index

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/internal/durable"
)

// writer writes little-endian numbers and lists, and keeps a checksum of them. The first error stays.
type writer struct {
	ctx context.Context
	to  io.Writer
	crc uint32
	err error
}

func (w *writer) Write(b []byte) (int, error) {
	if w.err == nil {
		w.err = w.ctx.Err()
	}
	if w.err != nil {
		return 0, w.err
	}
	w.crc = durable.MoreChecksum(w.crc, b)
	_, w.err = w.to.Write(b)
	return len(b), w.err
}

// put writes numbers, and lists of them without their lengths, in pieces.
func (w *writer) put(values ...any) {
	for _, v := range values {
		switch v := v.(type) {
		case []float64:
			putList(w, v)
		case []float32:
			putList(w, v)
		case []int32:
			putList(w, v)
		case []uint64:
			putList(w, v)
		default:
			w.one(v)
		}
	}
}

func putList[T int32 | float32 | float64 | uint64](w *writer, list []T) {
	for part := range slices.Chunk(list, workers.Stretch) {
		w.one(part)
	}
}

func (w *writer) one(v any) {
	if w.err == nil {
		if err := binary.Write(w, binary.LittleEndian, v); err != nil {
			w.err = err
		}
	}
}

// errEnd is an end before what a file says that it holds.
var errEnd = errors.New("the file ends too soon")

// reader reads what writer wrote from a file of known length, which may hold anything: the first error stays, what is
// read after it is 0, and no list is made that the rest of the file could not fill.
type reader struct {
	ctx  context.Context
	from io.Reader
	left int64 // bytes, the checksum not included
	crc  uint32
	err  error
}

func (r *reader) Read(b []byte) (int, error) {
	if r.err == nil {
		r.err = r.ctx.Err()
	}
	if r.err != nil {
		return 0, r.err
	}
	if int64(len(b)) > r.left {
		r.err = errEnd
		return 0, r.err
	}
	if _, err := io.ReadFull(r.from, b); err != nil {
		r.err = err
		return 0, err
	}
	r.left -= int64(len(b))
	r.crc = durable.MoreChecksum(r.crc, b)
	return len(b), nil
}

// fail is for content that cannot be.
func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) u64() uint64 {
	var b [8]byte
	_, _ = r.Read(b[:]) // an error stays, and leaves 0
	return binary.LittleEndian.Uint64(b[:])
}

func (r *reader) f64() float64 { return math.Float64frombits(r.u64()) }

// count reads a length of at most limit.
func (r *reader) count(limit int) int {
	n := r.u64()
	if n > uint64(limit) {
		r.fail(errCount)
		return 0
	}
	return int(n)
}

var errCount = errors.New("a length that cannot be")

// finiteOf is listOf of numbers none of which is NaN, infinite or so large that products overflow.
func finiteOf[T float32 | float64](r *reader, n int) []T {
	list := listOf[T](r, n)
	err := workers.Over(r.ctx, len(list), func(from, to int) {
		for _, x := range list[from:to] {
			if !(math.Abs(float64(x)) <= math.MaxFloat32) {
				r.fail(errNumber)
				break
			}
		}
	})
	if err != nil {
		r.fail(err)
	}
	return list
}

var errNumber = errors.New("a number that cannot be")

// listOf reads n numbers.
func listOf[T int32 | float32 | float64 | uint64](r *reader, n int) []T {
	if r.err != nil || n < 0 || int64(n) > r.left/int64(binary.Size(T(0))) {
		r.fail(errEnd)
		return nil
	}
	list := make([]T, n)
	for part := range slices.Chunk(list, workers.Stretch) {
		if err := binary.Read(r, binary.LittleEndian, part); err != nil {
			r.fail(err)
			break
		}
	}
	return list
}
