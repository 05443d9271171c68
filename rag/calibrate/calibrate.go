package calibrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/filelock"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/exam"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/pairs"
	"github.com/sluice-rag/sluice/rag/pseudo"
	"github.com/sluice-rag/sluice/rag/store"
)

// Input of Run: the options, and what the language model that writes pseudo-queries needs. Nothing of it is
// used when Queries is set.
type Input struct {
	Options
	Model     func(context.Context) (llm.Generator, error) // called when the model is needed
	Templates string                                       // folder of prompt templates, as prompt.Open takes it
	// Card is the scorecard of that model; nil: it is trusted to write questions.
	Card func(context.Context) (*exam.Card, error)
}

// How pseudo-queries are made (Options.Questions).
const (
	Written   = "written"   // by the language model
	Extracted = "extracted" // of the contexts' words (pseudo.Extract)
)

// domainsOff is an Options.Domains.
const domainsOff = "off"

// All is an Options.Sample of all contexts.
const All = math.MaxInt32

// Options of Run. Start with DefaultOptions. The zero value is valid, but holds nothing out, so that the gate is tested
// by the questions that its cut-off was made from.
type Options struct {
	// Name of the artifact, <store>/calibration/<Name>.cal.json; "" takes the name of the active calibration, or
	// "default".
	Name    string
	Use     bool      // activate it even if another calibration is active
	Queries io.Reader // pseudo-queries as {"context_id","text"} lines; nil makes them (Questions)
	Source  string    // what Queries is, for the artifact and errors

	// "" is auto in Questions, Policy, Score and Domains, and all in Negatives. 0 is 3 in PerContext, 10 in RankLimit
	// and gate.DefaultResamples in Resamples.

	Questions   string  `key:"questions" oneof:"auto written extracted" doc:"pseudo-queries: written by the language model, extracted from the contexts' words without it, or, by auto, what its scorecard says is nearer to people's questions ('models check')"`
	Policy      string  `key:"policy" doc:"auto: maximum:p5 of the score that tells the calibration's questions best from those of other topics; paper: density:95 of the similarity; or a statistic of the positive distribution that becomes P: min, q1, mean, median, q3, max, pNN, density:NN, with 'maximum:' before it of the maximum distribution; or what is promised: conformal:A keeps out at most the share A of questions like the calibration's, conformal:/B lets through at most B of the others, conformal:A/B both, with :D behind it with confidence 1 - D; empty is auto"`
	Score       string  `key:"score" doc:"what the gate compares with its cut-off: cosine (or the store's metric), cosine+cover (with the share of the query's words, weighted by IDF, that a context has), cosine+cover:WEIGHT, pseudo-query (the best similarity with a question of the calibration), or auto, the best of them; empty is auto with the policy auto, else the similarity"`
	Threshold   float64 `key:"threshold" bounds:"-1000000,1000000" doc:"T: the gate opens above P - T, so more is looser"`
	Second      string  `key:"second" doc:"the second question, whether the passages that are found answer: conformal:A says \"topic only\" of at most the share A of questions like the calibration's, conformal:/B \"answers\" of at most B of those whose context is out of reach, conformal:A/B both, with :D behind it with confidence 1 - D; off asks none; empty is conformal:0.1 where there are enough contexts"`
	SecondModel bool    `key:"second_model" doc:"the second question counts the language model's own probability that the passages answer, too: one more prompt for each question that is asked, and two for each of at most 100 contexts of the calibration"`
	Domains     string  `key:"domains" oneof:"auto off" doc:"auto: where the store has a router and the policy is conformal:A or conformal:A:D, each domain with enough contexts gets a cut-off with a promise of its own, and the others one together; off: one cut-off"`
	Negatives   string  `key:"negatives" doc:"pairs of the negative distribution: all, cross-topic, sample:N per question"`
	PerContext  int     `key:"per_context" bounds:"1,1000" doc:"pseudo-queries per context"`
	Sample      int     `key:"sample" bounds:"0,2147483647" words:"auto=0 all=2147483647" doc:"contexts that get pseudo-queries, drawn at random; all takes all; auto, or 0, goes on until the 95 % interval of P is at most 0.075 wide, with 500 contexts or after 5 minutes, and with --queries takes all unless it is given"`
	Seed        uint64  `key:"seed" bounds:"0,18446744073709551615" doc:"seed of everything random"`
	Holdout     float64 `key:"holdout" bounds:"0,0.9" doc:"share of the contexts that is kept apart to test the gate; 0 tests nothing"`
	Resamples   int     `key:"resamples" bounds:"-1,1000000" words:"0=-1" doc:"bootstrap resamples of the interval of P; -1 makes none"`
	// KeepQuestions costs four bytes for each dimension and question.
	KeepQuestions bool `key:"keep_questions" doc:"keep the vectors of the pseudo-queries, which the mode pseudo-query of searches compares"`
	RankLimit     int  `key:"rank_limit" bounds:"1,1000000" doc:"a generated question is kept when its own context is among so many best"`

	Parallel int  // contexts that the model is asked about at a time; 0 is llm.ParallelOf
	Precise  bool // Sample 0 finds a number for given questions, too
	Few      bool // Follow asks about at most 96 new contexts, for at most two minutes, or not at all
	// Strict makes an error of a bad line and of one whose context is not in the store, instead of a count; and of a
	// model that does not write questions well enough, instead of Extracted.
	Strict bool
	// Draw, unless it is nil, is called with the calibration that was saved, and the score of each question with its
	// own context.
	Draw func(r *Result, positive []float64) error
	// Count, unless it is nil, counts the pairs elsewhere (docs/cluster.md): the artifact is the same.
	Count func(ctx context.Context, in gate.Input) (*gate.Counts, error)
	// KeepBytes of pairs around the quantiles are kept beside the artifact, so that after chunks or questions have come
	// or gone only the pairs that changed are counted; 0 keeps nothing. nil is pairs.DefaultLimit, and nothing for up
	// to pairs.SmallWork, which is computed anew sooner.
	KeepBytes *int64

	// set by Follow: whose contexts are asked about, and their share of new ones; nil asks anew
	follows *gate.Calibration
	narrow  float64 // of tests; 0 is gate.NarrowInterval

	OnBad    func(line int, err error)             // for each bad line of Queries
	Progress func(stage string, done, total int64) // stages "pseudo-queries", "embedding", "reading"
}

