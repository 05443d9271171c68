package sluice

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// Ingest puts files, folders and JSON lines into the store, as ingest.Run says: documents → chunks → vectors →
// commits. With IngestOptions.Entities, the model that Config.Classifier names finds the names if it labels parts of
// texts; rules do otherwise.
func (s *Sluice) Ingest(ctx context.Context, paths []string, o IngestOptions) (_ IngestResult, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return IngestResult{}, err
	}
	defer leave(&err)
	in := ingest.Input{Paths: paths, Options: o}
	if root, err := fetch.Root(); err == nil && o.CacheDir == "" {
		in.CacheDir = filepath.Join(root, "pdf")
	}
	if o.Entities {
		if in.Names, err = s.names(ctx); err != nil {
			return IngestResult{}, err
		}
	}
	r, err := ingest.Run(ctx, s.base, in)
	if err != nil {
		return r, err
	}
	e, err := s.base.Encoder(ctx)
	if err != nil {
		return r, err
	}
	return r, s.keepRuntime(ctx, e) // the store may be new
}

// Calibrate makes the calibration of the store and puts it in force, as calibrate.Run says: pseudo-queries →
// distributions → policy and cut-off → artifact.
func (s *Sluice) Calibrate(ctx context.Context, o CalibrateOptions) (_ *CalibrateResult, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	return calibrate.Run(ctx, s.base, s.calibrated(o))
}

// Calibration returns the calibration in force and how stale it is; it needs no model.
func (s *Sluice) Calibration(ctx context.Context) (*CalibrateResult, error) {
	return s.CalibrationOf(ctx, "")
}

// CalibrationOf is Calibration for the one of a name; one that does not exist is store.ErrNotFound.
func (s *Sluice) CalibrationOf(ctx context.Context, name string) (_ *CalibrateResult, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	return calibrate.Show(ctx, s.base, name)
}

// Calibrations lists the calibrations of the store. One that cannot be read is logged.
func (s *Sluice) Calibrations(ctx context.Context) (_ []*CalibrateResult, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	return calibrate.List(ctx, s.base, func(name string, err error) {
		s.log.Warn(fmt.Sprintf("calibration %s: %v", name, err))
	})
}

// UseCalibration puts the calibration of a name in force.
func (s *Sluice) UseCalibration(ctx context.Context, name string) (_ *CalibrateResult, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	return calibrate.Use(ctx, s.base, name)
}

// RemoveCalibration removes the calibration of a name; the one in force is ErrOption.
func (s *Sluice) RemoveCalibration(ctx context.Context, name string) (err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return err
	}
	defer leave(&err)
	return calibrate.Remove(ctx, s.base, name)
}

// Repolicy derives another policy and threshold from a calibration without computing the distributions again, as
// calibrate.Repolicy says: of CalibrateOptions it uses Name, Use, Policy, Threshold and Plot.
func (s *Sluice) Repolicy(ctx context.Context, o CalibrateOptions) (_ *CalibrateResult, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	return calibrate.Repolicy(ctx, s.base, o)
}

// Gate decides for each query whether the knowledge base can help with it. A store without a calibration
// is ErrNotCalibrated, one whose calibration is too stale gate.ErrStale.
func (s *Sluice) Gate(ctx context.Context, queries []string) (_ []gate.Decision, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	found, err := s.decide(ctx, queries)
	if err == nil {
		for i := range found {
			s.record(ctx, queries[i], &found[i], nil)
		}
	}
	return found, err
}

// Opens is Gate where no score is asked for: each query is searched until one context opens the gate.
func (s *Sluice) Opens(ctx context.Context, queries []string) (verdicts []gate.Verdict, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	err = s.gated(ctx, queries,
		func(snap *knowledge.Snapshot, g *gate.Gate, q retrieve.Queries, e *embed.Embeddings) error {
			verdicts, err = snap.Any(ctx, g, q)
			for i := range verdicts {
				if why := e.Fault(i); why != nil {
					verdicts[i].Close(why)
				}
			}
			return err
		})
	return verdicts, err
}

// Found is what Search has found for one query.
type Found struct {
	Taken    retrieve.Taken    // how the results came about
	Results  []retrieve.Result // better first
	Passages []prompt.Passage  // the texts of the results, in their order
}

// Retrieve returns the best contexts of each query, better first. It does not ask the gate. A query may be any text; of
// one that is longer than the encoder reads, vectors are of its beginning and words of all of it. Bad options are
// retrieve.ErrFilter or retrieve.ErrOption.
func (s *Sluice) Retrieve(ctx context.Context, queries []string, o RetrieveOptions) (_ [][]retrieve.Result, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	o.Sentences = false
	found, _, snap, err := s.retrieve(ctx, queries, o)
	if err != nil {
		return nil, err
	}
	snap.Release()
	lists := make([][]retrieve.Result, len(found))
	for i, f := range found {
		lists[i] = f.Results
	}
	return lists, nil
}

// Passages is Search without the results and how they came about.
func (s *Sluice) Passages(ctx context.Context, queries []string, o RetrieveOptions) (_ [][]prompt.Passage, err error) {
	found, err := s.Search(ctx, queries, o)
	if err != nil {
		return nil, err
	}
	all := make([][]prompt.Passage, len(found))
	for i, f := range found {
		all[i] = f.Passages
	}
	return all, nil
}

