package calibrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/filelock"
	"github.com/sluice-rag/sluice/llm"
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
}

// Options of Run. The zero value has the language model write three questions for every chunk.
type Options struct {
	Name       string    // of the artifact, <store>/calibration/<Name>.cal.json; "" is "default"
	Queries    io.Reader // pseudo-queries as {"context_id","text"} lines; nil lets the language model write them
	Source     string    // what Queries is, for the artifact and errors
	Parallel   int       // contexts that the model is asked about at a time; 0 is what pays (llm.ParallelOf)
	PerContext int       // pseudo-queries per context that are written, or kept of a file; 0 is 3
	Sample     int       // contexts with pseudo-queries, drawn at random; 0 takes all
	RankLimit  int       // a written question is kept when its own context is among so many best; 0 is 10
	Policy     string    // "" is gate.DefaultPolicy
	Threshold  float64
	Negatives  string  // all, cross-topic, sample:N; "" is all
	Holdout    float64 // share of the contexts kept apart for the report; 0 is none
	Resamples  int     // of the bootstrap; 0 is gate.DefaultResamples, negative none
	Seed       uint64
	Strict     bool   // a bad line, or one whose context is not in the store, is an error instead of a count
	Plot       string // file for a drawing, .png or .svg; "" is none
	// KeepBytes of pairs around the quantiles are kept beside the artifact, so that after chunks or questions have come
	// or gone only the pairs that changed are counted; 0 is pairs.DefaultLimit, negative keeps nothing.
	KeepBytes int64

	OnBad    func(line int, err error)             // for each bad line of Queries
	Progress func(stage string, done, total int64) // stages "pseudo-queries", "embedding"
}

// Result is the calibration in force with where it lies. Its JSON is the artifact's without the
// bulky parts.
type Result struct {
	*gate.Calibration
	Name    string         `json:"name"`
	File    string         `json:"file"`
	Report  *pseudo.Report `json:"pseudo_queries,omitempty"` // when the language model wrote them
	Plot    string         `json:"plot,omitempty"`
	Counted *pairs.Report  `json:"counted,omitempty"` // how the pairs were counted; nil when none were
	Seconds float64        `json:"seconds,omitempty"`
	Stale   float64        `json:"stale"` // share of the chunks that came after the calibration
	Gone    float64        `json:"gone"`  // share of the calibrated chunks that the store holds no more

	// These stand before the fields of the same JSON name, to leave them out.
	NoHistogram *struct{} `json:"negative_histogram,omitempty"`
	NoDigests   *struct{} `json:"context_digests,omitempty"`
}

// ErrLocked: another call or process is making the calibration of the same name.
var ErrLocked = filelock.ErrHeld

// DefaultName of a calibration. Other defaults are those of the packages pseudo and gate.
const DefaultName = "default"

const embedGroup = 1024 // queries embedded between two progress reports

var calibrationName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (o Options) withDefaults() (Options, error) {
	if o.Name == "" {
		o.Name = DefaultName
	}
	if o.PerContext == 0 {
		o.PerContext = pseudo.DefaultPerContext
	}
	if !calibrationName.MatchString(o.Name) {
		return o, fmt.Errorf("%w: calibration name %q: letters, digits, '.', '_' and '-' only, at most 64",
			knowledge.ErrOption, o.Name)
	}
	if o.PerContext < 0 || o.Sample < 0 || o.Holdout < 0 || o.Holdout >= 1 || o.Parallel < 0 {
		return o, fmt.Errorf("%w: per context %d, sample %d, parallel %d and hold-out %g must not be negative, "+
			"the hold-out below 1", knowledge.ErrOption, o.PerContext, o.Sample, o.Parallel, o.Holdout)
	}
	if ext := strings.ToLower(filepath.Ext(o.Plot)); o.Plot != "" && ext != ".png" && ext != ".svg" {
		return o, fmt.Errorf("%w: plot %q: the name must end in .png or .svg", knowledge.ErrOption, o.Plot)
	}
	if o.Policy != "" {
		if _, err := gate.ParsePolicy(o.Policy); err != nil {
			return o, err
		}
	}
	_, err := gate.ParseNegatives(o.Negatives, o.Seed)
	return o, err
}

