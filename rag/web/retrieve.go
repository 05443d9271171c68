package web

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/store"
)

// Retrieve searches the web pages that are stored beside a base and returns the best passages for a question, best
// first, with their addresses (prompt.Passage.Web). Expired pages are not searched. It is not an error if no pages are
// stored. o.Where applies to pages as well. o.Route is ignored, because domains exist only for documents.
func Retrieve(ctx context.Context, base *knowledge.Base, question string, o retrieve.Options) ([]prompt.Passage,
	error) {
	o.Route = nil
	snap, _, err := base.Web().Searchable(ctx)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, knowledge.ErrEmptyStore) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer snap.Release()
	o.Where = append(slices.Clone(o.Where), retrieve.Condition{Field: "meta." + expiresKey, Op: ">",
		Value: time.Now().UTC().Format(time.RFC3339)})
	e, err := base.Embed(ctx, []string{question}, embed.Query)
	if err != nil {
		return nil, err
	}
	lists, err := snap.Search(ctx, retrieve.Queries{Texts: []string{question}, Vectors: knowledge.Vectors(e)}, o)
	if err != nil {
		return nil, err
	}
	results := lists[0].Results
	found, err := snap.Passages(ctx, results, o)
	if err != nil {
		return nil, err
	}
	return passages(ctx, snap, found, results)
}

// passages adds the page of each passage.
func passages(
	ctx context.Context, snap *knowledge.Snapshot, found []knowledge.Passage, results []retrieve.Result,
) ([]prompt.Passage, error) {
	ids := make([]string, len(found))
	for i, p := range found {
		ids[i] = p.Document
	}
	titles, err := snap.View.DocumentMeta(ctx, ids, titleKey)
	if err != nil {
		return nil, err
	}
	fetched, err := snap.View.DocumentMeta(ctx, ids, fetchedKey)
	if err != nil {
		return nil, err
	}
	list := make([]prompt.Passage, len(found))
	for i, p := range found {
		at, _ := time.Parse(time.RFC3339, fetched[p.Document])
		list[i] = prompt.Passage{Chunk: p.Chunk, Score: results[i].Score, Joined: p.Joined,
			Web: &prompt.Web{URL: p.Source, Title: titles[p.Document], Fetched: at}}
	}
	return list, nil
}
