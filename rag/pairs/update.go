package pairs

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/kernels"
)

// maxPieces is how many parts a state may have: each one takes some milliseconds to merge. One more, and all pairs are
// counted again.
const maxPieces = 32

// change is how the rows differ from those of a state.
type change struct {
	newContexts, oldContexts  []int32 // rows of the input
	newQueries                []int32
	contextRow, queryRow      []int32 // by row of the state: row of the input, −1 where it has gone
	goneContexts, goneQueries []uint64
}

// compare finds what has come and gone.
func (c *counting) compare(s *state) (d change) {
	d.contextRow, d.goneContexts, d.oldContexts, d.newContexts = match(c.in.ContextIDs, s.contexts,
		func(x contextRow) uint64 { return x.id })
	d.queryRow, d.goneQueries, _, d.newQueries = match(c.in.QueryIDs, s.queries,
		func(x queryRow) uint64 { return x.id })
	return d
}

// match returns where each row of a state is among the ids of the input, −1 where it has gone, the ids of those that
// have gone, and the rows of the input that the state has and has not.
func match[T any](ids []uint64, rows []T, id func(T) uint64) (at []int32, gone []uint64, old, fresh []int32) {
	row := make(map[uint64]int32, len(ids))
	for i, id := range ids {
		row[id] = int32(i)
	}
	at, old, fresh = make([]int32, len(rows)), []int32{}, []int32{} // a Block without a list means a range
	isOld := make([]bool, len(ids))
	for i, x := range rows {
		r, ok := row[id(x)]
		if at[i] = r; ok {
			isOld[r] = true
			continue
		}
		at[i], gone = -1, append(gone, id(x))
	}
	for i, is := range isOld {
		if is {
			old = append(old, int32(i))
		} else {
			fresh = append(fresh, int32(i))
		}
	}
	return at, gone, old, fresh
}

// groups finds the number that each group of the state has now. Groups are numbered by their first row, so that numbers
// change although nothing else does; but two groups that have become one, or one that was split, change
// which pairs are counted.
func (c *counting) groups(s *state, d *change) (now map[int32]int32, ok bool) {
	now = make(map[int32]int32)
	before := make(map[int32]int32)
	if c.in.Group == nil {
		return now, true
	}
	for i, x := range s.contexts {
		if d.contextRow[i] < 0 {
			continue
		}
		g := c.in.Group[d.contextRow[i]]
		if was, known := now[x.group]; known && was != g {
			return nil, false
		}
		if was, known := before[g]; known && was != x.group {
			return nil, false
		}
		now[x.group], before[g] = g, x.group
	}
	return now, true
}

// update counts what has changed. It returns no distribution, and a reason, where all pairs must be counted.
func (c *counting) update(ctx context.Context, s *state) (d *engine.Distribution, reason string, err error) {
	x := c.compare(s)
	groups, ok := c.groups(s, &x)
	if !ok {
		return nil, "contexts have changed their topics", nil
	}
	gone := pairsOf(len(x.goneContexts), len(s.queries)) + pairsOf(len(s.contexts)-len(x.goneContexts),
		len(x.goneQueries))
	come := pairsOf(len(x.newContexts), c.in.Queries.Rows) + pairsOf(len(x.oldContexts), len(x.newQueries))
	switch {
	case 2*(gone+come) > c.report.Of:
		return nil,
			fmt.Sprintf("%.0f %% of the pairs have changed", 100*float64(gone+come)/float64(max(1, c.report.Of))), nil
	case len(s.pieces)+2 > maxPieces:
		return nil, fmt.Sprintf("the kept counts are in %d pieces", len(s.pieces)), nil
	}
	pieces := s.pieces
	if gone > 0 {
		if pieces, reason, err = c.remove(ctx, s, &x, groups); err != nil || reason != "" {
			return nil, reason, err
		}
	}
	c.report.Pairs = gone + come
	changed := gone > 0
	for _, share := range []engine.Block{
		{ContextRows: x.newContexts, Queries: [2]int{0, c.in.Queries.Rows}},
		{ContextRows: x.oldContexts, QueryRows: x.newQueries},
	} {
		if len(share.ContextRows) == 0 || share.QueryRows != nil && len(share.QueryRows) == 0 {
			continue
		}
		in := c.in.DistributionInput
		in.Checkpoint = "" // an interrupted update begins again; the state is still there
		p, err := c.e.DistributionPart(ctx, in, s.Brackets, share)
		if err != nil {
			return nil, doesNotFit(err), unless(err)
		}
		pieces, changed = append(pieces, piece{part: p}), true
	}
	var parts []*engine.Part
	for _, p := range pieces {
		parts = append(parts, p.part)
	}
	written := make(chan error, 1)
	go func() { // meanwhile
		written <- panics.Call(func() error { return c.writeParts(pieces) })
	}()
	d, err = c.e.MergeDistribution(ctx, c.in.DistributionInput, s.Brackets, parts...)
	<-written // what failed is tried again, and said, by save
	if err != nil || len(d.Missed) > 0 {
		c.clean(s.Parts)
	}
	if err != nil {
		return nil, doesNotFit(err), unless(err)
	}
	if len(d.Missed) > 0 {
		c.report.Recounted = true
		return nil, fmt.Sprintf("the quantiles %v have left what was kept", d.Missed), nil
	}
	if changed || c.moved(s, &x) {
		c.save(s.Brackets, pieces)
		return d, "", nil
	}
	c.report.StateBytes = s.size
	return d, "", nil
}

