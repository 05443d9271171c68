package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/store"
)

// Topic is the topic of every stored page.
const Topic = "web"

// Metadata keys of a page's document. Times are in RFC 3339, UTC.
const (
	fetchedKey = "fetched"
	expiresKey = "expires"
	titleKey   = "page_title" // metadata, so that a view still finds it after the page is removed
)

// Chunk sizes of pages in tokens of the encoder, equal to the defaults for documents.
const (
	chunkSize    = 256
	chunkOverlap = 2
)

// Kept counts what Keep did.
type Kept struct {
	Pages    int `json:"pages"`
	Chunks   int `json:"chunks"`
	Embedded int `json:"embedded"` // chunks that were not stored with the same text before
	Expired  int `json:"expired"`  // expired pages that were removed
	Empty    int `json:"empty"`    // pages without words, which are not stored
}

// Keep stores pages beside a base (knowledge.Base.Web). They expire a lifetime (0: DefaultLifetime) after their Fetched
// time. Keep replaces pages that are already stored and removes expired pages. Calibrations are not affected. The error
// is store.ErrEncoder if the stored pages were embedded with another encoder.
func Keep(ctx context.Context, base *knowledge.Base, pages []Page, lifetime time.Duration) (kept Kept, err error) {
	lifetime = cmp.Or(lifetime, DefaultLifetime)
	if lifetime < 0 {
		return kept, fmt.Errorf("%w: a lifetime of %v", ErrOptions, lifetime)
	}
	enc, err := base.Encoder(ctx)
	if err != nil {
		return kept, err
	}
	w, id := base.Web(), enc.Info().Encoder
	st, err := w.Writer(ctx, &id)
	if err != nil {
		return kept, fmt.Errorf("web: the pages that are kept: %w", err)
	}
	defer func() { err = w.Changed(err) }()
	if err := knowledge.SameEncoder(st, id); err != nil {
		return kept, fmt.Errorf("web: the pages that are kept, which may be removed and fetched again: %w", err)
	}
	if kept.Expired, err = expire(ctx, st, time.Now()); err != nil {
		return kept, err
	}
	var batch store.Batch
	for _, p := range pages {
		doc, chunks, err := document(ctx, enc, p, lifetime)
		if err != nil {
			return kept, err
		}
		if len(chunks) == 0 {
			kept.Empty++
			continue
		}
		batch.Documents, batch.Chunks = append(batch.Documents, doc), append(batch.Chunks, chunks...)
	}
	kept.Pages, kept.Chunks = len(batch.Documents), len(batch.Chunks)
	if kept.Pages == 0 {
		return kept, nil
	}
	batch.Replace = true
	kept.Embedded, err = commit(ctx, st, enc, batch)
	if err != nil {
		return kept, err
	}
	return kept, tidy(ctx, w, st)
}

// document returns the document of a page and its chunks, no chunks if the page has no words.
func document(
	ctx context.Context, enc embed.Embedder, p Page, lifetime time.Duration,
) (*corpus.Document, []corpus.Chunk, error) {
	doc := &corpus.Document{}
	if p.document != nil && p.Text == p.document.Text {
		*doc = *p.document
	} else {
		read, err := corpus.Read(ctx, corpus.Plain, p.Content(), 0)
		switch {
		case errors.Is(err, corpus.ErrNoWords), errors.Is(err, corpus.ErrFormat):
			return nil, nil, nil
		case err != nil:
			return nil, nil, err
		}
		doc = read
	}
	fetched := p.Fetched
	if fetched.IsZero() {
		fetched = time.Now()
	}
	doc.Meta = maps.Clone(doc.Meta)
	if doc.Meta == nil {
		doc.Meta = corpus.Meta{}
	}
	doc.Meta[fetchedKey] = fetched.UTC().Format(time.RFC3339)
	doc.Meta[expiresKey] = fetched.Add(lifetime).UTC().Format(time.RFC3339)
	if p.Title != "" {
		doc.Meta[titleKey] = p.Title
	}
	doc.ID, doc.Source, doc.Topic, doc.Title = p.URL, p.URL, Topic, p.Title
	size := chunkSize
	if most := enc.Info().MaxTokens; most > 0 {
		size = min(size, most)
	}
	var chunks []corpus.Chunk
	o := corpus.ChunkOptions{Size: size, Overlap: chunkOverlap, MaxTokens: enc.Info().MaxTokens, Count: enc.CountTokens}
	for c, err := range corpus.Chunks(ctx, doc, o) {
		if err != nil {
			return nil, nil, fmt.Errorf("web: %s: %w", doc.Source, err)
		}
		chunks = append(chunks, c)
	}
	return doc, chunks, nil
}

