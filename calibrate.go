package sluice

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/buildinfo"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/remote"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/pseudo"
	"github.com/sluice-rag/sluice/rag/store"
)

// CalibrateOptions of Calibrate. The zero value has the language model write three questions for every chunk.
type CalibrateOptions struct {
	Name       string    // of the artifact, <store>/calibration/<Name>.cal.json; "" is "default"
	Queries    io.Reader // pseudo-queries as {"context_id","text"} lines; nil lets the language model write them
	Source     string    // what Queries is, for the artifact and errors
	PerContext int       // pseudo-queries per context: that many are written, or the first so many of a file kept; 0 is 3
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

	OnBad    func(line int, err error)             // for each bad line of Queries
	Progress func(stage string, done, total int64) // stages "pseudo-queries", "embedding"
}

// CalibrateResult is the calibration in force with where it lies. Its JSON is the artifact's without the
// bulky parts.
type CalibrateResult struct {
	*gate.Calibration
	Name    string         `json:"name"`
	File    string         `json:"file"`
	Report  *pseudo.Report `json:"pseudo_queries,omitempty"` // when the language model wrote them
	Plot    string         `json:"plot,omitempty"`
	Seconds float64        `json:"seconds,omitempty"`
	Stale   float64        `json:"stale"`

	// These stand before the fields of the same JSON name, to leave them out.
	NoHistogram *struct{} `json:"negative_histogram,omitempty"`
	NoDigests   *struct{} `json:"context_digests,omitempty"`
}

const (
	defaultName       = "default"
	defaultPerContext = 3
	embedGroup        = 1024 // queries embedded between two progress reports
)

var calibrationName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (o CalibrateOptions) withDefaults() (CalibrateOptions, error) {
	if o.Name == "" {
		o.Name = defaultName
	}
	if o.PerContext == 0 {
		o.PerContext = defaultPerContext
	}
	if !calibrationName.MatchString(o.Name) {
		return o, fmt.Errorf("%w: calibration name %q: letters, digits, '.', '_' and '-' only, at most 64", ErrOption, o.Name)
	}
	if o.PerContext < 0 || o.Sample < 0 || o.Holdout < 0 || o.Holdout >= 1 {
		return o, fmt.Errorf("%w: per context %d, sample %d and hold-out %g must not be negative, the hold-out below 1", ErrOption, o.PerContext, o.Sample, o.Holdout)
	}
	if ext := strings.ToLower(filepath.Ext(o.Plot)); o.Plot != "" && ext != ".png" && ext != ".svg" {
		return o, fmt.Errorf("%w: plot %q: the name must end in .png or .svg", ErrOption, o.Plot)
	}
	if o.Policy != "" {
		if _, err := gate.ParsePolicy(o.Policy); err != nil {
			return o, err
		}
	}
	_, err := gate.ParseNegatives(o.Negatives, o.Seed)
	return o, err
}

// Calibrate computes the distributions of contexts × pseudo-queries, derives the cut-off, saves the artifact
// and puts it in force. Options are checked before anything is computed. An interrupted run keeps the
// questions that were written and goes on with them the next time.
func (s *Sluice) Calibrate(ctx context.Context, o CalibrateOptions) (*CalibrateResult, error) {
	started := time.Now()
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	p, enc, err := s.base.Searchable(ctx)
	if err != nil {
		return nil, err
	}
	defer p.Release()
	st, err := s.base.Writer(ctx, nil) // before the work, so that a second writer is refused at once
	if err != nil {
		return nil, err
	}
	dir := knowledge.CalibrationDir(st)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	c := &calibrating{s: s, o: o, p: p, enc: enc, dir: dir}
	if err := c.questions(ctx); err != nil {
		return nil, err
	}
	in, err := c.input(ctx)
	if err != nil {
		return nil, err
	}
	cal, positive, err := gate.Calibrate(ctx, s.engine, in)
	if err != nil {
		return nil, err
	}
	r := &CalibrateResult{Calibration: cal, Name: o.Name, Report: c.report, Plot: o.Plot}
	if err := s.putInForce(ctx, st, r, positive); err != nil {
		return nil, err
	}
	r.Seconds = time.Since(started).Seconds()
	return r, nil
}

// putInForce saves the artifact, names it in the store, and draws it if asked.
func (s *Sluice) putInForce(ctx context.Context, st *store.Store, r *CalibrateResult, positive []float64) (err error) {
	if r.File, err = s.base.WriteCalibration(ctx, st, r.Name, r.Calibration, positive); err != nil {
		return err
	}
	if r.Plot == "" {
		return nil
	}
	return gate.Plot(r.Plot, r.Calibration, positive, r.MaximumScores())
}

