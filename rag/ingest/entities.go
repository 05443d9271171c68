package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/entities"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/store"
)

// entitiesKey is where a document's metadata say what its entities were found by.
const entitiesKey = "entities"

// chooseEntities reads Options.Entities and Options.Language.
func (r *run) chooseEntities(names embed.Tagger) error {
	notLetter := func(c rune) bool { return c < 'a' || c > 'z' }
	if l := r.o.Language; l != "" && (len(l) != 2 || slices.ContainsFunc([]rune(l), notLetter)) {
		return fmt.Errorf("%w: language %q is no ISO 639-1 code, such as en or de", knowledge.ErrOption, l)
	}
	if r.o.Entities {
		r.entities, r.labelled = entities.New(names), map[string]bool{}
	}
	return nil
}

// entitiesBy names what finds entities, "" if nothing does.
func (r *run) entitiesBy() string {
	if r.entities == nil {
		return ""
	}
	return r.entities.Name()
}

// tellEntities notes what a document's entities are found by, and whether its stored chunks have them already.
func (r *run) tellEntities(ctx context.Context, doc *corpus.Document) error {
	if r.entities == nil {
		return nil
	}
	info, err := r.store.Document(ctx, doc.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	name := r.entities.Name()
	if err == nil && !info.Partial && info.Meta.Text(entitiesKey) == name &&
		info.Meta.Text(languageKey) == doc.Meta.Text(languageKey) {
		r.labelled[doc.ID] = true
	}
	setMeta(doc, entitiesKey, name)
	return nil
}

// labels finds the entities of those chunks of a batch that have not got theirs. unnamed are chunks that the classifier
// of names did not read to their end.
func (r *run) labels(ctx context.Context, b store.Batch) (labels map[string][]store.Label, unnamed int, err error) {
	if r.entities == nil {
		return nil, 0, nil
	}
	languages := make(map[string]string, len(b.Documents))
	for _, d := range b.Documents {
		languages[d.ID] = d.Meta.Text(languageKey)
	}
	var ids, texts, codes []string
	take := func(list []corpus.Chunk, known bool) {
		for _, c := range list {
			if known && r.labelled[c.Document] {
				continue
			}
			ids, texts, codes = append(ids, c.ID), append(texts, c.Text), append(codes, languages[c.Document])
		}
	}
	take(b.Chunks, false)
	take(b.Known, true)
	found, unnamed, err := r.entities.Find(ctx, texts, codes)
	if err != nil {
		return nil, 0, err
	}
	labels = make(map[string][]store.Label, len(ids))
	for i, list := range found {
		labels[ids[i]] = nil
		for _, e := range list {
			if l := (store.Label{Kind: e.Kind, Value: e.Value}); !slices.Contains(labels[ids[i]], l) {
				labels[ids[i]] = append(labels[ids[i]], l)
			}
		}
	}
	return labels, unnamed, nil
}
