package experiment

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/embed/train"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/rag/route"
)

// distilBERT is the classifier that is trained from the cell's encoder and read by the ONNX Runtime, as by
// `sluice train classifier` and `sluice classify`.
const distilBERT = "distilbert"

// trainDistilBERT trains a DistilBERT on one draw and tests it.
func (r *run) trainDistilBERT(ctx context.Context, c Cell, l *labelled) (it Item, err error) {
	dir, err := os.MkdirTemp("", "sluice-distilbert")
	if err != nil {
		return it, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cfg := r.Config
	cfg.Store = filepath.Join(r.work, "none")
	cfg.Classifier = filepath.Join(dir, "model")
	trained, err := r.distilBERT(ctx, cfg, cmp.Or(c.Encoder.Name, cfg.Encoder, sluice.DefaultEncoder), l)
	if err != nil {
		return it, err
	}
	s, err := sluice.Open(ctx, cfg)
	if err != nil {
		return it, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return scored(l, trained.Seconds, func(texts []string) ([]string, error) {
		classes, err := s.Classify(ctx, texts)
		if err != nil {
			return nil, err
		}
		labels := make([]string, len(texts))
		for i := range labels {
			labels[i] = classes.Label(i)
		}
		return labels, nil
	})
}

// distilBERT trains a DistilBERT from an encoder into the folder cfg.Classifier, on the CPU.
func (r *run) distilBERT(ctx context.Context, cfg sluice.Config, encoder string, l *labelled) (
	_ *train.Result, err error,
) {
	from, err := models.Locate(encoder)
	if err != nil {
		return nil, err
	}
	tokenizer, err := embed.OpenTokenizer(from)
	if err != nil {
		return nil, err
	}
	defer tokenizer.Close()
	e, err := engine.New(engine.Options{Cores: cores.New(cfg.Threads), ISA: cfg.ISA, Device: engine.DeviceCPU})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	set := train.ClassifierDefaults()
	set.Seed = max(r.File.Seed, 1)
	return train.Classifier(ctx, train.ClassifierInput{Training: trainingTexts(l.train), From: from,
		Out: cfg.Classifier, Name: distilBERT, Settings: set, Tokenizer: tokenizer, Engine: e})
}

// trainingTexts are the examples of a router as those of a trained classifier.
func trainingTexts(list []route.Example) *train.Examples {
	e := &train.Examples{Source: "training texts"}
	for _, x := range list {
		e.List = append(e.List, train.Example{Text: x.Text, Labels: x.Labels})
	}
	return e
}
