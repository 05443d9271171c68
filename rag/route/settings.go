package route

import (
	"fmt"

	"github.com/sluice-rag/sluice/rag/route/learn"
)

// Features are the inputs of a router made from a text.
type Features string

// The features.
const (
	TFIDF     Features = "tfidf"     // the weights of its words
	Embedding Features = "embedding" // its vector
	Both      Features = "both"
)

// Settings determine, with the data and the encoder, the bits of a router.
type Settings struct {
	Kind     learn.Kind `json:"kind" oneof:"mnb gnb lr svc distilbert" doc:"classifier of a router: naive Bayes (mnb, gnb), logistic regression (lr), linear support vectors (svc); distilbert for 'train router' only"`
	Features Features   `json:"features" oneof:"tfidf embedding both" doc:"what a router reads of a text: the weights of its words, its vector, or both; mnb reads words, unless this is set"`
	Ngrams   int        `json:"ngrams" bounds:"1,3" doc:"words in a row that count as a term of their own, at most"`
	MaxTerms int        `json:"max_terms" bounds:"0,16777216" doc:"terms of a router at most, the most frequent ones; 0 is all"`
	Scale    float64    `json:"scale" bounds:"0.001,1000" doc:"that vectors are multiplied by beside weights of words"`
	C        float64    `json:"c" bounds:"0.000001,1000000" doc:"of lr and svc: how much the texts count against small weights"`
	Folds    int        `json:"folds" bounds:"0,100" doc:"parts of the texts that are measured one by one; 0 takes 5, from 5000 texts on one of five"`
	// Keep is the share of held-out texts. With texts of no domain (Outside) the threshold is where it tells the two
	// best.
	Keep    float64 `json:"keep" bounds:"0,1" doc:"share of texts like those of the training that a router does not abstain from; 0 takes .95, for a store's router .98"`
	Cover   float64 `json:"cover" bounds:"0,1" doc:"share of the held-out questions whose domain must be among those that are searched"`
	Outside string  `json:"outside,omitempty"` // the label of texts of no domain: no class
	Seed    uint64  `json:"seed" bounds:"0,18446744073709551615" doc:"seed of everything random"`
}

// Defaults returns the settings of the default router (docs/adr/0022-routing.md).
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
