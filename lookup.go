package sluice

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/spans"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/excerpt"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// LookupOptions configures Lookup.
type LookupOptions struct {
	// Gate "" is GateAuto, where a store without a calibration has no gate. GateClosed asks nothing.
	Gate     answer.GateMode
	Retrieve *retrieve.Options // nil: nothing is searched for
	// Vectors of the queries by the store's encoder, one row per query. If there are none, the queries are embedded.
	// The gate and the searches by words use the texts in any case.
	Vectors engine.Vectors

	calibrated bool // a store without a calibration is ErrNotCalibrated
}

// Looked is the result of Lookup for one query.
type Looked struct {
	Decision *gate.Decision // nil: the gate was not asked, or there is none
	Found                   // empty where the gate is closed, or nothing was searched for
}

// Found is what a search has found for one query.
type Found struct {
	Taken    retrieve.Taken    // how the results came about
	Results  []retrieve.Result // better first
	Passages []prompt.Passage  // the texts of the results, in their order
}

// LookupTimes are the milliseconds that the steps of a Lookup took, for all queries together.
type LookupTimes struct {
	Embed    float64 `json:"embed"`
	Gate     float64 `json:"gate"` // with the search for the passages, where one search gives both
	Retrieve float64 `json:"retrieve"`
}

// Gate decides for each query whether the knowledge base can help with it. A store without a calibration is
// ErrNotCalibrated, one whose calibration is too stale gate.ErrStale.
func (s *Sluice) Gate(ctx context.Context, queries []string) ([]gate.Decision, error) {
	found, _, err := s.Lookup(ctx, queries, LookupOptions{calibrated: true})
	if err != nil {
		return nil, err
	}
	all := make([]gate.Decision, len(found))
	for i, f := range found {
		all[i] = *f.Decision
	}
	return all, nil
}

// Retrieve returns the best contexts of each query with their texts, also if these are deleted or replaced meanwhile.
// It does not ask the gate. A query may be any text; of one that is longer than the encoder reads, vectors are of its
// beginning and words of all of it. Options.Expand joins text to the passages; Options.Sentences adds the sentences
// that are nearest to the query, and if these cannot be found, that is logged. Bad options are retrieve.ErrFilter or
// retrieve.ErrOption.
func (s *Sluice) Retrieve(ctx context.Context, queries []string, o retrieve.Options) ([]Found, error) {
	looked, _, err := s.Lookup(ctx, queries, LookupOptions{Gate: answer.GateOpen, Retrieve: &o})
	if err != nil {
		return nil, err
	}
	all := make([]Found, len(looked))
	for i, l := range looked {
		all[i] = l.Found
	}
	return all, nil
}

// Lookup is Gate and Retrieve in one: queries are embedded once, and a search is made for those whose gate is open.
func (s *Sluice) Lookup(
	ctx context.Context, queries []string, o LookupOptions,
) (all []Looked, times LookupTimes, err error) {
	all, err = during(ctx, s, func(ctx context.Context) ([]Looked, error) {
		all, err := s.lookup(ctx, queries, o, &times)
		for i := range min(len(all), len(queries)) {
			s.record(ctx, queries[i], all[i].Decision, all[i].Results)
		}
		return all, err
	})
	return all, times, err
}

