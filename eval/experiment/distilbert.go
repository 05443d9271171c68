package experiment

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/embed/train"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/filehash"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/rag/route"
)

// distilBERT is the classifier that is trained from the cell's encoder and read by the ONNX Runtime, as by
// `sluice train classifier` and `sluice classify`.
const distilBERT = "distilbert"

// trainDistilBERT trains a DistilBERT on one draw and tests it.
func (r *run) trainDistilBERT(ctx context.Context, c Cell, l *labelled) (it Item, err error) {
	cfg := r.Config
	cfg.Store = filepath.Join(r.work, "none")
	cfg.Classifier = r.trainingFolder(c, l)
	seconds, err := r.distilBERT(ctx, c, l)
	if err != nil {
		return it, err
	}
	weights, err := filehash.Sum(ctx, filepath.Join(cfg.Classifier, "model.safetensors"))
	if err != nil {
		return it, err
	}
	s, err := sluice.Open(ctx, cfg)
	if err != nil {
		return it, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	it, err = scored(l, seconds, func(texts []string) ([]string, error) {
		classes, err := s.Models().Classify(ctx, texts)
		if err != nil {
			return nil, err
		}
		labels := make([]string, len(texts))
		for i := range labels {
			labels[i] = classes.Label(i)
		}
		return labels, nil
	})
	it.Model = "sha256:" + weights
	return it, err
}

// trainingFolder is where a draw of a cell is trained: named after what the training depends on, so that one that was
// interrupted goes on there. It is there until the draw is in the journal.
func (r *run) trainingFolder(c Cell, l *labelled) string {
	return filepath.Join(r.work, "distilbert-"+digest([]any{c, l.train, r.seed()}))
}

// seed of the trainings.
func (r *run) seed() uint64 { return max(r.File.Seed, 1) }

// finishedTraining is in the folder of a training that is at its end.
const finishedTraining = "finished.json"

// distilBERT trains a DistilBERT from a cell's encoder in the folder of the training, on the CPU, unless that is done.
// It returns how long that took, all runs together.
func (r *run) distilBERT(ctx context.Context, c Cell, l *labelled) (seconds float64, err error) {
	dir := r.trainingFolder(c, l)
	if text, err := os.ReadFile(filepath.Join(dir, finishedTraining)); err == nil {
		return seconds, json.Unmarshal(text, &seconds)
	}
	// killed just before the time was recorded
	if _, err := os.Stat(filepath.Join(dir, "model.yaml")); err == nil {
		if err := os.RemoveAll(dir); err != nil {
			return 0, fmt.Errorf("experiment: %w", err)
		}
	}
	encoder := cmp.Or(c.Encoder.Name, r.Config.Encoder, sluice.DefaultEncoder)
	from, err := models.Locate(encoder)
	if err != nil {
		return 0, err
	}
	tokenizer, err := embed.OpenTokenizer(from)
	if err != nil {
		return 0, err
	}
	defer tokenizer.Close()
	e, err := engine.New(engine.Options{Cores: cores.New(r.Config.Threads), ISA: r.Config.ISA,
		Device: engine.DeviceCPU})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	in := train.ClassifierInput{Training: trainingTexts(l.train), From: from, Out: dir, Name: distilBERT,
		Settings: train.ClassifierDefaults(), Tokenizer: tokenizer, Engine: e}
	in.Settings.Seed = r.seed()
	if r.Training != nil {
		in.Hooks.Step = func(done, total int) { r.Training(c.Part, done, total) }
	}
	trained, err := train.Classifier(ctx, in)
	if err != nil {
		return 0, err
	}
	return trained.Seconds, durable.Replace(filepath.Join(dir, finishedTraining), func(w io.Writer) error {
		return json.NewEncoder(w).Encode(trained.Seconds)
	})
}

// trainingTexts converts the examples of a router to examples for a trained classifier.
func trainingTexts(list []route.Example) *train.Examples {
	e := &train.Examples{Source: "training texts"}
	for _, x := range list {
		e.List = append(e.List, train.Example{Text: x.Text, Labels: x.Labels})
	}
	return e
}
