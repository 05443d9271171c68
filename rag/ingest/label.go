package ingest

import (
	"context"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/route"
)

// labelChunks are the first chunks of a document that its topic is found by.
const labelChunks = 3

// topicKey is the field of a document that says who found its topic.
const topicKey = "topic_by"

// label gives a document without a topic that of its first chunks, if the store has a router and it does not abstain.
// The same document gets the same one again, whether its chunks are known or not.
func (r *run) label(ctx context.Context, doc *corpus.Document, chunks []corpus.Chunk) error {
	if doc.Topic != "" || len(chunks) == 0 {
		return nil
	}
	router := r.router()
	if router == nil || router.Multi {
		return nil
	}
	texts := embedTexts(chunks[:min(len(chunks), labelChunks)])
	var v engine.Vectors
	if router.NeedsVectors() {
		e, err := r.enc.Embed(ctx, texts, embed.Document)
		if err != nil {
			return err
		}
		v = knowledge.Vectors(e)
	}
	decisions, err := router.Decide(ctx, r.base.Engine(), texts, v)
	if err != nil {
		return err
	}
	sums := map[string]float64{}
	best := ""
	for _, d := range decisions {
		for _, name := range d.Given {
			sums[name] += d.Labels[0].Probability
			if best == "" || sums[name] > sums[best] {
				best = name
			}
		}
	}
	if best == "" {
		return nil
	}
	doc.Topic = best
	setMeta(doc, topicKey, "router")
	for i := range chunks {
		chunks[i].Topic = best
	}
	r.result.Labelled++
	return nil
}

// storeRouter reads the store's router; nil without one that can be used.
func (r *run) storeRouter() *route.Router {
	router, err := r.base.Router(r.store)
	if err != nil {
		r.base.Logger().Warn("documents without a topic get none: the store's router cannot be used", "error", err)
		return nil
	}
	return router
}