// lookup is Lookup without the decision log.
func (s *Sluice) lookup(ctx context.Context, queries []string, o LookupOptions, times *LookupTimes) ([]Looked, error) {
	n := max(len(queries), o.Vectors.Rows)
	if n != len(queries) && len(queries) > 0 || n != o.Vectors.Rows && o.Vectors.Rows > 0 {
		return nil, fmt.Errorf("%w: %d queries with %d vectors: give as many vectors as queries, or only one of them",
			kernels.ErrShape, len(queries), o.Vectors.Rows)
	}
	if o.Retrieve != nil {
		if err := s.checkRetrieve(*o.Retrieve); err != nil {
			return nil, err
		}
	}
	if o.Gate == answer.GateClosed || n == 0 && !o.calibrated {
		return make([]Looked, n), nil
	}
	q, err := s.prepare(ctx, retrieve.Queries{Texts: queries, Vectors: o.Vectors}, o, times)
	if err != nil {
		return nil, err
	}
	defer q.snap.Release()
	all := make([]Looked, n)
	near, err := q.decide(ctx, o.Retrieve, all, times)
	if err == nil && o.Retrieve != nil {
		err = s.search(ctx, q, *o.Retrieve, near, all, times)
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Opens is Gate without scores: each query is searched only until one context opens the gate.
func (s *Sluice) Opens(ctx context.Context, queries []string) ([]gate.Verdict, error) {
	return during(ctx, s, func(ctx context.Context) ([]gate.Verdict, error) {
		q, err := s.prepare(ctx, retrieve.Queries{Texts: queries}, LookupOptions{calibrated: true}, &LookupTimes{})
		if err != nil {
			return nil, err
		}
		defer q.snap.Release()
		verdicts, err := q.snap.Any(ctx, q.gate, q.Queries)
		for i := range verdicts {
			if q.faults[i] != nil {
				verdicts[i].Close(q.faults[i])
			}
		}
		return verdicts, err
	})
}

// prepared holds what a gate and a search need: queries with their vectors, and the state of the store.
type prepared struct {
	retrieve.Queries
	snap   *knowledge.Snapshot // needs a Release
	gate   *gate.Gate          // nil: it is not asked, or the store has no calibration
	faults []error             // why the vector of a query is unusable
}

// prepare opens the store and its gate, and embeds the queries unless they have vectors or nothing needs these.
func (s *Sluice) prepare(
	ctx context.Context, queries retrieve.Queries, o LookupOptions, times *LookupTimes,
) (*prepared, error) {
	snap, enc, err := s.base.Searchable(ctx)
	if err != nil {
		return nil, err
	}
	ready := false
	defer func() {
		if !ready { // an error, or a panic of the encoder
			snap.Release()
		}
	}()
	q := &prepared{Queries: queries, snap: snap, faults: make([]error, max(len(queries.Texts), queries.Vectors.Rows))}
	if o.Gate != answer.GateOpen { // before the embedding, so that a stale calibration fails early
		q.gate, err = snap.Gate(ctx, enc.Info().Encoder)
		if err != nil && (o.calibrated || !errors.Is(err, ErrNotCalibrated)) {
			return nil, err
		}
	}
	if q.gate != nil && q.gate.ScoredBy().Words() && len(q.Texts) < len(q.faults) {
		return nil, fmt.Errorf("%w: the gate scores words, too: give the texts of the queries beside their vectors",
			ErrOption)
	}
	if v := q.Vectors; v.Rows > 0 {
		if v.Dim != snap.View.Vectors.Dim {
			return nil, fmt.Errorf("%w: the vectors have %d dimensions, those of the store have %d", kernels.ErrShape,
				v.Dim, snap.View.Vectors.Dim)
		}
	} else if r := o.Retrieve; q.gate != nil || r != nil && (r.Vectors() || r.Sentences) {
		if err := s.embedQueries(ctx, q, times); err != nil {
			return nil, err
		}
	}
	ready = true
	return q, nil
}

// embedQueries embeds queries, and says which of their vectors are unusable.
func (s *Sluice) embedQueries(ctx context.Context, q *prepared, times *LookupTimes) (err error) {
	defer timer(&times.Embed)()
	ctx, end := spans.Start(ctx, "embed", attribute.Int("sluice.texts", len(q.Texts)))
	defer end(&err)
	e, err := s.base.Embed(ctx, q.Texts, embed.Query)
	if err != nil {
		return err
	}
	for i := range q.faults {
		q.faults[i] = e.Fault(i)
	}
	q.Vectors = knowledge.Vectors(e)
	return nil
}

// decide asks the gate, if there is one, and returns the contexts that it found if a search with options r can use
// them.
func (q *prepared) decide(
	ctx context.Context, r *retrieve.Options, all []Looked, times *LookupTimes,
) (near *knowledge.Nearest, err error) {
	if q.gate == nil {
		return nil, nil
	}
	ctx, end := spans.Start(ctx, "gate")
	defer end(&err)
	defer timer(&times.Gate)()
	var decisions []gate.Decision
	if r == nil {
		decisions, err = q.snap.Decide(ctx, q.gate, q.Queries)
	} else {
		decisions, near, err = q.snap.DecideFor(ctx, q.gate, q.Queries, *r)
	}
	if err != nil {
		return nil, err
	}
	for i := range decisions {
		if q.faults[i] != nil {
			decisions[i].Close(q.faults[i])
		}
		all[i].Decision = &decisions[i]
	}
	return near, nil
}

// search fills in what is found for the queries whose gate is not closed.
func (s *Sluice) search(
	ctx context.Context, q *prepared, o retrieve.Options, near *knowledge.Nearest, all []Looked, times *LookupTimes,
) (err error) {
	ctx, end := spans.Start(ctx, "retrieve")
	defer end(&err)
	defer timer(&times.Retrieve)()
	var open []int
	for i := range all {
		if d := all[i].Decision; d == nil || d.Retrieve {
			open = append(open, i)
		}
	}
	if len(open) == 0 {
		return nil
	}
	queries := q.Queries
	if len(open) < len(all) {
		queries, near = some(queries, open), near.Of(open)
	}
	lists, err := q.snap.SearchFrom(ctx, queries, o, near)
	if err != nil {
		return err
	}
	passages := make([][]prompt.Passage, len(open))
	for n, i := range open {
		f := &all[i].Found
		f.Taken, f.Results = lists[n].Taken, lists[n].Results
		if f.Passages, err = answer.Passages(ctx, q.snap, f.Results, o); err != nil {
			return err
		}
		passages[n] = f.Passages
	}
	if o.Sentences {
		s.sentences(ctx, q.snap.Metric(), queries.Vectors, passages)
	}
	return nil
}

// some returns the queries with the numbers.
func some(q retrieve.Queries, numbers []int) (part retrieve.Queries) {
	for _, i := range numbers {
		if len(q.Texts) > 0 {
			part.Texts = append(part.Texts, q.Texts[i])
		}
		if q.Vectors.Rows > 0 {
			at := i * max(q.Vectors.Stride, q.Vectors.Dim)
			part.Vectors.Data = append(part.Vectors.Data, q.Vectors.Data[at:at+q.Vectors.Dim]...)
		}
	}
	if q.Vectors.Rows > 0 {
		part.Vectors.Rows, part.Vectors.Dim = len(numbers), q.Vectors.Dim
	}
	return part
}

// sentences fills in the sentences of passages, a list for each query.
func (s *Sluice) sentences(ctx context.Context, m kernels.Metric, queries engine.Vectors, all [][]prompt.Passage) {
	begun := time.Now()
	each, texts := make([]engine.Vectors, len(all)), make([][]string, len(all))
	for i, list := range all {
		at := i * max(queries.Stride, queries.Dim)
		each[i] = engine.Vectors{Data: queries.Data[at : at+queries.Dim], Rows: 1, Dim: queries.Dim}
		for _, p := range list {
			texts[i] = append(texts[i], p.Chunk.Text)
		}
	}
	found, err := s.base.Sentences(ctx, m, each, texts)
	if err != nil {
		s.log.Warn(fmt.Sprintf("the passages come without their nearest sentences: %v", err))
		return
	}
	for i := range all {
		for j := range all[i] {
			all[i][j].Sentence = found[i][j]
		}
	}
	s.log.Info("nearest sentences found", "queries", len(all), "ms", milliseconds(begun))
}

// timer returns a function that adds the milliseconds since the call of timer to stage.
func timer(stage *float64) (stop func()) {
	begun := time.Now()
	return func() { *stage += milliseconds(begun) }
}

func milliseconds(since time.Time) float64 { return float64(time.Since(since).Microseconds()) / 1000 }

// checkRetrieve returns an error for options that cannot be met.
func (s *Sluice) checkRetrieve(o retrieve.Options) error {
	if err := o.Check(); err != nil {
		return err
	}
	if o.Rerank > 0 && s.cfg.Reranker == "" && s.cfg.Scorer == nil {
		return fmt.Errorf("%w: the best %d are to be reranked, and no reranker is named", retrieve.ErrOption, o.Rerank)
	}
	return nil
}

// FoundPassage is a passage in the JSON of the command line and the server.
type FoundPassage struct {
	ID       string            `json:"id"`
	Score    float64           `json:"score"`
	Document string            `json:"document"`
	Title    string            `json:"title,omitempty"`
	Source   string            `json:"source"`
	Heading  string            `json:"heading,omitempty"`
	Anchor   string            `json:"anchor,omitempty"`
	Topic    string            `json:"topic,omitempty"`
	Start    int               `json:"start"` // bytes of the source
	End      int               `json:"end"`
	Text     string            `json:"text,omitempty"`
	Joined   []string          `json:"joined,omitempty"`   // ids of the chunks that the passage was joined from
	Copies   []prompt.Copy     `json:"copies,omitempty"`   // further places of the same text
	Sentence *excerpt.Sentence `json:"sentence,omitempty"` // nearest to the query; its bytes are the passage's
	Parts    *retrieve.Parts   `json:"parts,omitempty"`    // of the score, if they were asked for
}

// Lines returns the passages that were found with their whole texts, given the titles of documents by their ids.
func (f Found) Lines(titles map[string]string) []FoundPassage {
	all := make([]FoundPassage, len(f.Passages))
	for i, p := range f.Passages {
		c := p.Chunk
		all[i] = FoundPassage{ID: c.ID, Score: p.Score, Document: c.Document, Title: titles[c.Document],
			Source:  c.Source,
			Heading: c.Heading, Anchor: c.Anchor, Topic: c.Topic, Start: c.Start, End: c.End, Text: c.Text,
			Sentence: p.Sentence, Joined: p.Joined, Copies: p.Copies, Parts: f.Results[i].Parts}
	}
	return all
}
