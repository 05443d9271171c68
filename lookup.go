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
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// LookupOptions are those of Lookup.
type LookupOptions struct {
	Gate     GateMode // "" is GateAuto, where a store without a calibration has no gate; GateClosed asks nothing
	Retrieve *RetrieveOptions
	// Vectors of the queries by the store's encoder, a row each; without any the queries are embedded. The gate and the
	// searches by words still go by the texts.
	Vectors engine.Vectors
}

// Looked is what Lookup knows of a query.
type Looked struct {
	Decision *gate.Decision // nil: the gate was not asked, or there is none
	Found                   // empty where the gate is closed, or nothing was asked for
}

// LookupTimes are how long the steps of a Lookup took, for all queries together.
type LookupTimes struct {
	Embed    float64 `json:"embed"`
	Gate     float64 `json:"gate"` // with the search for the passages, where one search gives both
	Retrieve float64 `json:"retrieve"`
}

// Lookup is Gate and Search in one: queries are embedded once, and those are searched for whose gate is open.
func (s *Sluice) Lookup(
	ctx context.Context, queries []string, o LookupOptions,
) (all []Looked, times LookupTimes, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, times, err
	}
	defer leave(&err)
	if o.Gate == "" {
		o.Gate = GateAuto
	}
	n := max(len(queries), o.Vectors.Rows)
	if n != len(queries) && len(queries) > 0 || n != o.Vectors.Rows && o.Vectors.Rows > 0 {
		return nil, times, fmt.Errorf("%w: %d queries with %d vectors: as many as these, or none", kernels.ErrShape,
			len(queries), o.Vectors.Rows)
	}
	all = make([]Looked, n)
	if n == 0 || o.Gate == GateClosed {
		return all, times, nil
	}
	snap, enc, err := s.base.Searchable(ctx)
	if err != nil {
		return nil, times, err
	}
	defer snap.Release()
	var g *gate.Gate
	if o.Gate == GateAuto {
		g, err = snap.Gate(ctx, enc.Info().Encoder)
		if err != nil && !errors.Is(err, ErrNotCalibrated) {
			return nil, times, err
		}
	}
	if g != nil && g.ScoredBy().Words() && len(queries) == 0 {
		return nil, times,
			fmt.Errorf("%w: the gate goes by words, too: give the texts of the queries beside their vectors",
				ErrOption)
	}
	q := retrieve.Queries{Texts: queries, Vectors: o.Vectors}
	faults := make([]error, n)
	if q.Vectors.Rows == 0 {
		began := time.Now()
		if q.Vectors, err = s.lookupEmbed(ctx, queries, faults); err != nil {
			return nil, times, err
		}
		times.Embed = milliseconds(began)
	} else if err := checkVectors(snap, q.Vectors); err != nil {
		return nil, times, err
	}
	var near *knowledge.Nearest
	if g != nil {
		began := time.Now()
		decisions, found, err := s.lookupGate(ctx, snap, g, q, o.Retrieve)
		if near = found; err != nil {
			return nil, times, err
		}
		for i := range decisions {
			if faults[i] != nil {
				decisions[i].Close(faults[i])
			}
			all[i].Decision = &decisions[i]
		}
		times.Gate = milliseconds(began)
	}
	if o.Retrieve != nil {
		began := time.Now()
		err = s.lookupSearch(ctx, snap, q, *o.Retrieve, near, all)
		times.Retrieve = milliseconds(began)
	}
	if err == nil {
		for i, query := range queries {
			s.record(ctx, query, all[i].Decision, all[i].Results)
		}
	}
	return all, times, err
}

func milliseconds(since time.Time) float64 { return float64(time.Since(since).Microseconds()) / 1000 }

// checkVectors refuses vectors that a store's cannot be compared with.
func checkVectors(snap *knowledge.Snapshot, v engine.Vectors) error {
	if v.Dim != snap.View.Vectors.Dim {
		return fmt.Errorf("%w: the vectors have %d dimensions, those of the store have %d", kernels.ErrShape, v.Dim,
			snap.View.Vectors.Dim)
	}
	return nil
}

