package config

import (
	"strconv"

	"github.com/sluice-rag/sluice/rag/domains"
	"github.com/sluice-rag/sluice/rag/route"
	"github.com/sluice-rag/sluice/rag/route/learn"
)

// Route is how routers are made: a store's (By, Clusters, Sample, Cover), those of texts with labels (Folds, Ngrams,
// MaxTerms, C, Scale), and both.
type Route struct {
	By       string  `koanf:"by"`
	Clusters int     `koanf:"clusters"`
	Sample   int     `koanf:"sample"`
	Cover    float64 `koanf:"cover"`
	Kind     string  `koanf:"kind"`
	Features string  `koanf:"features"`
	Ngrams   int     `koanf:"ngrams"`
	MaxTerms int     `koanf:"max_terms"`
	C        float64 `koanf:"c"`
	Scale    float64 `koanf:"scale"`
	Folds    int     `koanf:"folds"`
	Keep     float64 `koanf:"keep"`
	Seed     uint64  `koanf:"seed"`
}

// routes are the settings of routers.
func routes() []row {
	s := route.Defaults()
	return []row{
		{key: "route.by", initial: domains.ByTopic,
			doc: "where a store's domains come from: topic, folder, meta.KEY, clusters or labels"},
		{key: "route.clusters", min: "0", max: "65535",
			doc: "clusters that are made, where domains are clusters; 0 takes as many as have the largest mean silhouette"},
		{key: "route.sample", initial: domains.DefaultSample, min: "1", max: "2147483647",
			doc: "chunks that a store's router is trained on, at most"},
		{key: "route.cover", initial: s.Cover, min: "0", max: "1",
			doc: "share of the held-out questions whose domain must be among those that are searched"},
		{key: "route.kind", initial: s.Kind, oneOf: "mnb gnb lr svc distilbert",
			doc: "classifier of a router: naive Bayes (mnb, gnb), logistic regression (lr), linear support vectors " +
				"(svc); distilbert for 'train router' only"},
		{key: "route.features", initial: s.Features, oneOf: "tfidf embedding both",
			doc: "what a router reads of a text: the weights of its words, its vector, or both; mnb reads words, " +
				"unless this is set"},
		{key: "route.ngrams", initial: s.Ngrams, min: "1", max: strconv.Itoa(learn.MaxNgrams),
			doc: "words in a row that count as a term of their own, at most"},
		{key: "route.max_terms", initial: s.MaxTerms, min: "0", max: "16777216",
			doc: "terms of a router at most, the most frequent ones; 0 is all"},
		{key: "route.c", initial: s.C, min: "0.000001", max: "1000000",
			doc: "of lr and svc: how much the texts count against small weights"},
		{key: "route.scale", initial: s.Scale, min: "0.001", max: "1000",
			doc: "that vectors are multiplied by beside weights of words"},
		{key: "route.folds", min: "0", max: "100",
			doc: "parts of the texts that are measured one by one; 0 takes 5, from 5000 texts on one of five"},
		{key: "route.keep", min: "0", max: "1",
			doc: "share of texts like those of the training that a router does not abstain from; 0 takes .95, for a " +
				"store's router .98"},
		{key: "route.seed", initial: s.Seed, min: "0", max: maxSeed,
			doc: "seed of everything random"},
	}
}

// Settings are those of a router; keep is what 0 stands for.
func (r Route) Settings(keep float64) route.Settings {
	s := route.Settings{Kind: learn.Kind(r.Kind), Features: route.Features(r.Features), Ngrams: r.Ngrams,
		MaxTerms: r.MaxTerms, Scale: r.Scale, C: r.C, Folds: r.Folds, Keep: r.Keep, Cover: r.Cover, Seed: r.Seed}
	if s.Keep == 0 {
		s.Keep = keep
	}
	return s
}
