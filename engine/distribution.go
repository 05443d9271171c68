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
	return e.distribution(ctx, in)
}
