package statistics

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// largestDots is how many digits a sum of dot products has at most: of 2⁶² pairs, in units of 2⁻¹⁰⁰.
const largestDots = 51

const partialMagic = "SLCPSUM\x03"

// Bytes returns the size of the encoded Partial, but for its head.
func (x *Partial) Bytes() int64 {
	n := 8*int64(len(x.below)+len(x.bins)+len(x.cells)+len(x.kept)+len(x.sample)) + 56*int64(len(x.queries)) +
		48*int64(len(x.sums))
	for _, s := range x.area {
		n += 20 + 16*int64(len(s.contexts))
	}
	return n
}

// MarshalBinary implements encoding.BinaryMarshaler: magic with a version, the fields little-endian with lengths before
// lists, and a CRC-32C.
func (x *Partial) MarshalBinary() ([]byte, error) {
	head, err := json.Marshal(partialHead{x.of, x.b})
	if err != nil {
		return nil, fmt.Errorf("engine: partial: %w", err)
	}
	out := append(make([]byte, 0, x.Bytes()+int64(len(head))+256), partialMagic...)
	out = append(put(out, uint32(len(head))), head...)
	out = put(put(out, x.counted), x.epsilon)
	for _, e := range []ref.Pair{x.ends.low, x.ends.high} {
		out = put(put(out, int64(e.Query), int64(e.Context)), e.Score)
	}
	out = put(out, uint32(len(x.sums)))
	for _, s := range x.sums {
		out = put(out, s.unit, s.tiles)
		out = put(out, uint64(s.sum.Hi), s.sum.Lo, uint64(s.square.Hi), s.square.Lo)
	}
	out = put(out, uint32(len(x.area)))
	for _, s := range x.area {
		out = put(put(out, s.queries.from, s.queries.to), uint32(len(s.contexts)))
		for _, c := range s.contexts {
			out = put(out, c.from, c.to)
		}
	}
	out = putList(putList(putList(out, x.below), x.bins), x.cells)
	out = put(putList(putList(out, x.kept), x.sample), uint64(x.dim))
	dots := x.dots.Append(nil, 10)
	out = append(put(out, uint32(len(dots))), dots...)
	out = put(out, uint32(len(x.queries)))
	for _, q := range x.queries {
		out = put(put(out, q.number, q.owner), q.positive)
		for _, b := range q.best {
			out = put(put(out, int64(b.context)), b.score)
		}
	}
	return put(out, durable.Checksum(out)), nil
}

// partialHead is what Partials must have in common.
type partialHead struct {
	Whole    distribution.Whole
	Brackets distribution.Brackets
}

// UnmarshalBinary is the inverse of MarshalBinary; anything else is distribution.ErrPart.
func (x *Partial) UnmarshalBinary(data []byte) error {
	n := len(data) - 4
	if n < len(partialMagic) || !bytes.HasPrefix(data, []byte(partialMagic)) {
		return fmt.Errorf("engine: %w: %d bytes that are no partial of this version", distribution.ErrPart, len(data))
	}
	if sum := binary.LittleEndian.Uint32(data[n:]); sum != durable.Checksum(data[:n]) {
		return fmt.Errorf("engine: %w: checksum %08x, want %08x", distribution.ErrPart, durable.Checksum(data[:n]), sum)
	}
	return x.Decode(data[:n])
}

// Decode is UnmarshalBinary of what comes before the checksum.
func (x *Partial) Decode(body []byte) error {
	y := &Partial{}
	err := errShort
	if bytes.HasPrefix(body, []byte(partialMagic)) {
		err = y.decode(&reader{data: body[len(partialMagic):]})
	}
	if err == nil {
		err = y.check()
	}
	if err != nil {
		return fmt.Errorf("engine: %w: %w", distribution.ErrPart, err)
	}
	*x = *y
	return nil
}

func (x *Partial) decode(r *reader) (err error) {
	var head partialHead
	if err := json.Unmarshal(r.take(r.length(1)), &head); err != nil {
		return err
	}
	x.of, x.b = head.Whole, head.Brackets
	if x.sum, err = digestOf(x.of, &x.b); err != nil {
		return err
	}
	x.counted, x.epsilon = r.i64(), r.f64()
	for _, e := range []*ref.Pair{&x.ends.low, &x.ends.high} {
		*e = ref.Pair{Query: r.row(), Context: r.row(), Score: r.f64()}
	}
	x.sums = make([]unitSums, r.length(48))
	for i := range x.sums {
		x.sums[i] = unitSums{r.f64(), r.f64(), r.sum(), r.sum()}
	}
	x.area = make(area, r.length(20))
	for i := range x.area {
		x.area[i].queries = numbers{r.u64(), r.u64()}
		x.area[i].contexts = make([]numbers, r.length(16))
		for k := range x.area[i].contexts {
			x.area[i].contexts[k] = numbers{r.u64(), r.u64()}
		}
	}
	x.below, x.bins, x.cells = readList[int64](r), readList[int64](r), readList[int64](r)
	x.kept, x.sample = readList[float64](r), readList[float64](r)
	x.dim = int(r.i64())
	digits := r.take(r.length(1))
	dots, ok := new(big.Int).SetString(string(digits[:min(len(digits), largestDots)]), 10)
	if x.dots = dots; !ok || len(digits) > largestDots {
		return errShort
	}
	x.queries = make([]partialQuery, r.length(56))
	for i := range x.queries {
		q := &x.queries[i]
		q.number, q.owner, q.positive = r.u64(), r.u64(), r.f64()
		for kind := range q.best {
			q.best[kind] = partBest{r.row(), r.f64()}
		}
	}
	if r.bad || len(r.data) > 0 {
		return errShort
	}
	return nil
}

