package sluice

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/store"
)

// Documents gives access to the documents of the store and their chunks.
type Documents struct{ s *Sluice }

// Documents returns the documents of the store. Ingest adds them.
func (s *Sluice) Documents() Documents { return Documents{s} }

// List returns the records of all documents.
func (d Documents) List(ctx context.Context) ([]store.DocumentInfo, error) {
	return reading(ctx, d.s, func(ctx context.Context, st *store.Store) ([]store.DocumentInfo, error) {
		return st.Documents(ctx)
	})
}

// Get returns the record of a document; a missing one is store.ErrNotFound.
func (d Documents) Get(ctx context.Context, id string) (store.DocumentInfo, error) {
	return reading(ctx, d.s, func(ctx context.Context, st *store.Store) (store.DocumentInfo, error) {
		return st.Document(ctx, id)
	})
}

// DocumentLine is a document in the JSON of the server, without the paths of the server's files.
type DocumentLine struct {
	ID         string `json:"id"`
	Source     string `json:"source"`
	Title      string `json:"title,omitempty"`
	Topic      string `json:"topic,omitempty"`
	Chunks     int    `json:"chunks"`
	Tokens     int    `json:"tokens"`
	Added      string `json:"added"`
	Collection string `json:"collection,omitempty"`
	Partial    bool   `json:"partial,omitempty"` // an ingest was interrupted
}

// LineOf returns the record of a document for clients.
func LineOf(d store.DocumentInfo) DocumentLine {
	source := d.Source
	if d.Path != "" { // a path of a command line; clients get only the id
		source = d.ID
	}
	return DocumentLine{d.ID, source, d.Title, d.Topic, d.Chunks, d.Tokens, d.Added, d.Collection, d.Partial}
}

// Has reports whether each word is in the id, the title or the topic of a document. The words are in lower case.
func (d DocumentLine) Has(words []string) bool {
	if len(words) == 0 {
		return true
	}
	in := strings.ToLower(d.ID + "\n" + d.Title + "\n" + d.Topic)
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(in, w) })
}

// Titles returns the titles of documents by their ids. Missing documents and documents without a title are left out.
func (d Documents) Titles(ctx context.Context, ids []string) (map[string]string, error) {
	return looking(ctx, d.s, func(ctx context.Context, snap *knowledge.Snapshot) (map[string]string, error) {
		return snap.Titles(ctx, ids)
	})
}