// Run computes the distributions of contexts × pseudo-queries, derives the cut-off, saves the artifact
// and puts it in force. Options are checked before anything is computed. An interrupted run keeps the
// questions that were written and goes on with them the next time.
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
	st, err := base.Writer(ctx, nil) // before the work: a store that cannot be written to is the sooner error
	if err != nil {
		return nil, err
	}
	lock, err := begin(st, o.Name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	in.Options = o
	live, err := snap.View.Live(ctx)
	if err != nil {
		return nil, err
	}
	c := &run{Input: in, base: base, snap: snap, live: live, enc: enc, dir: knowledge.CalibrationDir(st)}
	if err := c.questions(ctx); err != nil {
		return nil, err
	}
	input, err := c.input(ctx)
	if err != nil {
		return nil, err
	}
	cal, positive, err := gate.Calibrate(ctx, base.Engine(), input)
	if err != nil {
		return nil, err
	}
	c.say()
	r := &Result{Calibration: cal, Name: o.Name, Report: c.report, Plot: o.Plot, Counted: &c.counted}
	if err := putInForce(ctx, base, st, r, positive); err != nil {
		return nil, err
	}
	if err := c.vectors.trim(input.Keep.QueryNames); err != nil {
		base.Logger().Warn(fmt.Sprintf("vectors of questions that have gone take space in %s: %v", c.vectors.path, err))
	}
	r.Seconds = time.Since(started).Seconds()
	return r, nil
}

// begin makes the folder of calibrations and takes the lock of a name, which is that of its artifact.
func begin(st *store.Store, name string) (*filelock.Lock, error) {
	dir := knowledge.CalibrationDir(st)
	if err := durable.MkdirAll(dir); err != nil {
		return nil, err
	}
	lock, err := filelock.Take(filepath.Join(dir, name+".cal.json"))
	if err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	return lock, nil
}

// say logs how the pairs were counted where that is not what was to be expected.
func (c *run) say() {
	r, log := &c.counted, c.base.Logger()
	switch {
	case r.Recounted:
		log.Warn(fmt.Sprintf("all pairs were counted again: %s", r.Reason))
	case r.Reason != "":
		log.Info(fmt.Sprintf("all pairs were counted: %s", r.Reason))
	}
}

// putInForce saves the artifact, names it in the store, and draws it if asked.
func putInForce(
	ctx context.Context, base *knowledge.Base, st *store.Store, r *Result, positive []float64,
) (err error) {
	if r.File, err = base.WriteCalibration(ctx, st, r.Name, r.Calibration, positive); err != nil {
		return err
	}
	if r.Plot == "" {
		return nil
	}
	return gate.Plot(r.Plot, r.Calibration, positive, r.MaximumScores())
}

// Current returns the calibration in force and how stale it is; it needs no model.
func Current(ctx context.Context, base *knowledge.Base) (*Result, error) {
	snap, err := base.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer snap.Release()
	c, err := knowledge.ReadCalibration(ctx, snap.Store)
	if err != nil {
		return nil, err
	}
	g, err := gate.New(c.Artifact, c.Positive, gate.Use{Encoder: c.Artifact.Encoder, Metric: c.Artifact.Metric,
		TextDigests: snap.View.LiveDigests(), StaleTolerance: 1})
	if err != nil {
		return nil, err
	}
	return &Result{Calibration: c.Artifact, Name: c.Name, File: c.File, Stale: g.Stale(), Gone: g.Gone()}, nil
}

// Repolicy puts the calibration in force under another policy and threshold, without computing the
// distributions again. plot is as in Options.
func Repolicy(
	ctx context.Context, base *knowledge.Base, policy string, threshold float64, plot string,
) (_ *Result, err error) {
	st, err := base.Writer(ctx, nil)
	if err != nil {
		return nil, err
	}
	r, err := Current(ctx, base)
	if err != nil {
		return nil, err
	}
	if policy == "" {
		policy = r.Policy
	}
	lock, err := begin(st, r.Name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if r, err = Current(ctx, base); err != nil { // as it is now that nobody changes it
		return nil, err
	}
	c, err := knowledge.ReadCalibration(ctx, st)
	if err != nil {
		return nil, err
	}
	if r.Calibration, err = r.WithPolicy(policy, threshold); err != nil {
		return nil, err
	}
	r.Plot = plot
	return r, putInForce(ctx, base, st, r, c.Positive)
}