// DefaultOptions returns the default options: three questions about each of as many contexts, drawn at random, as it
// takes for a narrow interval (gate.NarrowInterval), at most 500 and for about five minutes; written by the language
// model if its scorecard says that it writes them well, else extracted from the contexts' words. A fifth of the
// contexts is held out to test the gate.
func DefaultOptions() Options {
	return Options{Questions: "auto", Domains: "auto", Negatives: "all", PerContext: pseudo.DefaultPerContext, Seed: 1,
		Holdout: .2, Resamples: gate.DefaultResamples, RankLimit: 10}
}

// Result is a calibration with where it lies. Its JSON is the artifact's without the
// bulky parts.
type Result struct {
	*gate.Calibration
	Name    string         `json:"name"`
	File    string         `json:"file"`
	InForce string         `json:"in_force"`                 // name of the calibration in force
	Report  *pseudo.Report `json:"pseudo_queries,omitempty"` // when the language model wrote them
	Plot    string         `json:"plot,omitempty"`           // file of the drawing, set by Options.Draw
	Counted *pairs.Report  `json:"counted,omitempty"`        // how the pairs were counted; nil when none were
	Seconds float64        `json:"seconds,omitempty"`
	Stale   float64        `json:"stale"` // share of the chunks that came after the calibration
	Gone    float64        `json:"gone"`  // share of the calibrated chunks that the store holds no more

	// These stand before the fields of the same JSON name, to leave them out.
	NoHistogram *struct{} `json:"negative_histogram,omitempty"`
	NoDigests   *struct{} `json:"context_digests,omitempty"`
	NoQuestions *struct{} `json:"question_contexts,omitempty"`
}

// ErrLocked: another call or process is making the calibration of the same name.
var ErrLocked = filelock.ErrHeld

// DefaultName is the name of a calibration when none is given. The packages pseudo and gate define the other defaults.
const DefaultName = "default"

const embedGroup = 1024 // queries embedded between two progress reports

func (o Options) withDefaults() (Options, error) {
	o.PerContext = cmp.Or(o.PerContext, pseudo.DefaultPerContext)
	if o.Name != "" {
		if err := knowledge.CheckCalibrationName(o.Name); err != nil {
			return o, err
		}
	}
	if o.PerContext < 0 || o.Sample < 0 || !(o.Holdout >= 0 && o.Holdout < 1) || o.Parallel < 0 {
		return o, fmt.Errorf("%w: per context %d, sample %d, parallel %d and hold-out %g must not be negative, "+
			"the hold-out below 1", knowledge.ErrOption, o.PerContext, o.Sample, o.Parallel, o.Holdout)
	}
	if !slices.Contains([]string{"", "auto", Written, Extracted}, o.Questions) {
		return o, fmt.Errorf("%w: questions %q; known are auto, %s, %s", knowledge.ErrOption, o.Questions, Written,
			Extracted)
	}
	if o.PerContext > pseudo.MaxPerContext {
		return o, fmt.Errorf("%w: per context %d, at most %d", knowledge.ErrOption, o.PerContext, pseudo.MaxPerContext)
	}
	if !slices.Contains([]string{"", "auto", domainsOff}, o.Domains) {
		return o, fmt.Errorf("%w: domains %q; known are auto and %s", knowledge.ErrOption, o.Domains, domainsOff)
	}
	_, err := gate.ParseNegatives(o.Negatives, o.Seed)
	return o, err
}