// Calibration returns the calibration in force and how stale it is; it needs no model.
func (s *Sluice) Calibration(ctx context.Context) (*CalibrateResult, error) {
	p, err := s.base.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer p.Release()
	c, err := knowledge.ReadCalibration(ctx, p.Store)
	if err != nil {
		return nil, err
	}
	g, err := gate.New(c.Artifact, c.Positive, gate.Use{Encoder: c.Artifact.Encoder, Metric: c.Artifact.Metric,
		TextDigests: p.View.TextDigests, StaleTolerance: 1})
	if err != nil {
		return nil, err
	}
	return &CalibrateResult{Calibration: c.Artifact, Name: c.Name, File: c.File, Stale: g.Stale()}, nil
}

// Repolicy puts the calibration in force under another policy and threshold, without computing the
// distributions again. plot is as in CalibrateOptions.
func (s *Sluice) Repolicy(ctx context.Context, policy string, threshold float64, plot string) (*CalibrateResult, error) {
	st, err := s.base.Writer(ctx, nil)
	if err != nil {
		return nil, err
	}
	r, err := s.Calibration(ctx)
	if err != nil {
		return nil, err
	}
	if policy == "" {
		policy = r.Policy
	}
	c, err := knowledge.ReadCalibration(ctx, st)
	if err != nil {
		return nil, err
	}
	if r.Calibration, err = r.WithPolicy(policy, threshold); err != nil {
		return nil, err
	}
	r.Plot = plot
	return r, s.putInForce(ctx, st, r, c.Positive)
}

// calibrating is one call of Calibrate.
type calibrating struct {
	s          *Sluice
	o          CalibrateOptions
	p          *knowledge.Snapshot
	enc        embed.Embedder
	dir        string // of artifacts and journals
	queries    []pseudo.Query
	provenance gate.Provenance
	report     *pseudo.Report
}

func (c *calibrating) progress(stage string, done, total int64) {
	if c.o.Progress != nil {
		c.o.Progress(stage, done, total)
	}
}

func (c *calibrating) questions(ctx context.Context) error {
	c.provenance = gate.Provenance{PerContext: c.o.PerContext, Seed: c.o.Seed, Rejected: map[string]int{}}
	if c.o.Queries != nil {
		return c.read()
	}
	return c.write(ctx)
}

// read takes the pseudo-queries from the file.
func (c *calibrating) read() (err error) {
	digest := sha256.New()
	bad := 0
	onBad := func(line int, err error) {
		bad++
		if c.o.OnBad != nil {
			c.o.OnBad(line, err)
		}
	}
	c.queries, err = pseudo.Read(io.TeeReader(c.o.Queries, digest), pseudo.ReadOptions{Strict: c.o.Strict, OnBad: onBad, PerContext: c.o.PerContext})
	if err != nil {
		return fmt.Errorf("%s: %w", c.o.Source, err)
	}
	c.provenance.Kind, c.provenance.Source = "file", c.o.Source
	c.provenance.SHA256 = hex.EncodeToString(digest.Sum(nil))
	if bad > 0 {
		c.provenance.Rejected["bad_line"] = bad
	}
	return nil
}

// prompter is how questions are asked for: by the template "questions" where the user has one of it or the model is a
// server's, which often takes messages only; else in the way that small models do best.
func (s *Sluice) prompter(gen llm.Generator) (pseudo.Prompter, error) {
	library, err := prompt.Open(s.cfg.Templates)
	if err != nil {
		return nil, err
	}
	if _, isRemote := gen.(*remote.Generator); isRemote || library.Replaced("questions") {
		return pseudo.Chat{Library: library}, nil
	}
	return pseudo.OneShot{}, nil
}

// write has the language model make them.
func (c *calibrating) write(ctx context.Context) error {
	gen, err := c.s.model.get(ctx)
	if err != nil {
		return err
	}
	chunks, err := c.p.Store.Chunks(ctx, c.p.View.IDs)
	if err != nil {
		return err
	}
	prompter, err := c.s.prompter(gen)
	if err != nil {
		return err
	}
	queries, report, err := pseudo.Generate(ctx, gen, c.enc, c.s.engine, pseudo.Contexts{Vectors: c.p.View.Vectors, Chunks: chunks}, pseudo.Options{
		PerContext: c.o.PerContext, Sample: c.o.Sample, Seed: c.o.Seed, RankLimit: c.o.RankLimit, Metric: c.p.Store.Metric(), Journal: c.journal(gen.Info()), Prompter: prompter,
		Progress: func(done, total int) { c.progress("pseudo-queries", int64(done), int64(total)) },
	})
	if err != nil {
		return err
	}
	c.queries, c.report = queries, &report
	c.provenance.Kind = "generated"
	c.provenance.Model, c.provenance.ModelSHA256 = gen.Info().Name, gen.Info().SHA256
	for reason, n := range report.Rejected {
		c.provenance.Rejected[string(reason)] = n
	}
	return nil
}

