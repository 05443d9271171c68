package gate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
	"github.com/sluice-rag/sluice/rag/pairs"
)

// Defaults of Input.
const (
	DefaultResamples = 1000
	DefaultNegatives = "all"
	maxResamples     = 1_000_000
	bootstrapLevel   = .95
	histogramBins    = 200
)

// DefaultPolicy returns what Calibrate takes when none is named: the 5 % quantile of the maximum distribution,
// which on held-out questions stays within a point of the best possible cut-off whatever the size of the
// base (docs/adr/0018-gate.md); for distances the 95 % quantile.
func DefaultPolicy(m kernels.Metric) string {
	if m.Ascending() {
		return "maximum:p95"
	}
	return "maximum:p5"
}

// Input is what a calibration is made of. Row i of Contexts belongs to ContextIDs[i], TextDigests[i] and
// Groups[i]; row j of Queries is a pseudo-query of context Owner[j].
type Input struct {
	Contexts    engine.Vectors
	ContextIDs  []string
	TextDigests []string // corpus.Chunk.Digest: hex sha256
	Groups      []int32  // nil when all contexts are in one group
	Topics      bool     // the groups are topics, not documents
	Queries     engine.Vectors
	Owner       []int32
	Domains     *Domains       // router and names; nil: there is no router
	Domain      []int32        // of each query, its number in Domains.Names
	General     engine.Vectors // questions that have nothing to do with the contexts; may be none
	// AboutGeneral says which ones General are, for the artifact.
	AboutGeneral General

	Encoder      identity.Encoder
	CorpusDigest string
	Metric       kernels.Metric
	Negatives    string  // all, cross-topic, sample:N; "" is all
	Policy       string  // "" and Auto are DefaultPolicy, Paper is the authors' rule
	Score        string  // as ParseScore has it; "" is Auto where Policy is, else the similarity; Auto chooses
	Words        *Words  // nil: scores are similarities
	Threshold    float64 // T
	Holdout      float64 // share of the contexts with pseudo-queries that the report holds out; 0 = no report
	Resamples    int     // of the bootstrap; 0 = DefaultResamples, negative = none
	Seed         uint64  // of sampled negatives, bootstrap and hold-out split
	Provenance   Provenance
	Tool         string // name and version of the program
	// Counts are what many workers have counted; nil: Calibrate counts the pairs. Of the contexts it then needs the
	// numbers of rows and of their numbers, ids and digests, and of Words the texts.
	Counts *Counts
	// KeepQuestions keeps the vectors of the pseudo-queries for searches, whatever the score is.
	KeepQuestions bool
	// Checkpoint, if not empty, is a file that counted pairs are recorded in: an interrupted calibration of the
	// same input goes on where it was. One of another input is begun anew.
	Checkpoint string
	// Keep, if it names a file, keeps what was counted there, so that the next calibration counts only the pairs that
	// have changed. Its Encoder and ContextNames are Calibrate's to set, and File may be empty.
	Keep pairs.Keep
	// Counted is told how the pairs were counted; nil asks for nothing. The artifact is the same either way.
	Counted func(pairs.Report)
}

