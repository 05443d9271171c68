package calibrate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sluice-rag/sluice/cluster/base"
	"github.com/sluice-rag/sluice/cluster/objects"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/engine/plan"
	"github.com/sluice-rag/sluice/rag/gate"
)

// Calibration is a calibration under way, on the machine that starts it.
type Calibration struct {
	o      *opened
	e      *engine.Engine
	abouts []base.About // of the segments
	in     *gate.Input  // what input returns, once it is read
}

// Sizes of the sample that brackets are chosen from, and limits of what blocks keep.
const (
	sampleRows  = 1 << 18 // contexts, at most
	sampleLanes = 1 << 20 // questions, at most
	reach       = 3.5     // of a bracket, in standard deviations of a rank in the sample
	spread      = .3      // deviation among contexts, or questions, of the share of pairs below a quantile; at most .5
	keepBlock   = 1 << 30 // bytes that a block keeps aside, at most
	largestEnds = 1 << 20 // pairs beyond the ends
)

// Begin reads what a calibration of a base by questions needs, and writes the job of the step Words.
func Begin(ctx context.Context, s *objects.Store, e *engine.Engine, of, questions string) (c *Calibration, job string,
	err error) {
	first, err := s.PutJSON(ctx, "job", Job{Base: of, Questions: questions})
	if err != nil {
		return nil, "", err
	}
	c = &Calibration{e: e}
	if c.o, err = open(ctx, s, first); err != nil {
		return nil, "", err
	}
	j, q := &c.o.Job, &c.o.questions
	for _, o := range q.Owner {
		j.Owners = append(j.Owners, int64(o))
	}
	slices.Sort(j.Owners)
	if j.Owners = slices.Compact(j.Owners); len(j.Owners) == 0 {
		return nil, "", fmt.Errorf("%w: no questions", ErrJob)
	}
	own, err := c.o.manifest.Rows(ctx, s, j.Owners)
	if err != nil {
		return nil, "", err
	}
	if j.OwnerVectors, err = base.PutPieces(ctx, s, own); err != nil {
		return nil, "", err
	}
	in, err := c.input(ctx, s)
	if err != nil {
		return nil, "", err
	}
	weights, err := in.Weights()
	if err != nil {
		return nil, "", err
	}
	if len(weights) > 0 {
		var texts []string
		for _, i := range in.Rated() {
			texts = append(texts, q.text(i))
		}
		j.Terms = c.o.manifest.Statistics().TermsOf(append(texts, q.GeneralTexts...)...)
	}
	c.o.name, err = s.PutJSON(ctx, "job", j)
	return c, c.o.name, err
}

// Weighs reports whether the step Words is needed.
func (c *Calibration) Weighs() bool { return len(c.o.Terms) > 0 }

// input returns what the artifact is made of, but for the counts.
func (c *Calibration) input(ctx context.Context, s *objects.Store) (in gate.Input, err error) {
	if c.in != nil {
		return *c.in, nil
	}
	m, q, o := &c.o.manifest, &c.o.questions, &c.o.questions.Options
	in = gate.Input{Contexts: engine.Vectors{Rows: int(m.Contexts), Dim: m.Dim}, Topics: m.Topics, Owner: q.Owner,
		AboutGeneral: q.AboutGeneral, Encoder: m.Encoder, CorpusDigest: m.Digest, Metric: m.Metric,
		Negatives: o.Negatives, Policy: o.Policy, Score: o.Score, Threshold: o.Threshold, Holdout: o.Holdout,
		Resamples: o.Resamples, Seed: o.Seed, Provenance: q.Provenance, Tool: o.Tool, KeepQuestions: o.KeepQuestions}
	if in.Queries, err = q.Vectors.All(ctx, s, q.Rows, m.Dim); err != nil {
		return in, err
	}
	if n := len(q.GeneralTexts); n > 0 {
		if in.General, err = base.Vectors(ctx, s, q.General, n, m.Dim); err != nil {
			return in, err
		}
	}
	if len(m.Segments) > 0 && m.Segments[0].Words != "" && q.Texts != nil {
		in.Words = &gate.Words{Queries: q.Texts, General: q.GeneralTexts}
	}
	for _, g := range m.Segments {
		var a base.About
		if err := s.GetJSON(ctx, g.About, &a); err != nil {
			return in, err
		}
		c.abouts = append(c.abouts, a)
		in.ContextIDs = append(in.ContextIDs, a.IDs...)
		in.TextDigests = append(in.TextDigests, a.Digests...)
	}
	c.in = &in
	return in, nil
}