// commit embeds the chunks whose text is not stored yet and commits the whole batch durably.
func commit(ctx context.Context, st *store.Store, enc embed.Embedder, whole store.Batch) (embedded int, err error) {
	for tries := 1; ; tries++ {
		b := whole
		b.Chunks = nil
		ids := make([]string, len(whole.Chunks))
		for i, c := range whole.Chunks {
			ids[i] = c.ID
		}
		held, err := st.Has(ctx, ids)
		if err != nil {
			return 0, err
		}
		var texts []string
		for _, c := range whole.Chunks {
			if tries == 1 && held[c.ID] == c.Digest() {
				b.Known = append(b.Known, c)
				continue
			}
			b.Chunks, texts = append(b.Chunks, c), append(texts, c.EmbedText())
		}
		if len(texts) > 0 {
			e, err := enc.Embed(ctx, texts, embed.Document)
			if err != nil {
				return 0, err
			}
			b.Vectors = e.Data
		}
		_, err = st.Commit(ctx, b)
		if errors.Is(err, store.ErrNotFound) && tries == 1 { // another process has removed a known chunk
			continue
		}
		return len(texts), err
	}
}

// expire removes expired pages.
func expire(ctx context.Context, st *store.Store, now time.Time) (n int, err error) {
	list, err := st.Documents(ctx)
	if err != nil {
		return 0, err
	}
	for _, d := range list {
		if !expired(d.Meta, now) {
			continue
		}
		switch _, err := st.DeleteDocuments(ctx, []string{d.ID}); {
		case errors.Is(err, store.ErrNotFound): // by another process
		case err != nil:
			return n, err
		default:
			n++
		}
	}
	return n, nil
}

func expired(meta corpus.Meta, now time.Time) bool {
	at, err := time.Parse(time.RFC3339, meta.Text(expiresKey))
	return err != nil || !now.Before(at)
}

// compactFrom is the number of rows of removed pages from which on the store is compacted.
const compactFrom = 2000

func tidy(ctx context.Context, w *knowledge.Base, st *store.Store) error {
	size, err := st.Stats(ctx)
	if err != nil || size.Rows-int64(size.Chunks) < compactFrom {
		return err
	}
	_, err = w.Compact(ctx, store.CompactShare)
	return err
}

// Document is a stored page.
type Document struct {
	URL     string    `json:"url"`
	Title   string    `json:"title,omitempty"`
	Fetched time.Time `json:"fetched"`
	Expires time.Time `json:"expires"`
	Chunks  int       `json:"chunks"`
	Expired bool      `json:"expired,omitempty"` // not searched; the next Keep or Remove removes it
}

// List returns the pages that are stored beside a base, the newest first.
func List(ctx context.Context, base *knowledge.Base) ([]Document, error) {
	st, err := base.Web().Reader(ctx)
	if errors.Is(err, store.ErrNotFound) {
		return []Document{}, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := st.Documents(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]Document, len(list))
	for i, d := range list {
		out[i] = Document{URL: d.Source, Title: d.Title, Chunks: d.Chunks, Expired: expired(d.Meta, time.Now())}
		out[i].Fetched, _ = time.Parse(time.RFC3339, d.Meta.Text(fetchedKey))
		out[i].Expires, _ = time.Parse(time.RFC3339, d.Meta.Text(expiresKey))
	}
	slices.SortStableFunc(out, func(a, b Document) int { return b.Fetched.Compare(a.Fetched) })
	return out, nil
}

// Remove removes the pages with the given addresses, or the expired pages if no address is given. It returns the number
// of removed pages.
func Remove(ctx context.Context, base *knowledge.Base, urls ...string) (n int, err error) {
	st, err := base.Web().Writer(ctx, nil)
	if errors.Is(err, store.ErrNotFound) && len(urls) == 0 {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = base.Web().Changed(err) }()
	if len(urls) == 0 {
		return expire(ctx, st, time.Now())
	}
	_, err = st.DeleteDocuments(ctx, urls)
	if err != nil {
		return 0, err
	}
	return len(urls), nil
}
