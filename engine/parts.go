package engine

import (
	"context"
	"io"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/statistics"
)

// Types of package distribution that parts consist of.
type (
	Brackets = distribution.Brackets
	Block    = distribution.Block
)

// Part holds the counts of a block of contexts × a block of queries. Parts are made by DistributionPart on any
// machine, device and instruction set, can be serialised, remain valid when the input changes, and are combined by
// MergeDistribution.
type Part struct{ p statistics.Part }

// MarshalBinary implements encoding.BinaryMarshaler: magic with a version, fields little-endian, a CRC-32C.
func (p *Part) MarshalBinary() ([]byte, error) { return p.p.MarshalBinary() }

// UnmarshalBinary is the inverse of MarshalBinary; any other data is ErrPart.
func (p *Part) UnmarshalBinary(data []byte) error { return p.p.UnmarshalBinary(data) }

// WriteTo implements io.WriterTo: it writes the bytes of MarshalBinary without a copy of them in memory.
func (p *Part) WriteTo(w io.Writer) (int64, error) { return p.p.WriteTo(w) }

// UnmarshalShared is UnmarshalBinary without a copy: the part refers to data, for example a mapped file, which must
// not change while the part is in use.
func (p *Part) UnmarshalShared(data []byte) error { return p.p.UnmarshalShared(data) }

// Bytes returns the approximate memory of the part, which is also its encoded size.
func (p *Part) Bytes() int64 { return p.p.Bytes() }

// DistributionBrackets chooses, from a sample, the brackets that parts of this input keep. They remain usable for
// inputs that grow out of it as long as no quantile's rank moves by more than slack, a share of all ranks (for example
// .0005). A part keeps slack × all pairs in addition, per quantile and side, at 8 bytes a pair. With Interval, Partials
// count the pairs within the brackets in cells (Brackets.Cells).
func (e *Engine) DistributionBrackets(ctx context.Context, in DistributionInput, slack float64) (*Brackets, error) {
	if err := whole(ctx, &in); err != nil {
		return nil, err
	}
	return statistics.Brackets(ctx, &e.r, e.tune, in, slack) // a sample is too little work for a GPU
}

// KeepDistribution computes the same as Distribution, within MemLimit and in one pass, and returns it with a part of
// all pairs and the part's brackets, for an input that will change: parts of new rows and RemoveFromPart bring it up
// to date. The part takes about limit bytes plus 50 per row. Small inputs are kept completely, so that no change of
// them misses a quantile. The brackets of larger inputs contain all ranks within some share of a wanted one, which the
// limit determines. The histogram and Separation are as in MergeDistribution. A Checkpoint works as in Distribution.
// An input without negatives is kernels.ErrEmpty, one with sampled negatives ErrPart.
func (e *Engine) KeepDistribution(ctx context.Context, in DistributionInput, limit int64) (*Distribution, *Brackets,
	*Part, error) {
	if err := whole(ctx, &in); err != nil {
		return nil, nil, nil, err
	}
	var d *Distribution
	var b *Brackets
	count := func(r *device.Resources) (p *statistics.Part, err error) {
		d, b, p, err = statistics.Keep(ctx, r, e.tune, in, limit)
		return p, err
	}
	p, err := counted(ctx, e, &in, in.Contexts.Rows, in.Queries.Rows, count)
	if err != nil {
		return nil, nil, nil, err
	}
	return d, b, &Part{*p}, nil
}

// DistributionPart counts a block of the input's pairs. A Checkpoint works as in Distribution. Parts do not support
// sampled negatives (ErrPart); brackets that are too narrow for the format are kernels.ErrArgument.
func (e *Engine) DistributionPart(ctx context.Context, in DistributionInput, b *Brackets, share Block) (*Part, error) {
	if err := whole(ctx, &in); err != nil {
		return nil, err
	}
	contexts, queries := share.Contexts[1]-share.Contexts[0], share.Queries[1]-share.Queries[0]
	p, err := counted(ctx, e, &in, contexts, queries, func(r *device.Resources) (*statistics.Part, error) {
		return statistics.ComputePart(ctx, r, e.tune, in, b, share)
	})
	if err != nil {
		return nil, err
	}
	return &Part{*p}, nil
}

// RemoveFromPart removes contexts and queries from a part, by their ids. The input must still hold all rows of the
// part, including the removed ones: only their pairs are counted again, and subtracted.
func (e *Engine) RemoveFromPart(ctx context.Context, in DistributionInput, b *Brackets, p *Part, contexts,
	queries []uint64) (*Part, error) {
	if err := whole(ctx, &in); err != nil {
		return nil, err
	}
	gone := max(len(contexts), len(queries))
	q, err := counted(ctx, e, &in, in.Contexts.Rows, gone, func(r *device.Resources) (*statistics.Part, error) {
		return statistics.Remove(ctx, r, e.tune, in, b, &p.p, contexts, queries)
	})
	if err != nil {
		return nil, err
	}
	if q == &p.p {
		return p, nil // no row is in the part
	}
	return &Part{*q}, nil
}