// Pairs writes the job of the step Pairs. counted is what the step Words found; "" without words.
// Blocks keep the pairs around quantiles aside as long as all of them together keep at most about so many bytes.
func (c *Calibration) Pairs(ctx context.Context, s *objects.Store, counted string, step int, keep int64) (job string,
	err error) {
	in, err := c.input(ctx, s)
	if err != nil {
		return "", err
	}
	o := c.o
	j := &PairsJob{Step: step}
	if j.Weights, err = in.Weights(); err != nil {
		return "", err
	}
	if len(j.Weights) > 0 {
		if err := c.words(ctx, s, j, counted); err != nil {
			return "", err
		}
		if j.Rated = in.Rated(); len(j.Rated) == 0 {
			return "", fmt.Errorf("%w: no questions", ErrJob)
		}
		if err := c.parts(ctx, s, j); err != nil {
			return "", err
		}
	}
	if o.manifest.Groups > 0 {
		j.OwnerGroup = c.groups(o.Owners)
	}
	o.Pairs = j
	b, err := c.brackets(ctx, s, &in, float64(keep))
	if err != nil {
		return "", err
	}
	j.Brackets = *b
	o.name, err = s.PutJSON(ctx, "job", o.Job)
	return o.name, err
}

// Again writes the job of a further pass, with the brackets that Counts returned, after one whose job is given. Where
// blocks kept what lies within the brackets, nothing is counted anew. Where no pass has told yet how far the brackets
// must reach, this one counts a histogram.
func (c *Calibration) Again(ctx context.Context, s *objects.Store, b *engine.Brackets, last string) (job string,
	err error) {
	again, j := c.o.Job, *c.o.Pairs
	var of Job
	for name := last; name != ""; name = of.Pairs.From { // up to the pass that counted
		last, of = name, Job{}
		if err := s.GetJSON(ctx, name, &of); err != nil {
			return "", err
		}
	}
	j.Brackets, j.Again, again.Pairs = *b, true, &j
	switch {
	case of.Pairs.Brackets.Cells > 0 && within(b, &of.Pairs.Brackets):
		j.From = last
	case of.Pairs.Brackets.Bins == 0:
		j.Brackets = *binned(b)
	}
	return s.PutJSON(ctx, "job", again)
}

// within reports whether pairs within brackets are within others, too.
func within(b, of *engine.Brackets) bool {
	return of.Ends[0] >= b.Ends[0] && of.Ends[1] <= b.Ends[1] &&
		!slices.ContainsFunc(b.Ranges, func(r [2]float64) bool {
			return !slices.ContainsFunc(of.Ranges, func(o [2]float64) bool { return o[0] <= r[0] && r[1] <= o[1] })
		})
}

// binned returns brackets that count a histogram of all pairs instead of keeping those around quantiles.
func binned(b *engine.Brackets) *engine.Brackets {
	out := *b
	out.Ranges, out.Sure, out.Cells, out.Bins = nil, nil, 0, plan.Bins
	return &out
}

func (c *Calibration) words(ctx context.Context, s *objects.Store, j *PairsJob, counted string) error {
	var w Counted
	if err := s.GetJSON(ctx, counted, &w); err != nil {
		return err
	}
	if w.Rows != c.o.manifest.Contexts {
		return fmt.Errorf("%w: words of %d contexts of %d are counted", ErrJob, w.Rows, c.o.manifest.Contexts)
	}
	j.Statistics = c.o.manifest.Statistics()
	j.Statistics.Terms = w.Terms
	x, err := w.joined(ctx, s, len(c.o.Owners))
	if err == nil {
		j.Words, err = base.PutWords(ctx, s, x)
	}
	return err
}

// groups returns the groups of contexts, which ascend.
func (c *Calibration) groups(rows []int64) (out []int32) {
	for i, g := range c.o.manifest.Segments {
		for len(rows) > 0 && rows[0] < g.First+int64(g.Rows) {
			if c.abouts[i].Groups != nil {
				out = append(out, c.abouts[i].Groups[rows[0]-g.First])
			}
			rows = rows[1:]
		}
	}
	return out
}

