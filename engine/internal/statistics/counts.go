package statistics

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu/tiles"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// counts are what was found in a set of tasks. Counts of disjoint sets merge by addition, so that neither
// the cutting nor threads, processes or interruptions leave a trace.
type counts struct {
	tasks           []int32 // done
	counted         int64   // device.Count
	sum, sum2       tiles.Sum
	below           []int64
	bins            []int64
	kept            []run
	full            bool          // kept is not complete
	best            [2][]ref.Pair // maxima that were found, for a record; the result has them all
	bestLost        bool          // maxima are not complete
	lowest, highest ref.Pair      // the extremes by tile value, canonical; Context −1: none yet
	endsLost        bool          // extremes are not known
	merged          *tileSums     // instead of sum and sum2, of parts
}

func newCounts(w *wanted) *counts {
	return &counts{below: make([]int64, len(w.brackets)), bins: make([]int64, w.bins), lowest: noPair, highest: noPair}
}

// merge adds o to c; sums that their type does not hold are kernels.ErrRange.
func (c *counts) merge(o *counts, m kernels.Metric) error {
	if err := c.addSums(o.sum, o.sum2); err != nil {
		return err
	}
	c.tasks = append(c.tasks, o.tasks...)
	c.counted += o.counted
	for i, n := range o.below {
		c.below[i] += n
	}
	for i, n := range o.bins {
		c.bins[i] += n
	}
	c.kept = append(c.kept, o.kept...)
	c.full, c.bestLost, c.endsLost = c.full || o.full, c.bestLost || o.bestLost, c.endsLost || o.endsLost
	c.takeEnd(m, o.lowest)
	c.takeEnd(m, o.highest)
	return nil
}

func (c *counts) addSums(sum, sum2 tiles.Sum) (err error) {
	if sum, err = c.sum.Plus(sum); err != nil {
		return err
	}
	if sum2, err = c.sum2.Plus(sum2); err != nil {
		return err
	}
	c.sum, c.sum2 = sum, sum2
	return nil
}

// takeEnd widens the extremes; where a distance is the score, the largest one has the least tile value.
func (c *counts) takeEnd(m kernels.Metric, p ref.Pair) {
	if m.Ascending() {
		higher(&c.lowest, p)
		lower(&c.highest, p)
		return
	}
	lower(&c.lowest, p)
	higher(&c.highest, p)
}

// keptPairs counts the entries.
func (c *counts) keptPairs() (n int64) {
	for _, r := range c.kept {
		n += int64(r.n)
	}
	return n
}

// encode appends the counts: lists with their lengths in front, little-endian. load reads a run's entries.
func (c *counts) encode(out []byte, load func(run) ([]device.Entry, error)) ([]byte, error) {
	le := binary.LittleEndian
	out = le.AppendUint64(out, uint64(c.counted))
	for _, s := range []tiles.Sum{c.sum, c.sum2} {
		out = le.AppendUint64(le.AppendUint64(out, uint64(s.Hi)), s.Lo)
	}
	out = le.AppendUint32(out, uint32(bit(c.full)|bit(c.bestLost)<<1|bit(c.endsLost)<<2))
	out = le.AppendUint32(out, uint32(len(c.tasks)))
	for _, x := range c.tasks {
		out = le.AppendUint32(out, uint32(x))
	}
	for _, list := range [][]int64{c.below, c.bins} {
		out = le.AppendUint32(out, uint32(len(list)))
		for _, x := range list {
			out = le.AppendUint64(out, uint64(x))
		}
	}
	out = le.AppendUint32(out, uint32(len(c.kept)))
	for _, r := range c.kept {
		entries, err := load(r)
		if err != nil {
			return nil, err
		}
		out = le.AppendUint32(le.AppendUint32(out, uint32(r.task)), uint32(len(entries)))
		for _, e := range entries {
			out = le.AppendUint32(le.AppendUint32(out, math.Float32bits(e.Value)), e.At)
		}
	}
	for _, list := range [][]ref.Pair{c.best[bestOther], c.best[bestAll], {c.lowest, c.highest}} {
		out = le.AppendUint32(out, uint32(len(list)))
		for _, p := range list {
			out = le.AppendUint32(le.AppendUint32(out, uint32(p.Query)), uint32(p.Context))
			out = le.AppendUint64(out, math.Float64bits(p.Score))
		}
	}
	return out, nil
}

var errShort = errors.New("the bytes end too soon, or too late")

// reader takes the fields of counts off bytes that may be anything; bad is set when they do not suffice.
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

func (r *reader) sum() tiles.Sum { return tiles.Sum{Hi: r.i64(), Lo: uint64(r.i64())} }

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

func decodeCounts(data []byte) (*counts, error) {
	r := &reader{data: data}
	c := &counts{counted: r.i64(), sum: r.sum(), sum2: r.sum()}
	flags := r.u32()
	c.full, c.bestLost, c.endsLost = flags&1 != 0, flags&2 != 0, flags&4 != 0
	c.tasks = make([]int32, r.length(4))
	for i := range c.tasks {
		c.tasks[i] = int32(r.u32())
	}
	for _, list := range []*[]int64{&c.below, &c.bins} {
		*list = make([]int64, r.length(8))
		for i := range *list {
			(*list)[i] = r.i64()
		}
	}
	c.kept = make([]run, r.length(8))
	for i := range c.kept {
		task := int32(r.u32())
		entries := make([]device.Entry, r.length(8))
		for k := range entries {
			entries[k] = device.Entry{Value: math.Float32frombits(r.u32()), At: r.u32()}
		}
		c.kept[i] = run{task: task, n: int32(len(entries)), entries: entries}
	}
	var ends []ref.Pair
	for _, list := range []*[]ref.Pair{&c.best[bestOther], &c.best[bestAll], &ends} {
		*list = make([]ref.Pair, r.length(16))
		for i := range *list {
			(*list)[i] = ref.Pair{Query: int32(r.u32()), Context: int32(r.u32()),
				Score: math.Float64frombits(uint64(r.i64()))}
		}
	}
	if r.bad || len(r.data) > 0 || flags > 7 || len(ends) != 2 {
		return nil, errShort
	}
	c.lowest, c.highest = ends[0], ends[1]
	return c, nil
}
