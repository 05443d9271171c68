package config

import (
	"github.com/sluice-rag/sluice/rag/route"
	"github.com/sluice-rag/sluice/rag/route/learn"
)

// Route is how routers are made: a store's (By, Clusters, Sample, Cover), those of texts with labels (Folds, Ngrams,
// MaxTerms, C, Scale), and both.
type Route struct {
	By       string  `key:"by" doc:"where a store's domains come from: topic, folder, meta.KEY, clusters or labels"`
	Clusters int     `key:"clusters" bounds:"0,65535" doc:"clusters that are made, where domains are clusters; 0 takes as many as have the largest mean silhouette"`
	Sample   int     `key:"sample" bounds:"1,2147483647" doc:"chunks that a store's router is trained on, at most"`
	Cover    float64 `key:"cover" bounds:"0,1" doc:"share of the held-out questions whose domain must be among those that are searched"`
	Kind     string  `key:"kind" oneof:"mnb gnb lr svc distilbert" doc:"classifier of a router: naive Bayes (mnb, gnb), logistic regression (lr), linear support vectors (svc); distilbert for 'train router' only"`
	Features string  `key:"features" oneof:"tfidf embedding both" doc:"what a router reads of a text: the weights of its words, its vector, or both; mnb reads words, unless this is set"`
	Ngrams   int     `key:"ngrams" bounds:"1,3" doc:"words in a row that count as a term of their own, at most"`
	MaxTerms int     `key:"max_terms" bounds:"0,16777216" doc:"terms of a router at most, the most frequent ones; 0 is all"`
	C        float64 `key:"c" bounds:"0.000001,1000000" doc:"of lr and svc: how much the texts count against small weights"`
	Scale    float64 `key:"scale" bounds:"0.001,1000" doc:"that vectors are multiplied by beside weights of words"`
	Folds    int     `key:"folds" bounds:"0,100" doc:"parts of the texts that are measured one by one; 0 takes 5, from 5000 texts on one of five"`
	Keep     float64 `key:"keep" bounds:"0,1" doc:"share of texts like those of the training that a router does not abstain from; 0 takes .95, for a store's router .98"`
	Seed     uint64  `key:"seed" bounds:"0,18446744073709551615" doc:"seed of everything random"`
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