// MergeDistribution computes the same as Distribution from parts that cover all pairs of the input once: D+, counts,
// order statistics, extremes and maxima bit for bit; mean and Std within MeanError and StdError; histogram and
// Separation from the cells of the brackets' histogram. A quantile whose rank lies outside the brackets is in Missed,
// with Low and High. Parts that overlap, leave a gap or have other brackets are ErrPart.
func (e *Engine) MergeDistribution(ctx context.Context, in DistributionInput, b *Brackets,
	parts ...*Part) (*Distribution, error) {
	if err := whole(ctx, &in); err != nil {
		return nil, err
	}
	inner := make([]*statistics.Part, len(parts))
	for i, p := range parts {
		if p != nil {
			inner[i] = &p.p
		}
	}
	return statistics.Merge(ctx, &e.r, e.tune, in, b, inner...) // only sorting remains
}

// Whole is an input that nobody needs to hold at once (package distribution).
type Whole = distribution.Whole

// Partial holds all that the distribution of a whole needs of a set of its pairs. Partials of disjoint sets add up, in
// any order and grouping, to the same bits, and need no vectors any more. Partials of the same brackets may come from
// any machine, device and instruction set.
//
// A Part keeps pairs, so that rows can be removed and the input may change; a Partial keeps scores, is smaller, and
// takes no input to finish.
type Partial struct{ p *statistics.Partial }

// PartialDistribution counts a block of a whole's pairs. The input has the rows of the block and the own contexts of
// its queries; ContextIDs and QueryIDs are their numbers in the whole (nil: the input is the whole), and the block's
// contexts come in ascending order, so that the lowest of equally good ones is found. Pairs may have a bias, and the
// brackets are then of such pairs, too. Otherwise it refuses what DistributionPart refuses.
func (e *Engine) PartialDistribution(ctx context.Context, in DistributionInput, of Whole, b *Brackets, share Block) (
	*Partial, error) {
	if err := whole(ctx, &in); err != nil {
		return nil, err
	}
	contexts, queries := share.Contexts[1]-share.Contexts[0], share.Queries[1]-share.Queries[0]
	p, err := counted(ctx, e, &in, contexts, queries, func(r *device.Resources) (*statistics.Partial, error) {
		return statistics.ComputePartial(ctx, r, e.tune, in, of, b, share)
	})
	if err != nil {
		return nil, err
	}
	return &Partial{p}, nil
}

// PartialOfPart returns the Partial of the pairs of a part that was counted with brackets b, with the brackets next,
// each of whose ranges lies within one of b: where the quantiles are known to lie in narrow ranges, the part has the
// pairs, and nothing is counted anew. The input is as in PartialDistribution. Other brackets are ErrPart.
func (e *Engine) PartialOfPart(ctx context.Context, in DistributionInput, of Whole, b, next *Brackets, p *Part) (
	*Partial, error) {
	if err := whole(ctx, &in); err != nil {
		return nil, err
	}
	x, err := statistics.PartialOf(ctx, &e.r, e.tune, in, of, b, next, &p.p) // few canonical scores
	if err != nil {
		return nil, err
	}
	return &Partial{x}, nil
}

// Plus returns the Partial of both sets of pairs. One of another whole or other brackets, or with pairs that p has, is
// ErrPart, which names them. Neither is changed.
func (p *Partial) Plus(o *Partial) (*Partial, error) {
	sum, err := p.p.Plus(o.p)
	if err != nil {
		return nil, err
	}
	return &Partial{sum}, nil
}

// FinishDistribution computes the distribution from the Partial of all pairs: D+, counts, order statistics, extremes
// and maxima bit for bit as Distribution, mean and Std within their bounds and with the same bits in every tree of
// additions. For a quantile whose rank was not kept it returns an interval, lists it in Missed, and returns the
// brackets of a further pass that finds it; nil if none is needed. Missing pairs are ErrPart, which names the first
// ones.
func (e *Engine) FinishDistribution(ctx context.Context, p *Partial, quantiles []float64) (*Distribution, *Brackets,
	error) {
	return p.p.Finish(ctx, &e.r, quantiles)
}

// Bytes returns the size of the encoded Partial.
func (p *Partial) Bytes() int64 { return p.p.Bytes() }

// MarshalBinary implements encoding.BinaryMarshaler: magic with a version, fields little-endian, a CRC-32C. Equal
// Partials have equal bytes.
func (p *Partial) MarshalBinary() ([]byte, error) { return p.p.MarshalBinary() }

// UnmarshalBinary is the inverse of MarshalBinary; any other data is ErrPart.
func (p *Partial) UnmarshalBinary(data []byte) error {
	p.p = new(statistics.Partial)
	return p.p.UnmarshalBinary(data)
}
