package calibrate

import (
	"cmp"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/pseudo"
)

// Where nobody says about how many contexts questions are to be written, they are written in rounds, until the interval
// of the policy's value is narrow enough (gate.NarrowInterval) or one of these limits is reached. Distributions are
// over all contexts in each round: those are cheap, questions are not.
const (
	firstDrawn = 100             // contexts of the first round: the policy's interval takes 72 with questions
	leastDrawn = 32              // that are asked about however long it takes; four times as many for a usable gate
	mostDrawn  = 500             // that are asked about at most
	drawTime   = 5 * time.Minute // after which no other one is asked about
	fewDrawn   = 96              // that Options.Few asks about at most
	fewTime    = 2 * time.Minute // its time
)

// draw is a sample whose size is found by the precision that it gives. Contexts are taken in an order that depends on
// the seed and their texts alone. So a larger sample holds each smaller one, and the sample of a store that has grown
// holds as large a share of the new contexts as of the others.
type draw struct {
	order []int // rows of the contexts
	n     int   // of them that are asked about in this round
	first bool  // it is the first round

	narrow      float64 // an interval that is
	fresh, most int     // contexts that a model was asked about, and may be
	least       int     // that it is asked about whatever the time is
	until       time.Time
	stopped     string // "time" or "few" where that ended a round
}

// newDraw begins with as many contexts as the calibration that is followed has asked about.
func newDraw(digests []string, isCandidate func(row int) bool, o Options) *draw {
	d := &draw{n: firstDrawn, first: true, most: math.MaxInt, least: leastDrawn, until: time.Now().Add(drawTime),
		narrow: cmp.Or(o.narrow, gate.NarrowInterval)}
	if o.Few {
		d.most, d.until = fewDrawn, time.Now().Add(fewTime)
	}
	if a := o.follows; a != nil {
		if d.n = a.Queries.Sample; d.n == 0 {
			d.n = max(a.Corpus.Contexts, firstDrawn)
		}
	}
	places := make([]uint64, len(digests))
	for row, digest := range digests {
		places[row] = place(digest, o.Seed)
		if isCandidate(row) {
			d.order = append(d.order, row)
		}
	}
	slices.SortFunc(d.order, func(a, b int) int { return cmp.Or(cmp.Compare(places[a], places[b]), a-b) })
	d.n = min(d.n, len(d.order))
	return d
}

// rows returns the contexts of this round.
func (d *draw) rows() []int { return d.order[:d.n] }

// more reports whether another context may be asked about that the journal does not know.
func (d *draw) more() bool {
	switch {
	case d.fresh >= d.most:
		d.stopped = "few"
	case d.fresh >= d.least && time.Now().After(d.until):
		d.stopped = "time"
	default:
		d.fresh++
		return true
	}
	return false
}

// grow is called with what a round has come to, nil without a usable question. It returns why no other one follows, or
// "" and has set its size.
func (d *draw) grow(c *gate.Calibration) (ended string) {
	wide := math.Inf(1)
	if c != nil {
		wide = c.IntervalWidth() / d.narrow
	}
	if d.stopped == "time" && d.least < 4*leastDrawn && (c == nil || c.Evidence.Contexts < c.Evidence.Least) {
		d.stopped, d.first, d.least = "", false, d.least+leastDrawn
		d.n = min(d.n+leastDrawn, len(d.order))
		return ""
	}
	switch {
	case d.stopped == "" && d.n == len(d.order):
		return "all"
	case wide <= 1:
		return "interval"
	case d.stopped != "":
		return d.stopped
	case d.n >= mostDrawn:
		return "contexts"
	}
	// the width falls with the square root of the contexts; a tenth more, because it is an estimate
	next := 1.1 * wide * wide * float64(d.n)
	next = min(max(next, 1.25*float64(d.n)), 2*float64(d.n))
	d.n, d.first = min(int(math.Ceil(next)), mostDrawn, len(d.order)), false
	return ""
}

// isUnusable reports whether a round has ended without a usable question, which more contexts may change.
func isUnusable(err error) bool {
	return errors.Is(err, pseudo.ErrQueries) || errors.Is(err, gate.ErrQueries)
}

// place returns where a context of that id or digest stands in the order of a seed: uniform, and the same whatever
// others there are.
func place(id string, seed uint64) uint64 {
	h := fnv.New64a()
	_ = binary.Write(h, binary.LittleEndian, seed)
	_, _ = h.Write([]byte(id))
	const mix = 0x9e3779b97f4a7c15 // the high bits of FNV-1a hardly depend on the last byte
	return h.Sum64() * mix
}