func pairsOf(n, m int) int64 { return int64(n) * int64(m) }

// doesNotFit returns the reason in an error of a part; it passes other errors on.
func doesNotFit(err error) string {
	if unless(err) != nil {
		return ""
	}
	return fmt.Sprintf("the kept counts do not fit: %v", err)
}

func unless(err error) error {
	for _, of := range []error{engine.ErrPart, kernels.ErrArgument, kernels.ErrMemoryLimit, kernels.ErrRange} {
		if errors.Is(err, of) {
			return nil
		}
	}
	return err
}

// moved reports whether rows that stayed are remembered otherwise: in another place of the store, or another order.
func (c *counting) moved(s *state, x *change) bool {
	for i, row := range x.contextRow {
		if int(row) != i || c.in.ContextRows[row] != s.contexts[i].row || c.in.Group != nil &&
			c.in.Group[row] != s.contexts[i].group {
			return true
		}
	}
	for i, row := range x.queryRow {
		if int(row) != i {
			return true
		}
	}
	return false
}

// remove takes what has gone out of the parts.
func (c *counting) remove(ctx context.Context, s *state, x *change, groups map[int32]int32) ([]piece, string, error) {
	in, reason, err := c.withGone(ctx, s, x, groups)
	if err != nil || reason != "" {
		return nil, reason, err
	}
	out := make([]piece, len(s.pieces))
	for i, p := range s.pieces {
		q, err := c.e.RemoveFromPart(ctx, in, s.Brackets, p.part, x.goneContexts, x.goneQueries)
		if err != nil {
			return nil, doesNotFit(err), unless(err)
		}
		if out[i] = p; q != p.part {
			out[i] = piece{part: q}
		}
	}
	return out, "", nil
}

// withGone is the input with the rows that have gone behind those that are there.
func (c *counting) withGone(ctx context.Context, s *state, x *change, groups map[int32]int32) (engine.DistributionInput,
	string, error) {
	in := c.in.DistributionInput
	in.Checkpoint = ""
	var contexts []contextRow
	var queries []queryRow
	var places []int64
	var names [][32]byte
	at := make([]int32, len(s.contexts)) // row of the input that has them all
	for i, row := range x.contextRow {
		if at[i] = row; row < 0 {
			at[i] = int32(c.in.Contexts.Rows + len(contexts))
			contexts, places = append(contexts, s.contexts[i]), append(places, s.contexts[i].row)
		}
	}
	in.Owner = append([]int32(nil), c.in.Owner...)
	for i, row := range x.queryRow {
		if row < 0 {
			queries, names = append(queries, s.queries[i]), append(names, s.queries[i].name)
			in.Owner = append(in.Owner, at[s.queries[i].owner])
		}
	}
	if c.in.Gone == nil {
		return in, "the vectors of what has gone are not kept", nil
	}
	goneC, goneQ, err := c.in.Gone(ctx, places, names)
	if err != nil {
		return in, fmt.Sprintf("the vectors of what has gone are not there: %v", err), ctx.Err()
	}
	if goneC.Rows != len(places) || goneQ.Rows != len(names) {
		return in,
			fmt.Sprintf("of %d contexts and %d queries that have gone, %d and %d are there", len(places), len(names),
				goneC.Rows, goneQ.Rows), nil
	}
	for i, r := range contexts {
		if vectorSum(goneC, i) != r.crc {
			return in, fmt.Sprintf("the vector in row %d, whose context has gone, is another one", r.row), nil
		}
	}
	for i, r := range queries {
		if vectorSum(goneQ, i) != r.crc {
			return in, fmt.Sprintf("the vector of query %d, which has gone, is another one", i), nil
		}
	}
	in.Contexts, in.Queries = joined(c.in.Contexts, goneC), joined(c.in.Queries, goneQ)
	in.ContextIDs, in.QueryIDs = append([]uint64(nil), c.in.ContextIDs...), append([]uint64(nil), c.in.QueryIDs...)
	for _, r := range contexts {
		in.ContextIDs = append(in.ContextIDs, r.id)
	}
	for _, r := range queries {
		in.QueryIDs = append(in.QueryIDs, r.id)
	}
	if c.in.Group == nil {
		return in, "", nil
	}
	in.Group = append([]int32(nil), c.in.Group...)
	next := int32(0)
	for _, g := range in.Group {
		next = max(next, g+1)
	}
	for _, r := range contexts {
		g, known := groups[r.group]
		if !known { // all of it has gone
			g = next
			groups[r.group] = g
			next++
		}
		in.Group = append(in.Group, g)
	}
	return in, "", nil
}

// joined returns one set of vectors followed by another.
func joined(a, b engine.Vectors) engine.Vectors {
	if b.Rows == 0 {
		return a
	}
	out := engine.Vectors{Rows: a.Rows + b.Rows, Dim: a.Dim, Stride: a.Dim,
		Data: make([]float32, 0, (a.Rows+b.Rows)*a.Dim)}
	for _, v := range []engine.Vectors{a, b} {
		for i := range v.Rows {
			out.Data = append(out.Data, v.Row(i)...)
		}
	}
	return out
}
