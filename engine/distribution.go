package engine

import (
	"context"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/statistics"
)

// What goes into Distribution and what comes out (package distribution).
type (
	DistributionInput = distribution.Input
	Distribution      = distribution.Result
	Summary           = distribution.Summary
	Negatives         = distribution.Negatives
	NegativeKind      = distribution.NegativeKind
)

// The kinds of negatives, and the errors of distributions in parts.
const (
	NegativesAll        = distribution.NegativesAll
	NegativesCrossGroup = distribution.NegativesCrossGroup
	NegativesSample     = distribution.NegativesSample
)

// The errors of distributions in parts.
var (
	ErrPart       = distribution.ErrPart
	ErrCheckpoint = distribution.ErrCheckpoint
)

// Distribution implements Interface.
func (e *Engine) Distribution(ctx context.Context, in DistributionInput) (*Distribution, error) {
	return statistics.Compute(ctx, &e.r, e.tune, in)
}

// Part is a share of the pairs of one distribution, counted. Parts are made by DistributionPart, in one
// process or in many, travel as bytes, and are put together by MergeDistribution.
type Part struct{ p statistics.Part }

// MarshalBinary implements encoding.BinaryMarshaler: magic with a version, the share, the digest, the
// counts, all little-endian, and a CRC-32C.
func (p *Part) MarshalBinary() ([]byte, error) { return p.p.MarshalBinary() }

// UnmarshalBinary is the inverse of MarshalBinary; anything else is ErrPart.
func (p *Part) UnmarshalBinary(data []byte) error { return p.p.UnmarshalBinary(data) }

// DistributionPart counts share index (from 0) of `of` shares of the pairs. The input must be the whole
// one for every share. Inputs that are too small for shares give parts that hold nothing.
func (e *Engine) DistributionPart(ctx context.Context, in DistributionInput, index, of int) (*Part, error) {
	p, err := statistics.ComputePart(ctx, &e.r, e.tune, in, index, of)
	if err != nil {
		return nil, err
	}
	return &Part{*p}, nil
}

// MergeDistribution computes what Distribution does, from parts that cover all pairs; the same input and
// the same kernels give the same bits. Parts of another input or plan, or that overlap or leave a gap, are
// ErrPart. Only D+, rechecks and a histogram are computed here.
func (e *Engine) MergeDistribution(ctx context.Context, in DistributionInput, parts ...*Part) (*Distribution, error) {
	inner := make([]*statistics.Part, len(parts))
	for i, p := range parts {
		if p != nil {
			inner[i] = &p.p
		}
	}
	return statistics.Merge(ctx, &e.r, e.tune, in, inner...)
}