// Calibrate computes the distributions and derives P, the cut-off, its bootstrap interval and the hold-out
// report. It returns D+ as well, in the order of the queries. No pseudo-query is ErrQueries, an unknown
// policy or choice of negatives ErrPolicy, input that does not fit together kernels.ErrShape.
func Calibrate(ctx context.Context, e engine.Interface, in Input) (c *Calibration, positive []float64, err error) {
	policy, score, err := resolve(in.Policy, in.Score, in.Metric)
	if err != nil {
		return nil, nil, err
	}
	in.Negatives = cmp.Or(in.Negatives, DefaultNegatives)
	groups, err := in.check()
	if err != nil {
		return nil, nil, err
	}
	negatives, err := ParseNegatives(in.Negatives, in.Seed)
	if err != nil {
		return nil, nil, err
	}
	d, err := in.count(ctx, e, negatives)
	if err != nil {
		return nil, nil, fmt.Errorf("gate: calibrating: %w", err)
	}
	if err := allFinite(d); err != nil {
		return nil, nil, err
	}
	in.Provenance.Queries = in.Queries.Rows
	if err := CheckThreshold(in.Metric, in.Threshold); err != nil {
		return nil, nil, err
	}
	c = &Calibration{
		Schema: Schema, Created: time.Now().UTC().Truncate(time.Second), Tool: in.Tool,
		Encoder: in.Encoder, Corpus: Corpus{Digest: in.CorpusDigest, Contexts: in.Contexts.Rows, Groups: groups,
			Topics: in.Topics},
		Queries: in.Provenance, Metric: in.Metric, Negatives: in.Negatives,
		Positive: table(d.PositiveSummary), Negative: table(d.NegativeSummary), Maximum: table(d.Max),
		NegativeHistogram: histogram(d),
		scores:            scores{positive: d.Positive, maximum: d.Best, owner: in.Owner, domain: in.Domain},
		Domains:           in.Domains,
	}
	if c.Negative.N > 0 {
		c.Separation = separation(d.Positive, d.Sample, in.Metric)
	}
	if groups > 1 {
		c.scores.other = d.BestOther
		c.MaximumOther = new(tableOf(d.BestOther))
	}
	if in.General.Rows > 0 && in.AboutGeneral != (General{}) {
		c.General = &in.AboutGeneral
	}
	if c.scores.general, err = in.general(ctx, e); err != nil {
		return nil, nil, fmt.Errorf("gate: calibrating: %w", err)
	}
	if c.ContextDigests, err = shortDigests(in.TextDigests); err != nil {
		return nil, nil, err
	}
	c.Device, c.Kernel = describe(e)
	if err := in.score(ctx, e, c, policy, score); err != nil {
		return nil, nil, fmt.Errorf("gate: calibrating: %w", err)
	}
	if in.KeepQuestions && c.questions.Rows == 0 {
		in.keepQuestions(c)
	}
	c.Bootstrap = Interval{Level: bootstrapLevel, Resamples: max(in.Resamples, 0), Seed: in.Seed}
	if in.Resamples == 0 {
		c.Bootstrap.Resamples = DefaultResamples
	}
	if in.Holdout > 0 {
		c.Holdout = &Holdout{Share: in.Holdout}
	}
	if c, err = c.withPolicy(ctx, workersOf(e), policy.Name, in.Threshold); err != nil {
		return nil, nil, err
	}
	return c, c.scores.positive, nil
}

// score sets what the gate compares with its cut-off: what was asked for, or the best of what can be compared.
func (in *Input) score(ctx context.Context, e engine.Interface, c *Calibration, p Policy, want *Score) error {
	c.Score = in.Metric.String()
	if weighs, err := in.weighs(p, want); err != nil || !weighs {
		return err
	}
	return in.weigh(ctx, e, c, p, want)
}

// weighs reports whether there are scores to compare, or other distributions than those of the similarity to compute.
func (in *Input) weighs(p Policy, want *Score) (bool, error) {
	switch {
	case want != nil && want.Kind == Similarity:
		return false, nil
	case want != nil && want.Words() && in.Words == nil && p.promised != nil && (in.Score == "" || in.Score == Auto):
		return false, nil
	case want != nil && want.Words() && in.Words == nil:
		return false, fmt.Errorf("%w: score %s needs the texts of contexts and pseudo-queries", ErrPolicy, want.Name())
	case want == nil && (in.Words == nil || in.Metric != kernels.Cosine):
		return false, nil
	}
	return true, nil
}

// count computes the distributions, from kept counts where there are any and the engine can.
func (in *Input) count(ctx context.Context, e engine.Interface, negatives engine.Negatives) (*engine.Distribution,
	error) {
	if in.Counts != nil {
		return in.Counts.Pairs, nil
	}
	p := pairs.Input{
		DistributionInput: engine.DistributionInput{
			Contexts: in.Contexts, Queries: in.Queries, Owner: in.Owner, Group: in.Groups, Metric: in.Metric,
			Negatives: negatives, Quantiles: tableQuantiles, Sample: NegativeSample, Checkpoint: in.Checkpoint,
		},
		Keep: in.Keep,
	}
	if in.Keep.File != "" {
		p.Encoder = in.Encoder.Digest + " " + in.Encoder.TokenizerDigest
		p.ContextNames = make([]string, len(in.ContextIDs))
		for i, id := range in.ContextIDs {
			p.ContextNames[i] = in.TextDigests[i] + id // all digests are equally long
		}
	}
	d, report, err := pairs.Count(ctx, e, p)
	if err == nil && in.Counted != nil {
		in.Counted(report)
	}
	return d, err
}

