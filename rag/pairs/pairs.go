// Package pairs counts the pairs of contexts × pseudo-queries that a calibration is made of, and keeps what was counted
// in a file, so that after contexts or queries have come or gone only the pairs that changed are counted:
//
//	vectors with names → kept counts that fit → changed pairs → distribution, counts for the next time
//
// Input: Input. Output: *engine.Distribution and Report.
package pairs

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/filelock"
	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/kernels"
)

// Distributor computes distributions.
type Distributor interface {
	Distribution(ctx context.Context, in engine.DistributionInput) (*engine.Distribution, error)
}

// Engine is the part of *engine.Engine that Count needs.
type Engine interface {
	Distributor
	KeepDistribution(ctx context.Context, in engine.DistributionInput, limit int64) (
		*engine.Distribution, *engine.Brackets, *engine.Part, error)
	DistributionPart(ctx context.Context, in engine.DistributionInput, b *engine.Brackets, share engine.Block) (
		*engine.Part, error)
	RemoveFromPart(ctx context.Context, in engine.DistributionInput, b *engine.Brackets, p *engine.Part,
		contexts, queries []uint64) (*engine.Part, error)
	Parallel(ctx context.Context, tasks int, fn func(task int) error) error
	MergeDistribution(ctx context.Context, in engine.DistributionInput, b *engine.Brackets, parts ...*engine.Part) (
		*engine.Distribution, error)
}

// Input of Count: what is compared, and where counts are kept. ContextIDs and QueryIDs of the pairs are Count's to set.
type Input struct {
	engine.DistributionInput
	Keep
}

// Keep says where counts are kept and how rows are known again. Whatever is not in the names below, other vectors among
// them, makes a row another one; that costs time and no exactness.
type Keep struct {
	File string // the parts lie beside it; "" keeps nothing
	// Limit is how many bytes of pairs are kept; 0 is DefaultLimit, and nothing is kept where counting all pairs anew
	// takes less time than reading and writing what would be kept: up to SmallWork.
	Limit int64
	// Encoder identifies what made the vectors. A state of another encoder is not used.
	Encoder string

	ContextNames []string // len Contexts.Rows: id and text digest, say
	// ContextRows is where each context's vector will be found once it has gone (Gone).
	ContextRows []int64
	// QueryNames has the sha256 of each pseudo-query's text.
	QueryNames [][32]byte
	// Gone returns the vectors of contexts by ContextRows, and of queries by QueryNames, that were compared at an
	// earlier time. An error means that they are not there: all pairs are then counted.
	Gone func(ctx context.Context, contexts []int64, queries [][32]byte) (c, q engine.Vectors, err error)
}

// DefaultLimit is what a state keeps: at 10¹⁰ pairs the ranks within .05 % of a quantile, and all pairs of small bases.
const DefaultLimit = 256 << 20

// SmallWork is how many products of numbers, contexts × queries × dimension, are computed anew each time where
// Keep.Limit is not set: some .15 s of one core (docs/adr/0004-distributions.md). They need no checkpoint.
const SmallWork = 1 << 32

// Report says how the pairs were counted.
type Report struct {
	Pairs     int64 `json:"pairs"`               // counted, those that were removed among them
	Of        int64 `json:"of"`                  // contexts × queries
	Recounted bool  `json:"recounted,omitempty"` // a quantile had left what was kept: all pairs were counted again
	// Reason is why all pairs were counted, or why nothing was kept.
	Reason     string `json:"reason,omitempty"`
	StateBytes int64  `json:"state_bytes"` // of the files that the next call starts from
}

// ErrLocked: another call or process counts with the same checkpoint or keeps its counts in the same file.
var ErrLocked = filelock.ErrHeld

// Count computes the distribution, which has the bits of engine.Distribution but for the errors that it states, from
// kept counts where they fit. The files change at once and at last: whenever the process dies, they hold the
// earlier counts or these. One call uses the files, the checkpoint among them, at a time: a second one gets ErrLocked.
func Count(ctx context.Context, e Distributor, in Input) (d *engine.Distribution, r Report, err error) {
	for _, file := range []string{in.File, in.Checkpoint} {
		if file == "" {
			continue
		}
		lock, failed := filelock.Take(file)
		if errors.Is(failed, ErrLocked) {
			return nil, r, fmt.Errorf("pairs: %w", failed)
		}
		if failed != nil { // the folder is missing or read-only: nothing is going to be written there
			continue
		}
		defer func() { err = errors.Join(err, lock.Release()) }()
	}
	return countLocked(ctx, e, in)
}