// check refuses what no count can have made.
func (x *Partial) check() error {
	if x.b.Metric > kernels.L2 || x.counted < 0 || !(x.epsilon >= 0 && x.epsilon < math.MaxFloat32) ||
		min(x.of.Contexts, x.of.Queries) < 0 || max(x.of.Contexts, x.of.Queries) > math.MaxInt32 || x.b.Bins < 0 ||
		x.b.Cells < 0 || x.b.Cells > 1<<24 || x.b.Bins > 0 && !(x.b.Low < x.b.High) {
		return fmt.Errorf("metric %d, %d pairs, bound %v, %d × %d, %d bins from %v to %v", x.b.Metric, x.counted,
			x.epsilon, x.of.Contexts, x.of.Queries, x.b.Bins, x.b.Low, x.b.High)
	}
	list, _, _, all := closeRanges(&x.b)
	bins := 0
	if x.b.Bins > 0 && x.b.Bins <= 1<<30 {
		bins = binsOf(&x.b)
	}
	if len(x.below) != len(list) || len(x.bins) != bins || len(x.cells) != len(list)*x.b.Cells ||
		!slices.IsSorted(x.kept) || x.dim < 0 ||
		!slices.IsSorted(x.sample) || int64(len(x.sample)) > x.counted || slices.ContainsFunc(x.sample, notFinite) ||
		int64(len(x.kept)) > x.counted || all && int64(len(x.kept)) != x.counted {
		return fmt.Errorf("%d counts for %d brackets, %d and %d cells, %d scores of %d", len(x.below), len(list),
			len(x.bins), len(x.cells), len(x.kept), x.counted)
	}
	for _, n := range slices.Concat(x.below, x.bins, x.cells) {
		if n < 0 || n > x.counted {
			return fmt.Errorf("%d of %d pairs are counted", n, x.counted)
		}
	}
	contexts, queries := uint64(x.of.Contexts), uint64(x.of.Queries)
	next, covered := uint64(0), uint64(0)
	for _, s := range x.area {
		from := uint64(0)
		for _, c := range s.contexts {
			if c.from < from || c.from >= c.to || c.to > contexts {
				return fmt.Errorf("contexts %d to %d of %d after %d", c.from, c.to, contexts, from)
			}
			from = c.to + 1
		}
		if s.queries.from < next || s.queries.from >= s.queries.to || s.queries.to > queries || len(s.contexts) == 0 {
			return fmt.Errorf("queries %d to %d of %d after %d", s.queries.from, s.queries.to, queries, next)
		}
		next = s.queries.to
		covered += s.queries.to - s.queries.from
	}
	if uint64(len(x.queries)) != covered {
		return fmt.Errorf("%d queries, and maxima of %d", covered, len(x.queries))
	}
	return x.checkNumbers()
}

// checkNumbers refuses numbers beyond the whole and scores that are not numbers.
func (x *Partial) checkNumbers() error {
	at := 0
	for i, q := range x.queries {
		for x.area[at].queries.to <= q.number && at < len(x.area)-1 {
			at++
		}
		r := x.area[at].queries
		if q.number < r.from || q.number >= r.to || i > 0 && q.number <= x.queries[i-1].number ||
			q.owner >= uint64(x.of.Contexts) || q.positive != q.positive {
			return fmt.Errorf("query %d with context %d, score %v", q.number, q.owner, q.positive)
		}
		for _, b := range q.best {
			if b.context < -1 || int64(b.context) >= x.of.Contexts || b.score != b.score {
				return fmt.Errorf("a maximum of context %d of %d, score %v", b.context, x.of.Contexts, b.score)
			}
		}
	}
	for i, e := range []ref.Pair{x.ends.low, x.ends.high} {
		if e.Query < -1 || int64(e.Query) >= x.of.Queries || e.Context < -1 || int64(e.Context) >= x.of.Contexts ||
			e.Score != e.Score || (e.Query < 0) != (e.Context < 0) {
			return fmt.Errorf("extreme %d is query %d, context %d, score %v", i, e.Query, e.Context, e.Score)
		}
	}
	for i, s := range x.sums {
		if !(s.unit > 0 && s.unit < math.MaxFloat64) || !(s.tiles >= 0 && s.tiles < 1<<60) ||
			i > 0 && x.sums[i-1].unit >= s.unit {
			return fmt.Errorf("sums of unit %v over %v tiles", s.unit, s.tiles)
		}
	}
	return nil
}

func notFinite(x float64) bool { return x-x != 0 }