// TitlesOf returns the titles of the documents that were found, by their ids.
func (d Documents) TitlesOf(ctx context.Context, all ...Found) (map[string]string, error) {
	var ids []string
	for _, one := range all {
		for _, p := range one.Passages {
			ids = append(ids, p.Chunk.Document)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	slices.Sort(ids)
	titles, err := d.Titles(ctx, slices.Compact(ids))
	if err != nil {
		return nil, fmt.Errorf("the titles of what was found: %w", err)
	}
	return titles, nil
}

// Chunks returns chunks by their ids, in that order; a missing one is store.ErrNotFound.
func (d Documents) Chunks(ctx context.Context, ids []string) ([]corpus.Chunk, error) {
	return reading(ctx, d.s, func(ctx context.Context, st *store.Store) ([]corpus.Chunk, error) {
		return st.Chunks(ctx, ids)
	})
}

// AllChunks yields every chunk in the store's order.
func (d Documents) AllChunks(ctx context.Context) iter.Seq2[corpus.Chunk, error] {
	return sequence(ctx, d.s, func(ctx context.Context, yield func(corpus.Chunk, error) bool) error {
		st, err := d.s.base.Reader(ctx)
		if err == nil {
			st.AllChunks(ctx)(yield)
		}
		return err
	})
}

// ChunksOf yields a document's chunks in the store's order, and nothing if the document does not exist.
func (d Documents) ChunksOf(ctx context.Context, id string) iter.Seq2[corpus.Chunk, error] {
	return sequence(ctx, d.s, func(ctx context.Context, yield func(corpus.Chunk, error) bool) error {
		st, err := d.s.base.Reader(ctx)
		if err == nil {
			st.DocumentChunks(ctx, id)(yield)
		}
		return err
	})
}

// Labels returns the labels of chunks by the chunks' ids, if entities were extracted. Chunks without labels are left
// out.
func (d Documents) Labels(ctx context.Context, ids []string) (map[string][]store.Label, error) {
	return reading(ctx, d.s, func(ctx context.Context, st *store.Store) (map[string][]store.Label, error) {
		return st.Labels(ctx, ids)
	})
}

// LabelCounts returns the labels with the number of chunks that have each, the most frequent first. A kind other than
// "" selects labels of that kind, and a limit above 0 bounds their number.
func (d Documents) LabelCounts(ctx context.Context, kind string, limit int) ([]store.LabelCount, error) {
	return reading(ctx, d.s, func(ctx context.Context, st *store.Store) ([]store.LabelCount, error) {
		return st.LabelCounts(ctx, kind, limit)
	})
}

// Delete removes documents and returns how many chunks were removed. If the store lacks one of the ids, the error is
// store.ErrNotFound and nothing is removed.
func (d Documents) Delete(ctx context.Context, ids []string) (chunks int, err error) {
	return writing(ctx, d.s, func(ctx context.Context, st *store.Store) (int, error) {
		return st.DeleteDocuments(ctx, ids)
	})
}

// Duplicates finds identical and nearly identical chunks, as groups in the store's order, without opening a model. Bad
// options are ErrOption.
func (d Documents) Duplicates(
	ctx context.Context, o knowledge.DuplicateOptions,
) ([]knowledge.DuplicateGroup, error) {
	return looking(ctx, d.s, func(ctx context.Context, snap *knowledge.Snapshot) ([]knowledge.DuplicateGroup, error) {
		return snap.Duplicates(ctx, o)
	})
}

// Gone returns the documents whose files no longer exist, as far as their files are known. If a collection's whole
// folder is missing, it may have been moved (MoveCollection), and none of its documents is listed.
func (d Documents) Gone(ctx context.Context) ([]store.DocumentInfo, error) {
	return reading(ctx, d.s, func(ctx context.Context, st *store.Store) (gone []store.DocumentInfo, err error) {
		collections, err := st.Collections(ctx)
		if err != nil {
			return nil, err
		}
		there := map[string]bool{"": true}
		for _, c := range collections {
			_, err := os.Stat(c.Root)
			there[c.Name] = err == nil
		}
		docs, err := st.Documents(ctx)
		for _, d := range docs {
			if d.Path == "" || !there[d.Collection] {
				continue
			}
			if _, err := os.Stat(d.Path); errors.Is(err, fs.ErrNotExist) {
				gone = append(gone, d)
			}
		}
		return gone, err
	})
}

// Find returns the ids that match patterns: each pattern is an id, a pattern of ids ("*" and "?" within a part between
// slashes, "**" across), or the path of a file, which need not exist any more, for all its lines. A pattern without a
// match is store.ErrNotFound.
func (d Documents) Find(ctx context.Context, patterns []string) ([]string, error) {
	return reading(ctx, d.s, func(ctx context.Context, st *store.Store) (ids []string, err error) {
		docs, err := st.Sources(ctx)
		if err != nil {
			return nil, err
		}
		seen := map[string]bool{}
		for _, pattern := range patterns {
			found := findDocuments(docs, pattern)
			if len(found) == 0 {
				return nil, fmt.Errorf(
					"%w: no document has the id, path or pattern %q; 'sluice docs list' shows the ids",
					store.ErrNotFound, pattern)
			}
			for _, id := range found {
				if !seen[id] {
					seen[id] = true
					ids = append(ids, id)
				}
			}
		}
		return ids, nil
	})
}

func findDocuments(docs []store.DocumentInfo, pattern string) (ids []string) {
	if slices.ContainsFunc(docs, func(d store.DocumentInfo) bool { return d.ID == pattern }) {
		return []string{pattern}
	}
	path, err := filepath.Abs(pattern)
	if real, linkErr := filepath.EvalSymlinks(path); linkErr == nil {
		path = real
	}
	var isMatch *regexp.Regexp
	if strings.ContainsAny(pattern, "*?") {
		isMatch = retrieve.Glob(pattern)
	}
	for _, d := range docs {
		if isMatch != nil && isMatch.MatchString(d.ID) || err == nil && d.Path == path ||
			d.Path == "" && d.Source == pattern {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// Collections returns the folders that documents were ingested from, with the prefixes of their ids.
func (d Documents) Collections(ctx context.Context) ([]store.Collection, error) {
	return reading(ctx, d.s, func(ctx context.Context, st *store.Store) ([]store.Collection, error) {
		return st.Collections(ctx)
	})
}

// MoveCollection records the new folder of a collection; its documents keep their ids. The error is ErrOption if the
// path is not a folder.
func (d Documents) MoveCollection(ctx context.Context, name, folder string) error {
	root, err := filepath.Abs(folder)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return err
	}
	if i, err := os.Stat(root); err != nil || !i.IsDir() {
		return fmt.Errorf("%w: %s is not a folder", ErrOption, folder)
	}
	_, err = writing(ctx, d.s, func(ctx context.Context, st *store.Store) (none struct{}, _ error) {
		all, err := st.Collections(ctx)
		if err != nil {
			return none, err
		}
		if err := st.MoveCollection(ctx, name, root); err != nil {
			return none, err
		}
		for _, c := range all {
			if c.Name == name {
				err = ingest.MoveAccess(ctx, st, c.Root, root)
			}
		}
		return none, err
	})
	return err
}
