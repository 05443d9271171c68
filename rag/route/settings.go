package route

import (
	"fmt"

	"github.com/sluice-rag/sluice/rag/route/learn"
)

// Features are what a router reads of a text.
type Features string

// The features.
const (
	TFIDF     Features = "tfidf"     // the weights of its words
	Embedding Features = "embedding" // its vector
	Both      Features = "both"
)

// Settings are what, beside the data and the encoder, decides the bits of a router.
type Settings struct {
	Kind     learn.Kind `json:"kind"`
	Features Features   `json:"features"`
	Ngrams   int        `json:"ngrams"`    // of words: 1 is scikit-learn's default
	MaxTerms int        `json:"max_terms"` // the most frequent ones; 0: all
	Scale    float64    `json:"scale"`     // that vectors are multiplied by, beside weights of words
	C        float64    `json:"c"`         // of lr and svc: how much texts count against small weights
	// parts of the texts, each scored by a router of the others; 0: by their number
	Folds int `json:"folds"`
	// Keep is the share of held-out texts that the router does not abstain from. With texts of no domain (Outside) the
	// threshold is where it tells the two best.
	Keep float64 `json:"keep"`
	// Cover is the share of held-out texts whose label must be among those that a routed search goes by.
	Cover   float64 `json:"cover"`
	Outside string  `json:"outside,omitempty"` // the label of texts of no domain: no class
	Seed    uint64  `json:"seed"`
}

// Defaults are the settings of the default router (docs/adr/0022-routing.md).
func Defaults() Settings {
	return Settings{Kind: learn.LinearSVC, Features: Both, Ngrams: 2, MaxTerms: 200_000, Scale: .8, C: 4, Keep: .95,
		Cover: .99, Seed: 1}
}

// Plain are scikit-learn's settings.
func Plain(kind learn.Kind, features Features) Settings {
	s := Defaults()
	s.Kind, s.Features, s.Ngrams, s.MaxTerms, s.Scale, s.C = kind, features, 1, 0, 1, 1
	return s
}

// wordsOf and vectorsOf tell what the features are made of.
func (f Features) words() bool   { return f != Embedding }
func (f Features) vectors() bool { return f != TFIDF }

func (s Settings) check() error {
	switch s.Kind {
	case learn.MultinomialNB:
		if s.Features != TFIDF {
			return fmt.Errorf("%w: mnb takes weights of words only (features tfidf), because vectors have negative "+
				"numbers", ErrOption)
		}
	case learn.GaussianNB, learn.LogisticRegression, learn.LinearSVC:
	default:
		return fmt.Errorf("%w: kind %q (known: mnb, gnb, lr, svc)", ErrOption, s.Kind)
	}
	if s.Features != TFIDF && s.Features != Embedding && s.Features != Both {
		return fmt.Errorf("%w: features %q (known: tfidf, embedding, both)", ErrOption, s.Features)
	}
	for _, c := range []struct {
		name             string
		value, low, high float64
	}{
		{"ngrams", float64(s.Ngrams), 1, learn.MaxNgrams}, {"max terms", float64(s.MaxTerms), 0, 1 << 24},
		{"scale", s.Scale, 1e-3, 1e3}, {"c", s.C, 1e-6, 1e6}, {"folds", float64(s.Folds), 0, 100},
		{"keep", s.Keep, 0, 1}, {"cover", s.Cover, 0, 1},
	} {
		if !(c.value >= c.low && c.value <= c.high) || c.name == "folds" && c.value == 1 {
			return fmt.Errorf("%w: %s is %v, expected %v to %v", ErrOption, c.name, c.value, c.low, c.high)
		}
	}
	return nil
}