// Run computes the distributions of contexts × pseudo-queries, derives the cut-off, saves the artifact
// and puts it in force, unless another one is and Options.Use is not set. Options are checked before anything is
// computed. An interrupted run keeps the questions that were written, and what the language model said of passages, and
// goes on with them the next time.
//
// Runs of one name write the same journal, checkpoint and kept counts: while one is under way, in this process or
// another one, a second one is ErrLocked.
func Run(ctx context.Context, base *knowledge.Base, in Input) (_ *Result, err error) {
	started := time.Now()
	ctx = cores.AsBatch(ctx)
	o, err := in.withDefaults()
	if err != nil {
		return nil, err
	}
	snap, enc, err := base.Searchable(ctx)
	if err != nil {
		return nil, err
	}
	defer snap.Release()
	if d := snap.View.Damage; d != nil { // what rests on a part of the store would be behind it from the first day
		return nil, d.Blocks[0]
	}
	if err := gate.CheckPolicy(o.Policy, o.Score, snap.Metric()); err != nil {
		return nil, err
	}
	if err := errors.Join(gate.CheckThreshold(snap.Metric(), o.Threshold), gate.CheckSecond(o.Second)); err != nil {
		return nil, err
	}
	st, err := base.CalibrationStore(ctx) // before the work: a store that cannot be written to is the sooner error
	if err != nil {
		return nil, err
	}
	if o.Name, err = nameOf(ctx, st, o.Name); err != nil {
		return nil, err
	}
	end, err := begin(ctx, base, st, o.Name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	in.Options = o
	live, err := snap.View.Live(ctx)
	if err != nil {
		return nil, err
	}
	c := &run{Input: in, base: base, snap: snap, live: live, enc: enc, dir: knowledge.CalibrationDir(st)}
	ask, err := c.sufficient(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ask.answers.Close()) }()
	cal, positive, err := c.calibrate(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.second(ctx, cal, ask); err != nil {
		return nil, err
	}
	c.say()
	r := &Result{Calibration: cal, Name: o.Name, Report: c.report, Counted: &c.counted}
	if err := save(ctx, base, st, r, positive, o); err != nil {
		return nil, err
	}
	if err := c.vectors.trim(c.names); err != nil {
		base.Logger().Warn(fmt.Sprintf("vectors of questions that have gone take space in %s: %v", c.vectors.path, err))
	}
	if err := ask.answers.Trim(); err != nil {
		base.Logger().Warn(fmt.Sprintf("answers of the language model that are not needed take space: %v", err))
	}
	r.Seconds = time.Since(started).Seconds()
	return r, nil
}

// calibrate computes the calibration, in rounds where its sample is found by what it comes to.
func (c *run) calibrate(ctx context.Context) (cal *gate.Calibration, positive []float64, err error) {
	for {
		var input gate.Input
		if err = c.questions(ctx); err == nil {
			input, err = c.input(ctx)
		}
		if err == nil && c.Count != nil {
			input.Counts, err = c.Count(ctx, input)
		}
		if err == nil {
			cal, positive, err = gate.Calibrate(ctx, c.base.Engine(), input)
		}
		if c.draw == nil || err != nil && !isUnusable(err) {
			return cal, positive, err
		}
		c.provenance.Ended = c.draw.grow(cal)
		if c.provenance.Ended == "" {
			continue
		}
		if err == nil {
			cal.Queries.Ended = c.provenance.Ended
		}
		return cal, positive, err
	}
}

// begin creates the folder of calibrations and locks the artifact of a name; of a shared store, also all calibrations
// of other processes. end keeps what was written.
func begin(
	ctx context.Context, base *knowledge.Base, st *store.Store, name string,
) (end func() error, err error) {
	dir := knowledge.CalibrationDir(st)
	if err := durable.MkdirAll(dir); err != nil {
		return nil, err
	}
	lock, err := filelock.Take(filepath.Join(dir, name+".cal.json"))
	if err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	release, err := st.Exclusive(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("calibrate: %w", err), lock.Release())
	}
	return func() error {
		defer release()
		return errors.Join(base.KeepFiles(context.WithoutCancel(ctx)), lock.Release())
	}, nil
}

// say logs how the pairs were counted if that differs from what the options imply.
func (c *run) say() {
	r, log := &c.counted, c.base.Logger()
	switch {
	case r.Recounted:
		log.Warn(fmt.Sprintf("all pairs were counted again: %s", r.Reason))
	case r.Reason != "":
		log.Info(fmt.Sprintf("all pairs were counted: %s", r.Reason))
	}
}

