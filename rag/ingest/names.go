package ingest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/store"
)

// names assigns ids to documents. An id belongs to its source permanently: a file keeps the id of its first ingest,
// whichever path leads to it. The id of a new file is the name of its collection and its path below the collection's
// root. A JSON line has its own id. An id that belongs to another source is refused.
type names struct {
	store       *store.Store
	collection  string // name for new folders and prefix of line ids; "": the folder's name, no prefix
	replace     bool   // a document with the same id is replaced
	onFolder    func(store.Collection)
	collections []store.Collection
	files       map[string]string   // path → id
	held        map[string]held     // by id
	sameAs      map[[16]byte]string // digest → id of a document that the store had before
}

// held describes a document of the store. There may be millions of them, so it is kept small.
type held struct {
	source, path string
	digest       [16]byte // of the digest
	line         bool
}

func heldOf(source, path, digest string, line bool) held {
	return held{source, path, digestOf(digest), line}
}

func digestOf(digest string) [16]byte {
	sum := sha256.Sum256([]byte(digest))
	return [16]byte(sum[:16])
}

func newNames(ctx context.Context, st *store.Store, o Options, sources []store.DocumentInfo) (*names, error) {
	n := &names{store: st, collection: o.Collection, replace: o.Replace, onFolder: o.OnFolder,
		files: map[string]string{}, held: map[string]held{}, sameAs: map[[16]byte]string{}}
	var err error
	if n.collections, err = st.Collections(ctx); err != nil {
		return nil, err
	}
	path := ""
	for _, d := range sources {
		if path != d.Path { // lines of a file share its path
			path = d.Path
		}
		n.held[d.ID] = heldOf(d.Source, path, d.Digest, d.Line)
		n.sameAs[n.held[d.ID].digest] = d.ID
		if !d.Line && d.Path != "" {
			n.files[d.Path] = d.ID
		}
	}
	return n, err
}

// refusedError reports a document whose id belongs to another source.
type refusedError struct{ id, source string }

func (e *refusedError) Error() string {
	return fmt.Sprintf("%v: %q is that of %s; give another id, put a name before it with --collection, or take it "+
		"with --replace", store.ErrConflict, e.id, e.source)
}

func (e *refusedError) Unwrap() error { return store.ErrConflict }

// name assigns the id of d. from is the source of the document that d replaces, or "". The error is a refusedError if
// the id is not available.
func (n *names) name(ctx context.Context, d *corpus.Document) (from string, err error) {
	switch {
	case d.Path == "": // passed in without a file: it is identified by its id alone
		was, ok := n.held[d.ID]
		if ok && !n.replace && (was.path != "" || was.line != (d.Line > 0)) && was.digest != digestOf(d.Digest) {
			return "", &refusedError{d.ID, was.source}
		}
		if ok && was.path != "" {
			from = was.source
		}
		n.held[d.ID] = heldOf(d.Source, "", d.Digest, d.Line > 0)
		return from, nil
	case d.Line > 0:
		if n.collection != "" {
			d.ID = n.collection + "/" + d.ID
		}
	default:
		if err := n.file(ctx, d); err != nil {
			return "", err
		}
	}
	if was, ok := n.held[d.ID]; ok {
		if from, err = n.take(was, d); err != nil {
			return "", err
		}
	}
	n.held[d.ID] = heldOf(d.Source, d.Path, d.Digest, d.Line > 0)
	if d.Line == 0 {
		n.files[d.Path] = d.ID
	}
	return from, nil
}

// file finds or creates the id of a file.
func (n *names) file(ctx context.Context, d *corpus.Document) error {
	if id, ok := n.files[d.Path]; ok {
		d.ID = id
		return nil
	}
	in, rel := store.CollectionOf(n.collections, d.Path)
	if in == nil && n.collection == "" {
		if err := n.moved(d); err != nil {
			return err
		}
	}
	if in == nil || n.collection != "" && in.Name != n.collection {
		c, err := n.store.AddCollection(ctx, n.collection, d.Folder, d.Given)
		if err != nil {
			return err
		}
		if n.collections, err = n.store.Collections(ctx); err != nil {
			return err
		}
		if n.onFolder != nil && c.Name != n.collection && c.Name != filepath.Base(c.Root) {
			n.onFolder(c)
		}
		in = &c
		if below, ok := c.Below(d.Path); ok {
			rel = below
		} else {
			rel = d.ID // a link to a file elsewhere
		}
	}
	d.ID = in.Name + "/" + rel
	return nil
}

// moved refuses a file of a new folder if a collection whose folder is missing holds a file with the same path and
// content, because that folder was probably renamed.
func (n *names) moved(d *corpus.Document) error {
	rel, err := filepath.Rel(d.Folder, d.Path)
	if err != nil {
		return err
	}
	for _, c := range n.collections {
		id, ok := n.files[filepath.Join(c.Root, rel)]
		if ok && n.held[id].digest == digestOf(d.Digest) && hasGone(c.Root) {
			return fmt.Errorf("%w: %s is what collection %q had in %s, which is not there now: if that is %s now, "+
				"'sluice "+
				"docs root %[3]s %[5]s' says so; else give the folder a name with --collection", store.ErrConflict,
				d.Source, c.Name, c.Root, d.Folder)
		}
	}
	return nil
}

// take checks whether d may take the id of a stored document. from is the source of that document if it differs from
// the source of d.
func (n *names) take(was held, d *corpus.Document) (from string, err error) {
	sameKind := was.line == (d.Line > 0)
	switch {
	case was.path == d.Path && sameKind, was.digest == digestOf(d.Digest):
		return "", nil
	case n.replace, sameKind && was.path != "" && hasGone(was.path):
		return was.source, nil
	}
	return "", &refusedError{d.ID, was.source}
}

func hasGone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// FileOf returns the file of a document's source, which for a line is "file:7".
func FileOf(source string) string {
	if i := strings.LastIndexByte(source, ':'); i > 0 && strings.Trim(source[i+1:], "0123456789") == "" {
		return source[:i]
	}
	return source
}
