package statistics

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// encode appends the tally: lists with their lengths in front, little-endian.
func (t *tally) encode(out []byte) []byte {
	le := binary.LittleEndian
	out = le.AppendUint64(out, uint64(t.counted))
	for _, s := range []cpu.Sum{t.sum, t.sum2} {
		out = le.AppendUint64(le.AppendUint64(out, uint64(s.Hi)), s.Lo)
	}
	out = le.AppendUint32(out, uint32(bit(t.full)|bit(t.tied)<<1))
	out = le.AppendUint32(out, uint32(len(t.tasks)))
	for _, x := range t.tasks {
		out = le.AppendUint32(out, uint32(x))
	}
	for _, list := range [][]int64{t.below, t.bins} {
		out = le.AppendUint32(out, uint32(len(list)))
		for _, x := range list {
			out = le.AppendUint64(out, uint64(x))
		}
	}
	out = le.AppendUint32(out, uint32(len(t.kept)))
	for _, r := range t.kept {
		out = le.AppendUint32(le.AppendUint32(out, uint32(r.task)), uint32(len(r.entries)))
		for _, e := range r.entries {
			out = le.AppendUint32(le.AppendUint32(out, math.Float32bits(e.Value)), e.At)
		}
	}
	for _, list := range [][]leader{t.other, t.all} {
		out = le.AppendUint32(out, uint32(len(list)))
		for _, l := range list {
			out = le.AppendUint32(le.AppendUint32(le.AppendUint32(out, uint32(l.row)), uint32(l.lane)), math.Float32bits(l.value))
		}
	}
	return out
}

var errShort = errors.New("the bytes end too soon, or too late")

// reader takes a tally's fields off bytes that may be anything; bad is set when they do not suffice.
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

func (r *reader) u32() uint32 { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *reader) i64() int64  { return int64(binary.LittleEndian.Uint64(r.take(8))) }

func (r *reader) sum() cpu.Sum { return cpu.Sum{Hi: r.i64(), Lo: uint64(r.i64())} }

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

func decodeTally(data []byte) (*tally, error) {
	r := &reader{data: data}
	t := &tally{counted: r.i64(), sum: r.sum(), sum2: r.sum()}
	flags := r.u32()
	t.full, t.tied = flags&1 != 0, flags&2 != 0
	t.tasks = make([]int32, r.length(4))
	for i := range t.tasks {
		t.tasks[i] = int32(r.u32())
	}
	for _, list := range []*[]int64{&t.below, &t.bins} {
		*list = make([]int64, r.length(8))
		for i := range *list {
			(*list)[i] = r.i64()
		}
	}
	t.kept = make([]run, r.length(8))
	for i := range t.kept {
		t.kept[i].task = int32(r.u32())
		t.kept[i].entries = make([]device.Entry, r.length(8))
		for k := range t.kept[i].entries {
			t.kept[i].entries[k] = device.Entry{Value: math.Float32frombits(r.u32()), At: r.u32()}
		}
	}
	for _, list := range []*[]leader{&t.other, &t.all} {
		*list = make([]leader, r.length(12))
		for i := range *list {
			(*list)[i] = leader{int32(r.u32()), int32(r.u32()), math.Float32frombits(r.u32())}
		}
	}
	if r.bad || len(r.data) > 0 || flags > 3 {
		return nil, errShort
	}
	return t, nil
}