// nameOf returns a name, or the one in force, or the default one.
func nameOf(ctx context.Context, st *store.Store, name string) (string, error) {
	if name != "" {
		return name, nil
	}
	current, err := knowledge.InForce(ctx, st)
	current = cmp.Or(current, DefaultName)
	return current, err
}

// save writes the artifact, puts it in force if that is its place, and draws it if asked.
func save(
	ctx context.Context, base *knowledge.Base, st *store.Store, r *Result, positive []float64, o Options,
) (err error) {
	var inForce bool
	if r.File, inForce, err = base.WriteCalibration(ctx, st, r.Name, r.Calibration, positive, o.Use); err != nil {
		return err
	}
	if r.InForce = r.Name; !inForce {
		if r.InForce, err = knowledge.InForce(ctx, st); err != nil {
			return err
		}
	}
	if o.Draw == nil {
		return nil
	}
	return o.Draw(r, positive)
}

// Show returns the calibration of a name, or the one in force (""), and how stale it is; it needs no model.
func Show(ctx context.Context, base *knowledge.Base, name string) (*Result, error) {
	snap, err := base.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer snap.Release()
	return show(ctx, snap, name)
}

func show(ctx context.Context, snap *knowledge.Snapshot, name string) (*Result, error) {
	c, err := knowledge.ReadCalibration(ctx, snap.Store, name)
	if err != nil {
		return nil, err
	}
	g, err := gate.New(c.Artifact, c.Positive, gate.Use{Encoder: c.Artifact.Encoder, Metric: c.Artifact.Metric,
		TextDigests: snap.View.LiveDigests()})
	if err != nil {
		return nil, err
	}
	current, err := knowledge.InForce(ctx, snap.Store)
	return &Result{Calibration: c.Artifact, Name: c.Name, File: c.File, InForce: current, Stale: g.Stale(),
		Gone: g.Gone()}, err
}

// List returns all calibrations of the store in the order of their names. One that cannot be read is told to onBad.
func List(ctx context.Context, base *knowledge.Base, onBad func(name string, err error)) (list []*Result, err error) {
	snap, err := base.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer snap.Release()
	names, err := knowledge.CalibrationNames(ctx, snap.Store)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		r, err := show(ctx, snap, name)
		switch {
		case err == nil:
			list = append(list, r)
		case ctx.Err() != nil:
			return nil, err
		case onBad != nil:
			onBad(name, err)
		}
	}
	return list, nil
}

// Use puts the calibration of a name in force and returns it.
func Use(ctx context.Context, base *knowledge.Base, name string) (*Result, error) {
	st, err := base.CalibrationStore(ctx)
	if err != nil {
		return nil, err
	}
	if err := base.UseCalibration(ctx, st, name); err != nil {
		return nil, err
	}
	return Show(ctx, base, name)
}

// Remove removes the calibration of a name, which must not be in force.
func Remove(ctx context.Context, base *knowledge.Base, name string) (err error) {
	st, err := base.CalibrationStore(ctx)
	if err != nil {
		return err
	}
	if err := knowledge.CheckCalibrationName(name); err != nil {
		return err
	}
	end, err := begin(ctx, base, st, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	return knowledge.RemoveCalibration(ctx, st, name)
}

// Repolicy derives Options.Policy and Options.Threshold from distributions that were computed before, and saves the
// result under Options.Name: those of that calibration if it exists, else those of the one in force. Draw and Use are
// as in Run; nothing else of the options is used.
func Repolicy(ctx context.Context, base *knowledge.Base, o Options) (_ *Result, err error) {
	o, err = o.withDefaults()
	if err != nil {
		return nil, err
	}
	st, err := base.CalibrationStore(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := knowledge.ReadCalibration(ctx, st, ""); err != nil && o.Name == "" {
		return nil, err
	}
	if o.Name, err = nameOf(ctx, st, o.Name); err != nil {
		return nil, err
	}
	end, err := begin(ctx, base, st, o.Name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	snap, err := base.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer snap.Release()
	c, err := knowledge.ReadCalibration(ctx, st, o.Name)
	if errors.Is(err, store.ErrNotFound) {
		c, err = knowledge.ReadCalibration(ctx, st, "")
	}
	if err != nil {
		return nil, err
	}
	r, err := show(ctx, snap, c.Name)
	if err != nil {
		return nil, err
	}
	if r.Calibration, err = r.WithPolicy(o.Policy, o.Score, o.Threshold); err != nil {
		return nil, err
	}
	if r.Calibration, err = r.WithSecond(o.Second); err != nil {
		return nil, err
	}
	r.Name = o.Name
	return r, save(ctx, base, st, r, c.Positive, o)
}