// general returns the best scores of the general questions.
func (in *Input) general(ctx context.Context, e engine.Interface) ([]float64, error) {
	if in.General.Rows == 0 {
		return nil, nil
	}
	if in.Counts != nil {
		return in.Counts.General, nil
	}
	best, err := bests(ctx, e, in.General, in.Contexts, in.Metric, nil)
	if i := slices.IndexFunc(best, func(x float64) bool { return !finite(x) }); i >= 0 {
		return nil, fmt.Errorf("%w: general question %d scores %v", kernels.ErrNonFinite, i, best[i])
	}
	return best, err
}

// bests returns the best score of each question over rows.
func bests(ctx context.Context, e engine.Interface, questions, rows engine.Vectors, m kernels.Metric,
	bias []engine.Biases) ([]float64, error) {
	hits, err := e.TopK(ctx, questions, rows, m, 1, bias)
	best := make([]float64, len(hits))
	for i, h := range hits {
		best[i] = h[0].Score
	}
	return best, err
}

// check finds what does not fit together before anything is computed, and counts the groups.
func (in *Input) check() (groups int, err error) {
	n := in.Contexts.Rows
	shape := func(format string, args ...any) (int, error) {
		return 0, fmt.Errorf("gate: calibrating: %w: "+format, append([]any{kernels.ErrShape}, args...)...)
	}
	switch {
	case n == 0:
		return 0, fmt.Errorf("gate: calibrating: %w: the base holds no contexts", kernels.ErrEmpty)
	case in.Queries.Rows == 0:
		return 0, fmt.Errorf("%w: none for %d contexts", ErrQueries, n)
	case len(in.ContextIDs) != n || len(in.TextDigests) != n:
		return shape("%d ids and %d text digests for %d contexts", len(in.ContextIDs), len(in.TextDigests), n)
	case in.Groups != nil && len(in.Groups) != n:
		return shape("%d groups for %d contexts", len(in.Groups), n)
	case len(in.Owner) != in.Queries.Rows:
		return shape("%d owners for %d pseudo-queries", len(in.Owner), in.Queries.Rows)
	case in.Contexts.Dim != in.Encoder.Dim || in.Queries.Dim != in.Encoder.Dim:
		return shape("contexts of dimension %d, pseudo-queries of %d, encoder of %d", in.Contexts.Dim, in.Queries.Dim,
			in.Encoder.Dim)
	case !(in.Holdout >= 0 && in.Holdout < 1):
		return shape("a hold-out share of %v, want 0 to below 1", in.Holdout)
	case in.Resamples > maxResamples:
		return shape("%d bootstrap resamples, at most %d", in.Resamples, maxResamples)
	case !finite(in.Threshold):
		return 0, fmt.Errorf("%w: threshold %v", ErrPolicy, in.Threshold)
	}
	for j, o := range in.Owner {
		if o < 0 || int(o) >= n {
			return shape("pseudo-query %d belongs to context %d of %d", j, o, n)
		}
	}
	if d := in.Domains; d != nil && (len(in.Domain) != in.Queries.Rows || slices.ContainsFunc(in.Domain,
		func(k int32) bool { return k < 0 || int(k) >= len(d.Names) })) {
		return shape("%d numbers of %d domains for %d pseudo-queries", len(in.Domain), len(d.Names), in.Queries.Rows)
	}
	seen := map[int32]bool{}
	for _, g := range in.Groups {
		seen[g] = true
	}
	groups = max(len(seen), 1)
	if in.Counts != nil {
		groups = max(in.Counts.Groups, 1)
		if err := in.Counts.check(in); err != nil {
			return 0, err
		}
	}
	if in.Negatives == "cross-topic" && groups < 2 {
		return 0,
			fmt.Errorf("%w: negatives cross-topic need contexts of at least two topics; use all or sample:N", ErrPolicy)
	}
	if w := in.Words; w != nil && (len(w.Queries) != in.Queries.Rows || in.Counts == nil && (w.Rows != nil &&
		len(w.Rows) != n || w.Rows == nil && w.Index.Rows() != n)) {
		return shape("%d texts of %d pseudo-queries, %d rows of %d contexts", len(w.Queries), in.Queries.Rows,
			len(w.Rows), n)
	}
	return groups, nil
}

