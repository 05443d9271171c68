package statistics

import (
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
	addTo(c.below, o.below)
	addTo(c.bins, o.bins)
	c.kept = append(c.kept, o.kept...)
	c.full, c.bestLost, c.endsLost = c.full || o.full, c.bestLost || o.bestLost, c.endsLost || o.endsLost
	c.takeEnd(m, o.lowest)
	c.takeEnd(m, o.highest)
	return nil
}

// addTo adds a list to another one of that length.
func addTo(sums, list []int64) {
	for i, n := range list {
		sums[i] += n
	}
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

// encode appends the counts; load reads a run's entries.
func (c *counts) encode(out []byte, load func(run) ([]device.Entry, error)) ([]byte, error) {
	out = put(out, uint64(c.counted), uint64(c.sum.Hi), c.sum.Lo, uint64(c.sum2.Hi), c.sum2.Lo)
	out = put(out, uint32(bit(c.full)|bit(c.bestLost)<<1|bit(c.endsLost)<<2))
	out = putList(putList(putList(out, c.tasks), c.below), c.bins)
	out = put(out, uint32(len(c.kept)))
	for _, r := range c.kept {
		entries, err := load(r)
		if err != nil {
			return nil, err
		}
		out = put(put(out, uint32(r.task), uint32(len(entries))), wordsOf(entries)...)
	}
	for _, list := range [][]ref.Pair{c.best[bestOther], c.best[bestAll], {c.lowest, c.highest}} {
		out = put(out, uint32(len(list)))
		for _, p := range list {
			out = put(put(out, p.Query, p.Context), p.Score)
		}
	}
	return out, nil
}

func decodeCounts(data []byte) (*counts, error) {
	r := &reader{data: data}
	c := &counts{counted: r.i64(), sum: r.sum(), sum2: r.sum()}
	flags := r.u32()
	c.full, c.bestLost, c.endsLost = flags&1 != 0, flags&2 != 0, flags&4 != 0
	c.tasks, c.below, c.bins = readList[int32](r), readList[int64](r), readList[int64](r)
	c.kept = make([]run, r.length(8))
	for i := range c.kept {
		task, n := int32(r.u32()), r.length(int(entryBytes))
		c.kept[i] = run{task: task, n: int32(n), entries: entriesOf(r.take(int(entryBytes) * n))} // accept places it
	}
	var ends []ref.Pair
	for _, list := range []*[]ref.Pair{&c.best[bestOther], &c.best[bestAll], &ends} {
		*list = make([]ref.Pair, r.length(16))
		for i := range *list {
			(*list)[i] = ref.Pair{Query: int32(r.u32()), Context: int32(r.u32()), Score: r.f64()}
		}
	}
	if r.bad || len(r.data) > 0 || flags > 7 || len(ends) != 2 {
		return nil, errShort
	}
	c.lowest, c.highest = ends[0], ends[1]
	return c, nil
}
