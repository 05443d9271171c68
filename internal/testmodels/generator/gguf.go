package generator

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"math"
)

// GGUF version 3, little-endian: magic, counts, key-value pairs, tensor descriptions, padding, data. Format: ggml's
// docs/gguf.md.

const alignment = 32

// Value types of key-value pairs.
const (
	typeU16    = uint32(2)
	typeU32    = uint32(4)
	typeI32    = uint32(5)
	typeF32    = uint32(6)
	typeBool   = uint32(7)
	typeString = uint32(8)
	typeArray  = uint32(9)
)

// tensor is a name, its dimensions with the fastest-running one first, and what makes its values in order.
type tensor struct {
	name   string
	dims   []int
	kind   blocks
	values func(yield func(float32))
}

func (t tensor) elements() int {
	n := 1
	for _, d := range t.dims {
		n *= d
	}
	return n
}

func (t tensor) bytes() int {
	return t.elements() / t.kind.values * t.kind.bytes
}

// file is a header that grows pair by pair, and the tensors after it.
type file struct {
	pairs   bytes.Buffer
	count   uint64
	tensors []tensor
}

// put writes to a buffer, which cannot fail.
func put(b *bytes.Buffer, v any) { _ = binary.Write(b, binary.LittleEndian, v) }

func putString(b *bytes.Buffer, s string) {
	put(b, uint64(len(s)))
	b.WriteString(s)
}

func (f *file) pair(key string, kind uint32) *bytes.Buffer {
	f.count++
	putString(&f.pairs, key)
	put(&f.pairs, kind)
	return &f.pairs
}

func (f *file) array(key string, kind uint32, n int) *bytes.Buffer {
	b := f.pair(key, typeArray)
	put(b, kind)
	put(b, uint64(n))
	return b
}

func (f *file) text(key, v string)           { putString(f.pair(key, typeString), v) }
func (f *file) u16(key string, v int)        { put(f.pair(key, typeU16), uint16(v)) }
func (f *file) u32(key string, v int)        { put(f.pair(key, typeU32), uint32(v)) }
func (f *file) i32(key string, v int)        { put(f.pair(key, typeI32), int32(v)) }
func (f *file) f32(key string, v float32)    { put(f.pair(key, typeF32), v) }
func (f *file) flag(key string, v bool)      { put(f.pair(key, typeBool), v) }
func (f *file) i32s(key string, v []int32)   { put(f.array(key, typeI32, len(v)), v) }
func (f *file) f32s(key string, v []float32) { put(f.array(key, typeF32, len(v)), v) }

func (f *file) texts(key string, v []string) {
	b := f.array(key, typeString, len(v))
	for _, s := range v {
		putString(b, s)
	}
}

func pad(n int) int { return (alignment - n%alignment) % alignment }

// head is everything before the tensors' data.
func (f *file) head() []byte {
	var b bytes.Buffer
	b.WriteString("GGUF")
	put(&b, uint32(3))
	put(&b, []uint64{uint64(len(f.tensors)), f.count})
	b.Write(f.pairs.Bytes())
	offset := 0
	for _, t := range f.tensors {
		putString(&b, t.name)
		put(&b, uint32(len(t.dims)))
		for _, d := range t.dims {
			put(&b, uint64(d))
		}
		put(&b, t.kind.id)
		put(&b, uint64(offset))
		offset += t.bytes() + pad(t.bytes())
	}
	b.Write(make([]byte, pad(b.Len())))
	return b.Bytes()
}

// writeTo writes the file. A bufio.Writer keeps its first error for Flush.
func (f *file) writeTo(out io.Writer) error {
	w := bufio.NewWriterSize(out, 1<<18)
	w.Write(f.head())
	for _, t := range f.tensors {
		block := make([]float32, 0, t.kind.values)
		t.values(func(v float32) {
			if block = append(block, v); len(block) == cap(block) {
				w.Write(t.kind.encode(block))
				block = block[:0]
			}
		})
		w.Write(make([]byte, pad(t.bytes())))
	}
	return w.Flush()
}

// half rounds to the nearest binary16, ties to even; beyond its range it gives infinities.
func half(v float32) uint16 {
	bits := math.Float32bits(v)
	sign := uint16(bits >> 16 & 0x8000)
	magnitude := math.Float32frombits(bits &^ (1 << 31))
	switch {
	case magnitude != magnitude:
		return sign | 0x7e00
	case magnitude >= 65520:
		return sign | 0x7c00
	case magnitude < 0x1p-14: // subnormal: units of 2^-24
		return sign | uint16(math.RoundToEven(float64(magnitude)*0x1p24))
	}
	// Rounding may carry into the exponent, which then is the right one.
	bits = math.Float32bits(magnitude) - 112<<23
	return sign | uint16((bits+0xfff+bits>>13&1)>>13)
}
