package engine

import (
	"context"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/statistics"
)

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
