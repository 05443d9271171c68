package train

import (
	"errors"
	"fmt"
	"time"
)

// ErrSetting is wrapped by the errors of settings out of range.
var ErrSetting = errors.New("train: a setting is out of range")

// AllLayers is the value of Settings.Layers that trains every transformer layer.
const AllLayers = -1

// Settings are what, beside data and the model that it begins from, decides the bits of a training.
type Settings struct {
	Layers       int     `json:"layers" yaml:"layers"` // trained, from the last; 0: only the head; AllLayers
	Epochs       int     `json:"epochs" yaml:"epochs"`
	Batch        int     `json:"batch" yaml:"batch"`                 // texts, or pairs, of one step
	Rate         float64 `json:"rate" yaml:"rate"`                   // of AdamW, for the layers
	HeadRate     float64 `json:"head_rate" yaml:"head_rate"`         // for the classification head
	WarmUp       float64 `json:"warm_up" yaml:"warm_up"`             // share of the steps in which the rates grow
	WeightDecay  float64 `json:"weight_decay" yaml:"weight_decay"`   // of matrices
	Clip         float64 `json:"clip" yaml:"clip"`                   // longest gradient; 0: any
	Dropout      float64 `json:"dropout" yaml:"dropout"`             // share of activations dropped
	Patience     int     `json:"patience" yaml:"patience"`           // epochs without gain; 0: all are run
	ClassWeights bool    `json:"class_weights" yaml:"class_weights"` // rare labels count as much as frequent ones
	Seed         uint64  `json:"seed" yaml:"seed"`
	// where texts are cut; 0: as the model says
	MaxTokens       int     `json:"max_tokens" yaml:"max_tokens"`
	ValidationShare float64 `json:"validation_share" yaml:"validation_share"` // where there is no validation file
	Scale           float64 `json:"scale,omitempty" yaml:"scale,omitempty"`   // of the ranking loss; encoders only
	// Tokens of the context that two windows in a row share; readers only.
	Stride int `json:"stride,omitempty" yaml:"stride,omitempty"`
}

// ClassifierDefaults returns the settings that won on clinc150 (docs/adr/0009-training-and-heads.md).
func ClassifierDefaults() Settings {
	return Settings{Layers: 2, Epochs: 8, Batch: 32, Rate: 1e-4, HeadRate: 1e-3, WarmUp: .1, WeightDecay: .01, Clip: 1,
		Patience: 2, Seed: 1, ValidationShare: .1}
}

// EncoderDefaults returns the settings for pairs.
func EncoderDefaults() Settings {
	return Settings{Layers: AllLayers, Epochs: 3, Batch: 32, Rate: 2e-5, WarmUp: .1, WeightDecay: .01, Clip: 1,
		Patience: 1, Seed: 1, ValidationShare: .1, Scale: 20}
}

// ReaderDefaults returns the settings for readers.
func ReaderDefaults() Settings {
	return Settings{Layers: AllLayers, Epochs: 3, Batch: 16, Rate: 1e-4, HeadRate: 1e-3, WarmUp: .1, WeightDecay: .01,
		Clip: 1, Dropout: .1, Seed: 1, ValidationShare: .1, MaxTokens: 384, Stride: 128}
}

// check tells what of the settings is out of range.
func (s Settings) check() error {
	for _, c := range []struct {
		name      string
		value     float64
		low, high float64
	}{
		{"epochs", float64(s.Epochs), 1, 1e4}, {"batch", float64(s.Batch), 1, 1 << 16},
		{"layers", float64(s.Layers), AllLayers, 1 << 10}, {"rate", s.Rate, 0, 1}, {"head rate", s.HeadRate, 0, 1},
		{"warm-up", s.WarmUp, 0, 1}, {"weight decay", s.WeightDecay, 0, 1}, {"clip", s.Clip, 0, 1e9},
		{"dropout", s.Dropout, 0, .9}, {"patience", float64(s.Patience), 0, 1e4},
		{"max tokens", float64(s.MaxTokens), 0, 1 << 20}, {"validation share", s.ValidationShare, 0, .9},
		{"scale", s.Scale, 0, 1e4}, {"stride", float64(s.Stride), 0, 1 << 20},
	} {
		if !(c.value >= c.low && c.value <= c.high) {
			return fmt.Errorf("%w: %s is %v, expected %v to %v", ErrSetting, c.name, c.value, c.low, c.high)
		}
	}
	return nil
}

// first returns the first trained layer of an encoder.
func (s Settings) first(layers int) (int, error) {
	if s.Layers == AllLayers {
		return 0, nil
	}
	if s.Layers > layers {
		return 0, fmt.Errorf("%w: %d layers are to be trained, the model has %d", ErrSetting, s.Layers, layers)
	}
	return layers - s.Layers, nil
}

// Scores are how well a model does on a set of examples. Accuracy: the share of texts whose labels are all right. F1:
// the mean over labels (one label a text), or over all decisions (several). NDCG: of a ranking, cut at 10.
type Scores struct {
	Examples int     `json:"examples" yaml:"examples"`
	Loss     float64 `json:"loss" yaml:"loss"`
	Accuracy float64 `json:"accuracy" yaml:"accuracy"`
	F1       float64 `json:"f1" yaml:"f1"`
	NDCG     float64 `json:"ndcg_at_10,omitempty" yaml:"ndcg_at_10,omitempty"`
	// Reader holds the scores of a reader, whose Accuracy and F1 are the exact match and F1 at the best thresholds.
	Reader *ReaderScores `json:"reader,omitempty" yaml:"reader,omitempty"`
}

// Epoch is the report of one.
type Epoch struct {
	Epoch      int     `json:"epoch"`
	Loss       float64 `json:"loss"` // mean over the batches while it was trained
	Validation Scores  `json:"validation"`
	Best       bool    `json:"best"` // of those so far
	Seconds    float64 `json:"seconds"`
	PerSecond  float64 `json:"examples_per_s"`
}

// Hooks are told how a training gets on; each may be nil. They are called from one goroutine.
type Hooks struct {
	Prepare func(done, total int) // texts that have been through the frozen layers, of a file
	Step    func(done, total int) // steps of the whole training
	Epoch   func(Epoch)
	Warn    func(text string)
	Resumed func(epoch, step int) // the training goes on from a checkpoint
}

func (h Hooks) warn(format string, args ...any) {
	if h.Warn != nil {
		h.Warn(fmt.Sprintf(format, args...))
	}
}

// checkpointInterval is the longest time between two checkpoints: what a kill loses at most.
const checkpointInterval = 2 * time.Minute