// Search is Retrieve with the texts that the scores are of, also when they are deleted or replaced meanwhile, with what
// RetrieveOptions.Expand joins to them, and with their sentences that are nearest to the query if
// RetrieveOptions.Sentences asks for them. That these cannot be found is logged, and no error.
func (s *Sluice) Search(ctx context.Context, queries []string, o RetrieveOptions) (_ []Found, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	found, vectors, snap, err := s.retrieve(ctx, queries, o)
	if err != nil {
		return nil, err
	}
	defer snap.Release()
	all := make([][]prompt.Passage, len(found))
	for i := range found {
		if all[i], err = answer.Passages(ctx, snap, found[i].Results, o); err != nil {
			return nil, err
		}
		found[i].Passages = all[i]
	}
	if o.Sentences {
		s.sentences(ctx, snap.Metric(), vectors, all)
	}
	return found, nil
}

// sentences fills in the sentences of passages, a list for each query.
func (s *Sluice) sentences(ctx context.Context, m kernels.Metric, queries engine.Vectors, all [][]prompt.Passage) {
	begun := time.Now()
	each, texts := make([]engine.Vectors, len(all)), make([][]string, len(all))
	for i, list := range all {
		each[i] = engine.Vectors{Data: queries.Data[i*queries.Dim : (i+1)*queries.Dim], Rows: 1, Dim: queries.Dim}
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
	s.log.Info("nearest sentences found", "queries", len(all), "ms", float64(time.Since(begun).Microseconds())/1000)
}

// retrieve searches a snapshot, which needs a Release unless there is an error, and returns the queries' vectors, too,
// where the mode or the sentences need them.
func (s *Sluice) retrieve(
	ctx context.Context, queries []string, o RetrieveOptions,
) (found []Found, vectors engine.Vectors, _ *knowledge.Snapshot, err error) {
	if err := s.checkRetrieve(o); err != nil {
		return nil, vectors, nil, err
	}
	snap, _, err := s.base.Searchable(ctx)
	if err != nil {
		return nil, vectors, nil, err
	}
	defer func() {
		if err != nil {
			snap.Release()
		}
	}()
	if o.Vectors() || o.Sentences {
		e, err := s.base.Embed(ctx, queries, embed.Query)
		if err != nil {
			return nil, vectors, nil, err
		}
		vectors = knowledge.Vectors(e)
	}
	lists, err := snap.Search(ctx, retrieve.Queries{Texts: queries, Vectors: vectors}, o)
	for _, l := range lists {
		found = append(found, Found{Taken: l.Taken, Results: l.Results})
	}
	return found, vectors, snap, err
}

// Ask answers a question by the graph that AskOptions.Flow names, as answer.Run says; the shortest is
// gate → contexts or own knowledge → answer.
func (s *Sluice) Ask(ctx context.Context, question string, o AskOptions) (_ *Answer, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	s.asking.Add(1)
	defer s.asking.Add(-1)
	in := s.asked(o)
	in.Question = question
	a, err := answer.Run(ctx, s.base, in)
	if err == nil {
		s.recordAnswer(ctx, question, a)
	}
	return a, err
}

// AskEach answers questions, several at a time (AskOptions.Parallel), and hands the answers to emit in the order of the
// questions, as answer.Each says.
func (s *Sluice) AskEach(
	ctx context.Context, questions <-chan Question, o AskOptions, emit func(Question, *Answer) error,
) (err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return err
	}
	defer leave(&err)
	return answer.Each(ctx, s.base, s.asked(o), questions, func(q Question, a *Answer) error {
		s.recordAnswer(ctx, q.Text, a)
		return emit(q, a)
	})
}

// Embed returns the vectors of texts, in their order. It needs no store. Cut and repaired texts are
// counted in the result and logged.
func (s *Sluice) Embed(ctx context.Context, texts []string, role embed.Role) (_ *embed.Embeddings, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	return s.base.Embed(ctx, texts, role)
}

// EncoderInfo loads the encoder and describes it.
func (s *Sluice) EncoderInfo(ctx context.Context) (_ embed.Info, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return embed.Info{}, err
	}
	defer leave(&err)
	enc, err := s.encoder.get(ctx)
	if err != nil {
		return embed.Info{}, err
	}
	return enc.Info(), nil
}

// TextOf returns the text of which tokens of the encoder's vocabulary are. Tokens of no text are embed.ErrTokens, as
// are returned for an encoder that cannot tell.
func (s *Sluice) TextOf(ctx context.Context, tokens []int32) (text string, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave(&err)
	enc, err := s.encoder.get(ctx)
	if err != nil {
		return "", err
	}
	reader, ok := enc.(embed.TokenReader)
	if !ok {
		return "", fmt.Errorf("%w: the encoder %s takes texts only", embed.ErrTokens, enc.Info().Name)
	}
	return reader.TextOf(tokens)
}

// CountTokens counts the tokens of a document as the encoder reads it, without cutting it.
func (s *Sluice) CountTokens(ctx context.Context, text string) (n int, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave(&err)
	enc, err := s.encoder.get(ctx)
	if err != nil {
		return 0, err
	}
	return enc.CountTokens(text)
}

// LanguageModel loads the language model; Close frees it.
func (s *Sluice) LanguageModel(ctx context.Context) (_ llm.Generator, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	return s.model.get(ctx)
}