func countLocked(ctx context.Context, e Distributor, in Input) (*engine.Distribution, Report, error) {
	c := &counting{counter: e, in: in}
	c.report.Of = int64(in.Contexts.Rows) * int64(in.Queries.Rows)
	if in.Limit == 0 {
		if c.report.Of*int64(in.Contexts.Dim) <= SmallWork {
			c.in.Checkpoint = ""
			d, err := c.plain(ctx, "")
			return d, c.report, err
		}
		c.in.Limit = DefaultLimit
	}
	if in.File == "" {
		d, err := c.plain(ctx, "")
		return d, c.report, err
	}
	var can bool
	if c.e, can = e.(Engine); !can {
		d, err := c.plain(ctx, "nothing was kept: this engine counts no parts")
		return d, c.report, err
	}
	opened := make(chan struct{}) // the state is read while rows get their names
	var old *state
	var misfit string
	go func() {
		defer close(opened)
		if err := panics.Call(func() error { old, misfit = c.open(); return nil }); err != nil {
			misfit = err.Error()
		}
	}()
	reason, err := c.name(ctx)
	<-opened
	if old != nil {
		defer old.close()
	}
	switch {
	case err != nil:
		return nil, c.report, err
	case reason != "":
		d, err := c.plain(ctx, reason)
		return d, c.report, err
	case old != nil:
		d, reason, err := c.update(ctx, old)
		if err != nil || d != nil {
			return d, c.report, err
		}
		misfit = reason
	}
	c.report.Reason = misfit
	d, err := c.full(ctx)
	return d, c.report, err
}

// counting is one call of Count.
type counting struct {
	counter Distributor
	e       Engine
	in      Input
	report  Report

	contextSums, querySums []uint32 // of the vectors
}

// plain counts all pairs and keeps nothing.
func (c *counting) plain(ctx context.Context, reason string) (*engine.Distribution, error) {
	c.report.Reason, c.report.Pairs, c.report.StateBytes = reason, c.report.Of, 0
	if c.in.File != "" {
		c.forget()
	}
	return again(c.in.Checkpoint, func() (*engine.Distribution, error) {
		return c.counter.Distribution(ctx, c.in.DistributionInput)
	})
}

// full counts all pairs and keeps them.
func (c *counting) full(ctx context.Context) (*engine.Distribution, error) {
	c.report.Pairs += c.report.Of
	var b *engine.Brackets
	var p *engine.Part
	d, err := again(c.in.Checkpoint, func() (d *engine.Distribution, err error) {
		d, b, p, err = c.e.KeepDistribution(ctx, c.in.DistributionInput, c.in.Limit)
		return d, err
	})
	switch {
	case errors.Is(err, engine.ErrPart), errors.Is(err, kernels.ErrEmpty), errors.Is(err, kernels.ErrMemoryLimit),
		errors.Is(err, kernels.ErrArgument):
		return c.plain(ctx, fmt.Sprintf("nothing was kept: %v", err))
	case err != nil:
		return nil, err
	case len(d.Missed) > 0:
		return c.plain(ctx,
			fmt.Sprintf("nothing was kept: the sample's brackets do not hold the quantiles %v", d.Missed))
	}
	c.save(b, []piece{{part: p}})
	return d, nil
}

// again counts once more where the checkpoint belongs to another input: the base or the questions have changed since.
func again(checkpoint string, count func() (*engine.Distribution, error)) (*engine.Distribution, error) {
	d, err := count()
	if !errors.Is(err, engine.ErrCheckpoint) {
		return d, err
	}
	if err := os.Remove(checkpoint); err != nil {
		return nil, err
	}
	return count()
}

// save keeps the counts. That a disk is full must not lose the result: it is said.
func (c *counting) save(b *engine.Brackets, pieces []piece) {
	size, err := c.write(b, pieces)
	if c.report.StateBytes = size; err != nil {
		c.report.Reason = fmt.Sprintf("nothing was kept: %v", err)
		c.forget()
	}
}
