package sluice

import (
	"cmp"
	"context"
	"fmt"
	"image"
	"sync"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/internal/scorecards"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/remote"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/exam"
	"github.com/sluice-rag/sluice/rag/ocr"
)

// Embed returns the vectors of texts, in their order. It needs no store. Truncated and repaired texts are counted in
// the result and logged.
func (s *Sluice) Embed(ctx context.Context, texts []string, role embed.Role) (*embed.Embeddings, error) {
	return during(ctx, s, func(ctx context.Context) (*embed.Embeddings, error) {
		return s.base.Embed(ctx, texts, role)
	})
}

// Models gives access to the models of Config, each loaded when a method first needs it. They need no store.
type Models struct{ s *Sluice }

// Models returns the models of Config.
func (s *Sluice) Models() Models { return Models{s} }

// ModelNames holds the models' names as given in Config.
type ModelNames struct {
	Model, Encoder, Classifier, Reranker string // "": no model, or for Encoder the one that the store records
}

// Names returns the names of the models, without loading any.
func (m Models) Names() ModelNames {
	c := m.s.cfg
	n := ModelNames{Model: c.Model, Encoder: c.Encoder, Classifier: c.Classifier, Reranker: c.Reranker}
	if c.Generator != nil {
		n.Model = c.Generator.Info().Name
	}
	if c.Embedder != nil {
		n.Encoder = c.Embedder.Info().Name
	}
	if c.Scorer != nil {
		n.Reranker = c.Scorer.Info().Name
	}
	return n
}

// Encoder loads the encoder and describes it.
func (m Models) Encoder(ctx context.Context) (embed.Info, error) {
	return during(ctx, m.s, func(ctx context.Context) (embed.Info, error) {
		enc, err := m.s.encoder.get(ctx)
		if err != nil {
			return embed.Info{}, err
		}
		return enc.Info(), nil
	})
}

// TextOf returns the text of tokens of the encoder's vocabulary. The error is embed.ErrTokens if the tokens are not
// text or the encoder takes only texts.
func (m Models) TextOf(ctx context.Context, tokens []int32) (string, error) {
	return during(ctx, m.s, func(ctx context.Context) (string, error) {
		enc, err := m.s.encoder.get(ctx)
		if err != nil {
			return "", err
		}
		reader, ok := enc.(embed.TokenReader)
		if !ok {
			return "", fmt.Errorf("%w: the encoder %s takes texts only", embed.ErrTokens, enc.Info().Name)
		}
		return reader.TextOf(tokens)
	})
}

// CountTokens counts the tokens of a document as the encoder reads it, without truncation.
func (m Models) CountTokens(ctx context.Context, text string) (int, error) {
	return during(ctx, m.s, func(ctx context.Context) (int, error) {
		enc, err := m.s.encoder.get(ctx)
		if err != nil {
			return 0, err
		}
		return enc.CountTokens(text)
	})
}

// Classify returns the probabilities of each text's labels, by the model that Config.Classifier names. Truncated and
// repaired texts are counted in the result. A model that labels parts of texts is ErrOption.
func (m Models) Classify(ctx context.Context, texts []string) (*embed.Classes, error) {
	return during(ctx, m.s, func(ctx context.Context) (*embed.Classes, error) {
		l, err := m.s.classifier.get(ctx)
		switch {
		case err != nil:
			return nil, err
		case l.router != nil:
			return nil, fmt.Errorf("%w: %s is a router: use Route", ErrOption, m.s.cfg.Classifier)
		case l.texts == nil:
			return nil, fmt.Errorf("%w: %s labels parts of texts, not whole ones: use Spans", ErrOption,
				m.s.cfg.Classifier)
		}
		return l.texts.Classify(ctx, texts)
	})
}

// Spans returns the labelled parts of each text, such as names, by the model that Config.Classifier names. Truncated
// and repaired texts are counted in the result. A model that labels whole texts is ErrOption.
func (m Models) Spans(ctx context.Context, texts []string) (*embed.Spans, error) {
	return during(ctx, m.s, func(ctx context.Context) (*embed.Spans, error) {
		l, err := m.s.classifier.get(ctx)
		if err != nil {
			return nil, err
		}
		if l.tokens == nil {
			return nil, fmt.Errorf("%w: %s labels whole texts, not parts of them: use Classify", ErrOption,
				m.s.cfg.Classifier)
		}
		return l.tokens.Spans(ctx, texts)
	})
}

// LabelsParts loads the model that Config.Classifier names and reports whether it labels parts of texts, as Spans
// needs.
func (m Models) LabelsParts(ctx context.Context) (bool, error) {
	return during(ctx, m.s, func(ctx context.Context) (bool, error) {
		l, err := m.s.classifier.get(ctx)
		return l.tokens != nil, err
	})
}

// Rerank scores how well documents answer a query, by the cross-encoder that Config.Reranker names; Scores.Ranked sorts
// them.
func (m Models) Rerank(ctx context.Context, query string, documents []string) (*embed.Scores, error) {
	return during(ctx, m.s, func(ctx context.Context) (*embed.Scores, error) {
		r, err := m.s.reranker.get(ctx)
		if err != nil {
			return nil, err
		}
		return r.Score(ctx, query, documents)
	})
}

// Reader loads the reader that Config.Reader names; Close frees it.
func (m Models) Reader(ctx context.Context) (embed.Extractor, error) {
	return during(ctx, m.s, m.s.reader.get)
}

// Language loads the language model; Close frees it.
func (m Models) Language(ctx context.Context) (llm.Generator, error) {
	return during(ctx, m.s, m.s.model.get)
}