// parts finds the centres of the parts that are left out together.
func (c *Calibration) parts(ctx context.Context, s *objects.Store, j *PairsJob) error {
	o := c.o
	if o.manifest.Topics && o.manifest.Groups > 0 {
		j.OwnerParts = c.groups(o.Owners)
		return nil
	}
	k, rows := gate.Parts(int(o.manifest.Contexts), o.questions.Options.Seed)
	if k == 0 {
		return nil
	}
	of := make([]int64, o.manifest.Contexts)
	for i := range of {
		of[i] = int64(i)
	}
	if rows != nil {
		of = of[:len(rows)]
		for i, row := range rows {
			of[i] = int64(row)
		}
	}
	sample, err := o.manifest.Rows(ctx, s, of)
	if err != nil {
		return err
	}
	found, err := gate.Centres(ctx, c.e, sample, k, o.questions.Options.Seed)
	if err != nil {
		return err
	}
	if j.Parts = k; rows == nil {
		for _, row := range o.Owners {
			j.OwnerParts = append(j.OwnerParts, found.Of[row])
		}
		j.PartOf, err = s.PutJSON(ctx, "parts-of", found.Of)
		return err
	}
	if j.Parts = found.Centres.Rows; j.Parts == 0 {
		return fmt.Errorf("%w: no centres", ErrJob)
	}
	if j.Centres, err = s.Put(ctx, "vectors", base.VectorBytes(found.Centres)); err != nil {
		return err
	}
	own, err := o.OwnerVectors.All(ctx, s, len(o.Owners), o.manifest.Dim)
	if err != nil {
		return err
	}
	j.OwnerParts, err = gate.PartsOf(ctx, c.e, own, found.Centres)
	return err
}

// brackets chooses what blocks keep, from a sample of contexts and questions. Where that is too much, they count a
// histogram, whose cells tell a further pass what to keep.
func (c *Calibration) brackets(ctx context.Context, s *objects.Store, in *gate.Input, keep float64) (*engine.Brackets,
	error) {
	m, q := &c.o.manifest, &c.o.questions
	rng := rand.New(rand.NewPCG(q.Options.Seed, 47))
	d := engine.DistributionInput{Metric: m.Metric, Quantiles: gate.Quantiles(), Interval: true,
		Sample: gate.NegativeSample}
	var err error
	if d.Negatives, err = gate.ParseNegatives(q.Options.negatives(), q.Options.Seed); err != nil {
		return nil, err
	}
	var rows []int64
	lanes := drawn(rng, q.Rows, sampleLanes)
	for _, i := range lanes {
		rows = append(rows, int64(q.Owner[i]))
	}
	for _, i := range drawn(rng, int(m.Contexts), sampleRows) {
		rows = append(rows, int64(i))
	}
	slices.Sort(rows)
	rows = slices.Compact(rows)
	if d.Contexts, err = m.Rows(ctx, s, rows); err != nil {
		return nil, err
	}
	if m.Groups > 0 {
		d.Group = c.groups(rows)
	}
	if d.Queries = in.Queries; len(lanes) < q.Rows {
		d.Queries = engine.Vectors{Rows: len(lanes), Dim: m.Dim, Data: make([]float32, len(lanes)*m.Dim)}
		for k, i := range lanes {
			copy(d.Queries.Data[k*m.Dim:], in.Queries.Data[i*m.Dim:(i+1)*m.Dim])
		}
	}
	for _, i := range lanes {
		at, _ := slices.BinarySearch(rows, int64(q.Owner[i]))
		d.Owner = append(d.Owner, int32(at))
	}
	missing := func(some, of int) float64 { return (1 - float64(some)/float64(of)) / float64(some) }
	slack := reach * spread * math.Sqrt(missing(len(rows), int(m.Contexts))+missing(len(lanes), q.Rows))
	b, err := c.e.DistributionBrackets(ctx, d, slack)
	if err != nil {
		return nil, err
	}
	pairs, block := float64(m.Contexts)*float64(q.Rows), 0.
	for _, g := range m.Segments {
		block = max(block, float64(g.Rows)*float64(min(c.o.Pairs.Step, q.Rows)))
	}
	if 8*b.Share*pairs <= keep && 8*b.Share*block <= keepBlock {
		return b, nil
	}
	b = binned(b)
	if sample := math.Pow(float64(len(rows))*float64(len(lanes)), 2./3); pairs/min(sample, 1<<25) > largestEnds {
		b.Ends = nothing(m.Metric, 0).Ends
	}
	return b, nil
}

// drawn returns some of n numbers, ascending; all, if there are no more.
func drawn(rng *rand.Rand, n, some int) (list []int) {
	if n <= some {
		for i := range n {
			list = append(list, i)
		}
		return list
	}
	seen := map[int]bool{}
	for len(seen) < some {
		seen[rng.IntN(n)] = true
	}
	for i := range seen {
		list = append(list, i)
	}
	slices.Sort(list)
	return list
}
