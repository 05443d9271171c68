package statistics

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"unsafe"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/kernels"
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

const partMagic = "SLCPART\x05"

// runBytes come before the entries of a run.
const runBytes = 24

// MarshalBinary implements encoding.BinaryMarshaler: magic with a version, the fields little-endian with lengths before
// lists, and a CRC-32C.
func (p *Part) MarshalBinary() ([]byte, error) {
	b := bytes.NewBuffer(make([]byte, 0, p.Bytes()+256))
	_, err := p.WriteTo(b)
	return b.Bytes(), err
}

// WriteTo implements io.WriterTo: it writes what MarshalBinary returns, without a copy of it in memory.
func (p *Part) WriteTo(w io.Writer) (n int64, err error) {
	sum := durable.NewChecksum()
	write := func(data []byte) {
		if err == nil {
			k, werr := w.Write(data)
			n, err = n+int64(k), werr
			_, _ = sum.Write(data) // never fails
		}
	}
	write(p.head())
	var buffer []byte
	for _, r := range p.kept {
		buffer = put(buffer[:0], uint32(r.row), uint32(r.lane), math.Float32bits(r.low), math.Float32bits(r.high),
			uint32(len(r.scores)/8), uint32(len(r.entries)))
		buffer = put(buffer, wordsOf(r.entries)...)
		write(buffer)
		write(r.scores)
	}
	if err != nil {
		return n, fmt.Errorf("engine: part: %w", err)
	}
	k, err := w.Write(put(nil, sum.Sum32()))
	return n + int64(k), err
}

// head is everything that comes before the runs.
func (p *Part) head() []byte {
	out := append([]byte(partMagic), p.config[:]...)
	out = put(put(out, uint32(p.metric)), p.epsilon, p.unit, p.tiles, p.spread)
	out = put(out, uint64(p.counted), uint64(p.sum.Hi), p.sum.Lo, uint64(p.sum2.Hi), p.sum2.Lo)
	out = putList(putList(putList(putList(out, p.contexts), p.queries), p.below), p.bins)
	for _, list := range p.best {
		out = put(out, uint32(len(list)))
		for _, x := range list {
			out = put(put(out, x.context), x.score)
		}
	}
	return put(out, uint32(len(p.kept)))
}

// UnmarshalBinary is the inverse of MarshalBinary; anything else is distribution.ErrPart.
func (p *Part) UnmarshalBinary(data []byte) error {
	if err := p.UnmarshalShared(bytes.Clone(data)); err != nil {
		return err
	}
	return p.checkEntries()
}

// UnmarshalShared is UnmarshalBinary without a copy: the part refers to data, which must then stay as it is. Entries
// are looked at when they are used.
func (p *Part) UnmarshalShared(data []byte) error {
	if len(data) < len(partMagic)+4 || string(data[:len(partMagic)]) != partMagic {
		return fmt.Errorf("engine: %w: %d bytes that are no part of this version", distribution.ErrPart, len(data))
	}
	body, sum := data[:len(data)-4], binary.LittleEndian.Uint32(data[len(data)-4:])
	if got := durable.Checksum(body); got != sum {
		return fmt.Errorf("engine: %w: checksum %08x, want %08x", distribution.ErrPart, got, sum)
	}
	return p.Decode(body)
}

// Decode is UnmarshalBinary of what comes before the checksum.
func (p *Part) Decode(body []byte) error {
	if len(body) < len(partMagic) || string(body[:len(partMagic)]) != partMagic {
		return fmt.Errorf("engine: %w: %d bytes that are no part of this version", distribution.ErrPart, len(body))
	}
	q, err := decodePart(body[len(partMagic):])
	if err != nil {
		return fmt.Errorf("engine: %w: %w", distribution.ErrPart, err)
	}
	*p = *q
	return nil
}

