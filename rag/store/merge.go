package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus"
)

// merge brings the documents into the store that is there.
func (r *restorer) merge(ctx context.Context) error {
	missing, err := r.compare(ctx)
	if err != nil {
		return err
	}
	for _, c := range r.collections {
		if err := r.store.restoreCollection(ctx, c); err != nil {
			return err
		}
	}
	r.done.LeftOut = r.rest
	cursor := &archiveCursor{from: r.from}
	for len(missing) > 0 {
		n, chunks := 1, missing[0].Chunks
		for n < len(missing) && missing[n].Partial == missing[0].Partial && chunks+missing[n].Chunks <= restoreRows {
			chunks += missing[n].Chunks
			n++
		}
		if chunks > restoreRows {
			err = r.mergeLong(ctx, cursor, missing[0])
		} else {
			err = r.mergeSome(ctx, cursor, missing[:n])
		}
		if err != nil {
			return err
		}
		r.done.Restored += n
		r.done.Chunks += chunks
		missing = missing[n:]
	}
	return nil
}

// compare finds the documents that the store lacks, has not whole or, with Replace, has with another content.
func (r *restorer) compare(ctx context.Context) (missing []*archived, err error) {
	there, err := r.store.Documents(ctx)
	if err != nil {
		return nil, err
	}
	has, paths := map[string]DocumentInfo{}, map[string]string{}
	for _, d := range there {
		if has[d.ID] = d; d.Path != "" && !d.Line {
			paths[d.Path] = d.ID
		}
	}
	signatures := map[string]uint64{}
	var id, document, digest string
	err = r.store.each(ctx, []any{&id, &document, &digest}, func() error {
		if d := r.owners[id]; d != nil && d.ID != document {
			return fmt.Errorf("%w: chunk %q is of document %q in the store and of %q in the export", ErrConflict, id,
				document, d.ID)
		}
		signatures[document] += signatureOf(id, digest)
		return nil
	}, `SELECT c.id, d.id, lower(hex(c.digest)) FROM chunks AS c JOIN documents AS d ON d.no = c.document`)
	if err != nil {
		return nil, err
	}
	var others []string
	for _, d := range r.documents {
		old, known := has[d.ID]
		if other := paths[d.Path]; !known && other != "" && !d.Line {
			return nil,
				fmt.Errorf("%w: %s is document %q in the store and %q in the export", ErrConflict, d.Path, other, d.ID)
		}
		sameChunks := signatures[d.ID] == d.signature && old.Chunks == d.Chunks
		switch {
		case known && old.Digest == d.Digest && sameChunks && (!old.Partial || d.Partial):
			r.done.Held++
			continue
		case known && (old.Digest != d.Digest || !sameChunks && !old.Partial):
			others = append(others, fmt.Sprintf("%q", d.ID))
			r.done.Replaced++
		}
		missing = append(missing, d)
	}
	if len(others) > 0 && !r.o.Replace {
		r.done = Restored{}
		return nil,
			fmt.Errorf("%w: the store has %d documents of the export with another content, %s: --replace makes "+
				"them those of the export", ErrConflict, len(others), strings.Join(others[:min(len(others), 3)], ", "))
	}
	return missing, nil
}

// mergeSome commits documents whole, in one transaction. If one is partial, all of them are.
func (r *restorer) mergeSome(ctx context.Context, c *archiveCursor, list []*archived) error {
	b, err := r.documentsOf(c, list)
	if err != nil {
		return err
	}
	b.Replace, b.Partial = true, list[0].Partial
	for _, d := range list {
		b.Take = append(b.Take, d.ID)
	}
	_, err = r.store.Commit(ctx, b)
	return err
}

// mergeLong commits a document in parts, as an ingest does.
func (r *restorer) mergeLong(ctx context.Context, c *archiveCursor, d *archived) error {
	var before []corpus.Chunk
	for at := 0; at < len(d.chunks); at += restoreRows {
		part := *d
		part.chunks = d.chunks[at:min(at+restoreRows, len(d.chunks))]
		b, err := r.documentsOf(c, []*archived{&part})
		if err != nil {
			return err
		}
		last := at+restoreRows >= len(d.chunks)
		b.Take, b.Partial = []string{d.ID}, !last || d.Partial
		if b.Replace = last; last {
			b.Known = before
		}
		if _, err := r.store.Commit(ctx, b); err != nil {
			return err
		}
		before = append(before, b.Chunks...)
	}
	return nil
}

// restoreCollection makes a collection of an export, unless its folder is one. If its name is another folder's it gets
// a number.
func (s *Store) restoreCollection(ctx context.Context, c Collection) error {
	return s.transact(ctx, "restore a collection", func(ctx context.Context, tx *change) error {
		list, err := s.collections(ctx, tx)
		if err != nil {
			return err
		}
		names := map[string]bool{}
		for _, other := range list {
			if other.Root == c.Root {
				return nil
			}
			names[other.Name] = true
		}
		name := c.Name
		for i := 2; names[name]; i++ {
			name = fmt.Sprintf("%s-%d", c.Name, i)
		}
		_, err = tx.Exec(`INSERT INTO collections (name, root, near, flat) VALUES (?, ?, ?, ?)`, name, c.Root,
			s.near(c.Root), c.Flat)
		return err
	})
}