// lookupEmbed embeds queries, and says what is wrong with them.
func (s *Sluice) lookupEmbed(ctx context.Context, queries []string, faults []error) (_ engine.Vectors, err error) {
	ctx, end := spans.Start(ctx, "embed", attribute.Int("sluice.texts", len(queries)))
	defer end(&err)
	e, err := s.base.Embed(ctx, queries, embed.Query)
	if err != nil {
		return engine.Vectors{}, err
	}
	for i := range faults {
		faults[i] = e.Fault(i)
	}
	return knowledge.Vectors(e), nil
}

// lookupGate asks the gate, and finds what the search for passages can go by, if there is to be one.
func (s *Sluice) lookupGate(
	ctx context.Context, snap *knowledge.Snapshot, g *gate.Gate, q retrieve.Queries, o *RetrieveOptions,
) (all []gate.Decision, _ *knowledge.Nearest, err error) {
	ctx, end := spans.Start(ctx, "gate")
	defer end(&err)
	if o == nil {
		all, err = snap.Decide(ctx, g, q)
		return all, nil, err
	}
	return snap.DecideFor(ctx, g, q, *o)
}

// lookupSearch fills in what is found for the queries whose gate is not closed.
func (s *Sluice) lookupSearch(
	ctx context.Context, snap *knowledge.Snapshot, q retrieve.Queries, o RetrieveOptions, near *knowledge.Nearest,
	all []Looked,
) (err error) {
	ctx, end := spans.Start(ctx, "retrieve")
	defer end(&err)
	if err := s.checkRetrieve(o); err != nil {
		return err
	}
	var open []int
	for i := range all {
		if d := all[i].Decision; d == nil || d.Retrieve {
			open = append(open, i)
		}
	}
	if len(open) == 0 {
		return nil
	}
	if len(open) < len(all) {
		q, near = some(q, open), near.Of(open)
	}
	lists, err := snap.SearchFrom(ctx, q, o, near)
	if err != nil {
		return err
	}
	for n, i := range open {
		f := &all[i].Found
		f.Taken, f.Results = lists[n].Taken, lists[n].Results
		if f.Passages, err = answer.Passages(ctx, snap, f.Results, o); err != nil {
			return err
		}
	}
	return nil
}

// some are those of queries with the numbers.
func some(q retrieve.Queries, numbers []int) (part retrieve.Queries) {
	part.Vectors = engine.Vectors{Rows: len(numbers), Dim: q.Vectors.Dim}
	for _, i := range numbers {
		if len(q.Texts) > 0 {
			part.Texts = append(part.Texts, q.Texts[i])
		}
		at := i * max(q.Vectors.Stride, q.Vectors.Dim)
		part.Vectors.Data = append(part.Vectors.Data, q.Vectors.Data[at:at+q.Vectors.Dim]...)
	}
	return part
}

// checkRetrieve refuses options that cannot be met.
func (s *Sluice) checkRetrieve(o RetrieveOptions) error {
	if err := o.Check(); err != nil {
		return err
	}
	if o.Rerank > 0 && s.cfg.Reranker == "" && s.cfg.Scorer == nil {
		return fmt.Errorf("%w: the best %d are to be reranked, and no reranker is named", retrieve.ErrOption, o.Rerank)
	}
	return nil
}

// FoundPassage is a passage as JSON has it, for the command line and the server.
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
	Sentence *excerpt.Sentence `json:"sentence,omitempty"` // nearest to the query; its bytes are the passage's
	Parts    *retrieve.Parts   `json:"parts,omitempty"`    // of the score, if they were asked for
}

// Lines are the passages that were found, with their whole texts; titles are those of their documents.
func (f Found) Lines(titles map[string]string) []FoundPassage {
	all := make([]FoundPassage, len(f.Passages))
	for i, p := range f.Passages {
		c := p.Chunk
		all[i] = FoundPassage{ID: c.ID, Score: p.Score, Document: c.Document, Title: titles[c.Document],
			Source:  c.Source,
			Heading: c.Heading, Anchor: c.Anchor, Topic: c.Topic, Start: c.Start, End: c.End, Text: c.Text,
			Sentence: p.Sentence, Joined: p.Joined, Parts: f.Results[i].Parts}
	}
	return all
}
