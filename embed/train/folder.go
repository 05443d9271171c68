package train

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/buildinfo"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/filehash"
	"github.com/sluice-rag/sluice/internal/filelock"
	"github.com/sluice-rag/sluice/internal/regular"
)

// ErrFolder is wrapped by the error of a folder that a result cannot be written to.
var ErrFolder = errors.New("train: the folder of the result")

// vacant refuses a folder with a model in it.
func vacant(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, checkpointFile)); err == nil {
		return nil
	}
	for _, name := range []string{"model.yaml", "model.safetensors", "config.json"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return fmt.Errorf("%w: %s holds a model (%s); give another folder, or remove that model", ErrFolder, dir,
				name)
		}
	}
	return nil
}

// prepareFolder makes the folder of a result and takes its lock.
func prepareFolder(dir string) (*filelock.Lock, error) {
	if err := durable.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	lock, err := filelock.Take(filepath.Join(dir, checkpointFile))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	return lock, nil
}

// base is the model that a training begins from.
type base struct {
	digest   string // of its weights and its config.json
	settings *embed.ModelSettings
}

func readBase(dir string) (*base, error) {
	settings, err := embed.ReadSettings(dir)
	if err != nil {
		return nil, err
	}
	b := &base{settings: settings}
	for _, name := range []string{"config.json", "model.safetensors"} {
		sum, err := filehash.Sum(context.Background(), filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrModel, err)
		}
		b.digest += "sha256:" + sum + " "
	}
	b.digest = b.digest[:len(b.digest)-1]
	return b, nil
}

// limit returns where texts are cut: as wanted, as the model says, and never behind its last position.
func (b *base) limit(wanted, positions int) int {
	return min(cmp.Or(wanted, b.settings.MaxTokens, positions), positions)
}

// provenance says how a model came to be.
type provenance struct {
	Tool        string       `yaml:"tool"`
	From        string       `yaml:"from"`
	FromDigest  string       `yaml:"from_digest"`
	Data        string       `yaml:"data"`
	Validation  string       `yaml:"validation,omitempty"`
	Test        string       `yaml:"test,omitempty"`
	Examples    int          `yaml:"examples"`
	Settings    Settings     `yaml:"settings"`
	Epochs      int          `yaml:"epochs"`
	BestEpoch   int          `yaml:"best_epoch"`
	Scores      Scores       `yaml:"scores"`
	Before      *Scores      `yaml:"before,omitempty"`
	TestScores  *Scores      `yaml:"test_scores,omitempty"`
	Calibration *Calibration `yaml:"calibration,omitempty"`
}

// write puts the classifier into its folder.
func (c *classifier) write(r *Result) error {
	y := c.describe("classifier", r)
	y.Temperature, y.Threshold = r.Calibration.Temperature, r.Calibration.Threshold
	config := c.net.config()
	byID, byLabel := map[string]string{}, map[string]int{}
	for i, l := range c.labels {
		byID[strconv.Itoa(i)], byLabel[l] = l, i
	}
	config["id2label"], config["label2id"] = byID, byLabel
	config["problem_type"] = "single_label_classification"
	if c.objective.multi {
		config["problem_type"] = "multi_label_classification"
	}
	return writeModel(c.in.Out, c.in.From, c.net, config, y)
}

// describe returns the part of model.yaml that does not depend on the kind of model.
func (t *task[T]) describe(kind string, r *Result) *embed.ModelSettings {
	b := t.base.settings
	made := provenance{Tool: buildinfo.Tool(), From: b.Name, FromDigest: t.base.digest, Data: t.in.Training.Digest,
		Examples: t.examples, Settings: t.in.Settings, Epochs: r.Epochs, BestEpoch: r.BestEpoch, Scores: r.Validation,
		Before: r.Before, TestScores: r.Test, Calibration: r.Calibration}
	if t.in.Validation != nil {
		made.Validation = t.in.Validation.Digest
	}
	if t.in.Test != nil {
		made.Test = t.in.Test.Digest
	}
	return &embed.ModelSettings{Name: cmp.Or(t.in.Name, filepath.Base(filepath.Clean(r.Out))), Kind: kind,
		MaxTokens: t.in.Settings.MaxTokens, Source: "trained from " + b.Name, Licence: b.Licence,
		Languages: b.Languages, Training: made}
}

// config returns the config.json of a DistilBERT of the network's size that classifies.
func (n *network[T]) config() map[string]any {
	return map[string]any{"architectures": []string{"DistilBertForSequenceClassification"},
		"model_type": "distilbert", "activation": "gelu", "dim": n.Hidden, "hidden_dim": n.Intermediate,
		"n_layers": n.Layers, "n_heads": n.Heads, "vocab_size": n.Vocab,
		"max_position_embeddings": n.Positions, "pad_token_id": 0, "sinusoidal_pos_embds": false,
		"dropout": .1, "attention_dropout": .1, "seq_classif_dropout": .2, "initializer_range": .02,
		"tie_weights_": true, "torch_dtype": "float32"}
}

// classes holds the beginnings of the names of transformers' classes, by model_type: the families that are trained.
var classes = map[string]string{"bert": "Bert", "distilbert": "DistilBert", "roberta": "Roberta",
	"xlm-roberta": "XLMRoberta", "camembert": "Camembert", "mpnet": "MPNet"}

// writeLike writes a model with the config.json of the one that the training began from; head is what the name of its
// class ends in.
func (t *task[T]) writeLike(head string, y *embed.ModelSettings) error {
	raw, err := regular.ReadFile(filepath.Join(t.in.From, "config.json"), 1<<26)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrModel, err)
	}
	config := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&config); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrModel, t.in.From, err)
	}
	config["architectures"], config["torch_dtype"] = []string{classes[t.net.family] + head}, "float32"
	return writeModel(t.in.Out, t.in.From, t.net, config, y)
}

// writeModel writes a model's files, each whole or not at all; model.yaml, which makes them one, is the last.
func writeModel(dir, from string, n *network[float32], config map[string]any, y *embed.ModelSettings) error {
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return err
	}
	settings, err := yaml.Marshal(y)
	if err != nil {
		return err
	}
	tokenizer, err := regular.ReadFile(filepath.Join(from, "tokenizer.json"), 1<<32)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrModel, err)
	}
	plain := func(raw []byte) func(io.Writer) error {
		return func(w io.Writer) error { _, err := w.Write(raw); return err }
	}
	for _, f := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{"model.safetensors", func(w io.Writer) error { return writeTensors(w, n.tensors(), nil) }},
		{"config.json", plain(append(text, '\n'))},
		{"tokenizer.json", plain(tokenizer)},
		{"model.yaml", plain(settings)},
	} {
		if err := durable.Replace(filepath.Join(dir, f.name), f.write); err != nil {
			return fmt.Errorf("%w: %s: %w; the checkpoint is kept, and the same command goes on from there", ErrFolder,
				f.name, err)
		}
	}
	return nil
}