// journal is where written questions are kept. What they depend on is in the name, so that other settings
// begin another journal and the same ones find theirs again.
func (c *calibrating) journal(model llm.Info) string {
	identity := model.SHA256
	if identity == "" { // a server does not tell
		identity = model.Path + "#" + model.Name
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", identity, c.o.PerContext, c.o.Seed))
	return filepath.Join(c.dir, fmt.Sprintf("%s.%x.journal.jsonl", c.o.Name, sum[:4]))
}

// input embeds the pseudo-queries and gives each its context's row.
func (c *calibrating) input(ctx context.Context) (gate.Input, error) {
	view := c.p.View
	texts, owner, err := c.owners()
	if err != nil {
		return gate.Input{}, err
	}
	q := engine.Vectors{Dim: view.Vectors.Dim, Rows: len(texts)}
	for start := 0; start < len(texts); start += embedGroup {
		e, err := c.s.base.Embed(ctx, texts[start:min(start+embedGroup, len(texts))], embed.Query)
		if err != nil {
			return gate.Input{}, err
		}
		q.Data = append(q.Data, e.Data...)
		c.progress("embedding", int64(min(start+embedGroup, len(texts))), int64(len(texts)))
	}
	return gate.Input{
		Contexts: view.Vectors, ContextIDs: view.IDs, TextDigests: view.TextDigests, Groups: view.Groups, Queries: q, Owner: owner,
		Encoder: knowledge.GateEncoder(c.enc.Info()), CorpusDigest: view.Digest, Metric: c.p.Store.Metric(), Negatives: c.o.Negatives,
		Policy: c.o.Policy, Threshold: c.o.Threshold, Holdout: c.o.Holdout, Resamples: c.o.Resamples, Seed: c.o.Seed,
		Provenance: c.provenance, Tool: buildinfo.Tool(),
	}, nil
}

// owners drops the pseudo-queries of contexts that the store does not hold, and those outside the sample.
func (c *calibrating) owners() (texts []string, owner []int32, err error) {
	rows := make(map[string]int32, len(c.p.View.IDs))
	for i, id := range c.p.View.IDs {
		rows[id] = int32(i)
	}
	var known []pseudo.Query
	var firstUnknown string
	unknown := 0
	for _, q := range c.queries {
		if _, ok := rows[q.ContextID]; ok {
			known = append(known, q)
			continue
		}
		if unknown++; unknown == 1 {
			firstUnknown = q.ContextID
		}
	}
	if unknown > 0 {
		err := fmt.Errorf("%w: %d of %d name a context_id that %s does not hold, the first %q; 'sluice docs list --chunks' shows the ids", gate.ErrQueries, unknown, len(c.queries), c.s.cfg.Store, firstUnknown)
		if len(known) == 0 || c.o.Strict {
			return nil, nil, err
		}
		c.s.log.Warn(err.Error())
		c.provenance.Rejected["unknown_context"] = unknown
	}
	if c.o.Queries != nil && c.o.Sample > 0 {
		known = sample(known, c.o.Sample, c.o.Seed)
	}
	distinct := map[int32]bool{}
	for _, q := range known {
		texts, owner = append(texts, q.Text), append(owner, rows[q.ContextID])
		distinct[rows[q.ContextID]] = true
	}
	c.provenance.Sampled = len(distinct)
	if len(texts) == 0 {
		return nil, nil, fmt.Errorf("%w: %s", gate.ErrQueries, c.why())
	}
	return texts, owner, nil
}

// why explains that no pseudo-query is left.
func (c *calibrating) why() string {
	if c.report == nil {
		return fmt.Sprintf("%s has no usable line", c.o.Source)
	}
	return fmt.Sprintf("of %d that %s wrote for %d contexts none was kept (rejected: %v); a larger --sample, a better --model or --queries FILE helps",
		c.report.Generated, c.provenance.Model, c.report.Contexts, c.report.Rejected)
}

// sample keeps the queries of n contexts, drawn with the seed; the order stays.
func sample(queries []pseudo.Query, n int, seed uint64) (kept []pseudo.Query) {
	var ids []string
	seen := map[string]bool{}
	for _, q := range queries {
		if !seen[q.ContextID] {
			seen[q.ContextID] = true
			ids = append(ids, q.ContextID)
		}
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	drawn := map[string]bool{}
	for _, id := range ids[:min(n, len(ids))] {
		drawn[id] = true
	}
	for _, q := range queries {
		if drawn[q.ContextID] {
			kept = append(kept, q)
		}
	}
	return kept
}