// decodePart leaves the entries unchecked.
func decodePart(data []byte) (*Part, error) {
	r := &reader{data: data}
	p := new(Part)
	copy(p.config[:], r.take(sha256.Size))
	p.metric = kernels.Metric(r.u32())
	p.epsilon, p.unit, p.tiles, p.spread = r.f64(), r.f64(), r.f64(), r.f64()
	p.counted, p.sum, p.sum2 = r.i64(), r.sum(), r.sum()
	p.contexts, p.queries, p.below, p.bins = readList[uint64](r), readList[uint64](r), readList[int64](r),
		readList[int64](r)
	for kind := range p.best {
		p.best[kind] = make([]partBest, r.length(12))
		for i := range p.best[kind] {
			p.best[kind][i] = partBest{int32(r.u32()), r.f64()}
		}
	}
	p.kept = make([]run, r.length(runBytes))
	for i := range p.kept {
		p.kept[i] = run{row: int32(r.u32()), lane: int32(r.u32()), low: r.f32(), high: r.f32()}
		scores := int64(r.u32())
		n := r.length(int(entryBytes))
		if r.bad = r.bad || scores != 0 && scores != int64(n); r.bad {
			break
		}
		p.kept[i].n, p.kept[i].entries = int32(n), entriesOf(r.take(int(entryBytes)*n))
		if scores > 0 {
			p.kept[i].scores = r.take(8 * n)
		}
	}
	if r.bad || len(r.data) > 0 {
		return nil, errShort
	}
	return p, p.check()
}

// check refuses what no count can have made.
func (p *Part) check() error {
	if p.metric > kernels.L2 || !(p.epsilon >= 0 && p.epsilon < 1) || !(p.unit > 0) || !(p.tiles >= 0) ||
		!(p.spread >= 1) || math.IsInf(p.unit+p.tiles+p.spread, 0) {
		return fmt.Errorf("metric %d, bound %v, unit %v, %v tiles", p.metric, p.epsilon, p.unit, p.tiles)
	}
	for kind, list := range p.best {
		if len(list) != len(p.queries) {
			return fmt.Errorf("%d maxima of kind %d for %d queries", len(list), kind, len(p.queries))
		}
		for _, x := range list {
			if x.context < -1 || int(x.context) >= len(p.contexts) || x.score != x.score {
				return fmt.Errorf("a maximum of context %d of %d, score %v", x.context, len(p.contexts), x.score)
			}
		}
	}
	for _, r := range p.kept {
		if len(r.entries) > 0 && (r.row < 0 || r.lane < 0 || !(r.low <= r.high)) {
			return fmt.Errorf("pairs from %d, %d, values from %v to %v", r.row, r.lane, r.low, r.high)
		}
	}
	return nil
}

// checkEntries refuses entries that no count can have kept.
func (p *Part) checkEntries() error {
	for _, r := range p.kept {
		if err := r.check(len(p.contexts), len(p.queries)); err != nil {
			return err
		}
	}
	return nil
}

// check refuses entries beyond the rows or the range of values of a run, whose ends are among them.
func (r run) check(contexts, queries int) error {
	entries, low, high := r.entries, r.low, r.high
	var row, lane uint32
	lowest, highest := len(entries) == 0, len(entries) == 0 // are there
	within := true
	for _, e := range entries {
		if e.At>>16 > row {
			row = e.At >> 16
		}
		if e.At&0xffff > lane {
			lane = e.At & 0xffff
		}
		within = within && e.Value >= low && e.Value <= high // no NaN is
		lowest, highest = lowest || e.Value == low, highest || e.Value == high
	}
	last, end := int64(r.row)+int64(row), int64(r.lane)+int64(lane)
	if len(entries) > 0 && (last >= int64(contexts) || end >= int64(queries) || !within || !lowest || !highest) {
		return fmt.Errorf("engine: %w: pairs up to %d, %d of %d×%d, values from %v to %v", distribution.ErrPart, last,
			end, contexts, queries, low, high)
	}
	return nil
}