// Sizes returns how many requests the language model decodes together and the context that they share, as set or as
// chosen for this machine, without opening the model. ok is false for a model on a server or of Config.Generator.
func (m Models) Sizes() (sizes llm.Sizes, ok bool, err error) {
	if _, _, remotely := remote.SplitName(m.s.cfg.Model); remotely || m.s.cfg.Generator != nil || !llm.Available {
		return sizes, false, nil
	}
	path, err := models.LocateGGUF(m.s.cfg.Model)
	if err != nil {
		return sizes, false, err
	}
	sizes, err = m.s.sizes(path)
	return sizes, err == nil, err
}

// cards caches the scorecards by the model's name; only Examine changes a card.
type cards struct {
	mu    sync.Mutex
	known map[string]*exam.Card
}

// Scorecard returns the result of a language model's examination. The model is a name of the built-in list, a GGUF
// file, or the URL of its server; "" is Config.Model. The result is nil if the model was not examined or is a
// Config.Generator. A card that was edited, or is of another version of the examination, is exam.ErrCard.
func (m Models) Scorecard(ctx context.Context, model string) (*exam.Card, error) {
	if model == "" && m.s.cfg.Generator != nil {
		return nil, nil
	}
	return scorecards.Find(ctx, cmp.Or(model, m.s.cfg.Model))
}

// card returns the scorecard of a model for an answer, from the cache after the first call. A card that cannot be used
// is logged and counts as missing.
func (s *Sluice) card(ctx context.Context, model string) (*exam.Card, error) {
	s.cards.mu.Lock()
	defer s.cards.mu.Unlock()
	if c, ok := s.cards.known[model]; ok {
		return c, nil
	}
	c, err := s.Models().Scorecard(ctx, model)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		s.log.Warn(fmt.Sprintf("the language model counts as not examined: %v", err))
	}
	s.cards.known[model] = c
	return c, nil
}

// ExamineOptions bounds and watches an examination.
type ExamineOptions struct {
	Within   time.Duration // bound on the duration; 0: no bound
	Progress func(done, total int)
}

// Examine tests what a language model can do and keeps its scorecard in the cache, as exam.Run describes; "" is
// Config.Model. Quotes are made with the store's encoder, or the default one. An examination that was interrupted goes
// on where it was. *exam.LongError is returned after the first calls of the model; the card that is kept then has the
// estimate and no results.
func (m Models) Examine(ctx context.Context, model string, o ExamineOptions) (*exam.Card, error) {
	return during(ctx, m.s, func(ctx context.Context) (*exam.Card, error) { return m.s.examine(ctx, model, o) })
}

func (s *Sluice) examine(ctx context.Context, model string, o ExamineOptions) (_ *exam.Card, err error) {
	if s.cfg.Generator != nil {
		return nil, fmt.Errorf("%w: a Config.Generator has no file by which its scorecard could be kept", ErrOption)
	}
	model = cmp.Or(model, s.cfg.Model)
	get := s.model.get
	if model != s.cfg.Model {
		get = func(ctx context.Context) (llm.Generator, error) { return s.others.get(ctx, model) }
	}
	in := exam.Options{Engine: s.engine, Within: o.Within, Progress: o.Progress}
	if in.Model, err = get(ctx); err != nil {
		return nil, err
	}
	if in.Digest, err = scorecards.Digest(ctx, model); err != nil {
		return nil, err
	}
	if in.Embedder, err = s.base.Encoder(ctx); err != nil {
		return nil, err
	}
	card, err := scorecards.Run(ctx, in)
	s.cards.mu.Lock()
	clear(s.cards.known)
	s.cards.mu.Unlock()
	return card, err
}

// ocrModel names the models that read text in pictures.
func (s *Sluice) ocrModel() string { return cmp.Or(s.cfg.OCR, "ocr") }

func (s *Sluice) openOCR(context.Context) (*ocr.Reader, func() error, error) {
	dir, err := models.Locate(s.ocrModel())
	if err != nil {
		return nil, nil, err
	}
	s.log.Debug("loading the models that read pictures", "dir", dir)
	r, err := ocr.Open(dir, ocr.Options{Library: s.cfg.ONNXRuntime, Cores: s.budget})
	if err != nil {
		return nil, nil, err
	}
	return r, func() error { r.Close(); return nil }, nil
}

// pictureReader loads the models when the first picture comes.
type pictureReader struct{ s *Sluice }

func (p pictureReader) ReadPicture(ctx context.Context, picture image.Image) ([]corpus.PictureLine, error) {
	r, err := p.s.ocr.get(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", corpus.ErrPictures, err)
	}
	return r.ReadPicture(ctx, picture)
}

func (p pictureReader) Name() string {
	if _, err := models.Locate(p.s.ocrModel()); err != nil {
		return ""
	}
	return p.s.ocrModel()
}

// Stats holds what the models have computed since they were opened. A field is nil while its model is not open, and for
// models that do not count, such as those on a server.
type Stats struct {
	Encoder, Reranker, Classifier, Reader *embed.Stats
	Model                                 *llm.Stats
}

// Stats returns the counts of the models. It does not open models and never waits.
func (s *Sluice) Stats() (all Stats) {
	all.Encoder, all.Reranker, all.Classifier = counted(s.encoder), counted(s.reranker), counted(s.classifier)
	all.Reader = counted(s.reader)
	if m, ok := s.model.peek(); ok {
		if m, ok := m.(interface{ Stats() llm.Stats }); ok {
			all.Model = new(m.Stats())
		}
	}
	return all
}

func counted[T any](l *lazy[T]) *embed.Stats {
	if v, ok := l.peek(); ok {
		if m, ok := any(v).(interface{ Stats() embed.Stats }); ok {
			return new(m.Stats())
		}
	}
	return nil
}
