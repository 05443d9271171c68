package statistics

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"unsafe"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels/cpu/tiles"
)

// Counts, parts and partials are encoded as little-endian numbers, and lists of them behind their lengths.

type number interface {
	int32 | uint32 | int64 | uint64 | float32 | float64
}

// put appends numbers.
func put[T number](out []byte, list ...T) []byte {
	out = slices.Grow(out, len(list)*int(unsafe.Sizeof(T(0))))
	for _, x := range list {
		if bits := unsafe.Pointer(&x); unsafe.Sizeof(x) == 4 {
			out = binary.LittleEndian.AppendUint32(out, *(*uint32)(bits))
		} else {
			out = binary.LittleEndian.AppendUint64(out, *(*uint64)(bits))
		}
	}
	return out
}

// putList appends the length of a list and its numbers.
func putList[T number](out []byte, list []T) []byte {
	return put(put(out, uint32(len(list))), list...)
}

var errShort = errors.New("the bytes end too soon, or too late")

// reader reads numbers from bytes that may be anything; bad is set when they do not suffice.
type reader struct {
	data []byte
	bad  bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n > len(r.data) {
		r.bad = true
		return make([]byte, min(n, 8))
	}
	b := r.data[:n]
	r.data = r.data[n:]
	return b
}

func (r *reader) u32() uint32    { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *reader) u64() uint64    { return binary.LittleEndian.Uint64(r.take(8)) }
func (r *reader) i64() int64     { return int64(r.u64()) }
func (r *reader) f32() float32   { return math.Float32frombits(r.u32()) }
func (r *reader) f64() float64   { return math.Float64frombits(r.u64()) }
func (r *reader) sum() tiles.Sum { return tiles.Sum{Hi: r.i64(), Lo: r.u64()} }

// row reads a row number of 8 bytes.
func (r *reader) row() int32 {
	n := r.i64()
	r.bad = r.bad || n != int64(int32(n))
	return int32(n)
}

// length reads the length of a list whose elements take size bytes each, all of which must be there.
func (r *reader) length(size int) int {
	n := int64(r.u32())
	if n*int64(size) > int64(len(r.data)) {
		r.bad = true
	}
	if r.bad {
		return 0
	}
	return int(n)
}

// readList reads what putList appended.
func readList[T number](r *reader) []T {
	size := int(unsafe.Sizeof(T(0)))
	list := make([]T, r.length(size))
	_, _ = binary.Decode(r.take(size*len(list)), binary.LittleEndian, list) // length has looked at the size
	return list
}

// wordsOf returns the memory of entries as numbers: the values' bits and the places in turn.
func wordsOf(entries []device.Entry) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(entries))), 2*len(entries))
}

// entriesOf returns encoded entries: the bytes themselves where they lie as entries do in memory, else a copy.
func entriesOf(data []byte) []device.Entry {
	n := len(data) / int(entryBytes)
	if n == 0 {
		return nil
	}
	littleEndian := binary.NativeEndian.Uint16([]byte{1, 0}) == 1
	if at := unsafe.SliceData(data); littleEndian && uintptr(unsafe.Pointer(at))%unsafe.Alignof(device.Entry{}) == 0 {
		return unsafe.Slice((*device.Entry)(unsafe.Pointer(at)), n)
	}
	out := make([]device.Entry, n)
	_, _ = binary.Decode(data, binary.LittleEndian, wordsOf(out))
	return out
}