// withPolicy derives everything that depends on the policy and the threshold.
func (c *Calibration) withPolicy(ctx context.Context, e each, policy string, threshold float64) (*Calibration, error) {
	p, err := ParsePolicy(policy)
	if err != nil {
		return nil, err
	}
	if !finite(threshold) {
		return nil, fmt.Errorf("%w: threshold %v", ErrPolicy, threshold)
	}
	lists := c.lists()
	values := lists.of(p)
	if len(values) == 0 {
		return nil,
			fmt.Errorf("%w: %s needs a distribution that this calibration does not hold; calibrate again", ErrPolicy,
				policy)
	}
	n := *c
	n.Policy, n.Threshold = p.Name, threshold
	if n.PolicyValue, n.Promise, err = n.derive(p, values); err != nil {
		return nil, err
	}
	n.Cutoff, n.Domains = cutoff(c.Metric, n.PolicyValue, threshold), n.byDomain(p)
	if err := n.checkCutoff(); err != nil {
		return nil, err
	}
	if lists.owner == nil { // the clusters are unknown: no interval and no split rather than wrong ones
		n.Bootstrap, n.Holdout = Interval{Level: c.Bootstrap.Level, Seed: c.Bootstrap.Seed}, nil
		n.weigh(p)
		return &n, nil
	}
	owner := lists.owner
	if p.promised != nil { // of one question of each context, as P is
		values, owner = n.ownScores(), nil
		for i := range values {
			owner = append(owner, int32(i))
		}
	}
	switch {
	case n.Promise != nil && n.Promise.Closed == nil:
		n.Bootstrap = Interval{Level: c.Bootstrap.Level, Seed: c.Bootstrap.Seed}
	case c.Bootstrap.Resamples > 0:
		if n.Bootstrap, err = bootstrap(ctx, e, p, c.Metric, values, owner, c.Bootstrap); err != nil {
			return nil, fmt.Errorf("gate: bootstrap: %w", err)
		}
	}
	if c.Holdout != nil {
		n.Holdout = lists.holdout(p, c.Metric, threshold, c.Holdout.Share, c.Bootstrap.Seed)
	}
	n.weigh(p)
	return &n, nil
}

// derive returns P of a policy, and what a conformal one promises. values are the distribution of the policy.
func (c *Calibration) derive(p Policy, values []float64) (float64, *Promise, error) {
	if p.promised == nil {
		return p.value(c.Metric, sorted(values)), nil, nil
	}
	if c.Threshold != 0 {
		return 0, nil, fmt.Errorf("%w: %s leaves nothing to loosen: the threshold must be 0, given %g", ErrPolicy,
			p.Name, c.Threshold)
	}
	return c.promise(*p.promised)
}

var tableQuantiles = []float64{.05, .25, .5, .75, .95}

// table reads the engine's summary over tableQuantiles.
func table(s engine.Summary) Stats {
	if s.N == 0 {
		return Stats{}
	}
	q := s.Quantiles
	return Stats{N: s.N, Min: s.Min, P5: q[0], Q1: q[1], Mean: s.Mean, Median: q[2], Q3: q[3], P95: q[4], Max: s.Max}
}

// tableOf returns the table of scores that are held in memory.
func tableOf(v []float64) Stats {
	s := sorted(v)
	q := func(p float64) float64 { return ref.Quantile7(s, p) }
	return Stats{N: int64(len(s)), Min: s[0], P5: q(.05), Q1: q(.25), Mean: mean(v), Median: q(.5), Q3: q(.75),
		P95: q(.95), Max: s[len(s)-1]}
}

// allFinite refuses scores that no decision can be derived from; an engine refuses such vectors already.
func allFinite(d *engine.Distribution) error {
	for _, v := range [][]float64{d.Positive, d.Best} {
		if i := slices.IndexFunc(v, func(x float64) bool { return !finite(x) }); i >= 0 {
			return fmt.Errorf("gate: calibrating: %w: pseudo-query %d scores %v", kernels.ErrNonFinite, i, v[i])
		}
	}
	return nil
}

// workersOf returns an engine's workers, if it lends them.
func workersOf(e engine.Interface) each {
	if w, ok := e.(interface {
		Parallel(ctx context.Context, tasks int, fn func(task int) error) error
	}); ok {
		return w.Parallel
	}
	return nil
}

// describe asks the engine what it ran on, as far as it can tell.
func describe(e engine.Interface) (device, kernel string) {
	if d, ok := e.(interface{ Describe() engine.Choice }); ok {
		c := d.Describe()
		return c.Device, c.Kernel
	}
	return "", ""
}
