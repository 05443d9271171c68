package ingest

import (
	"cmp"
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/store"
)

// UploadPrefix is before the names of documents that were handed in (Options.Given).
const UploadPrefix = "uploads/"

// resolveGiven finds the paths of Options.Given and Options.Pages as documents have them, with their sources.
func (r *run) resolveGiven() error {
	sources := make(map[string]string, len(r.o.Given)+len(r.o.Pages))
	maps.Copy(sources, r.o.Pages)
	for path, name := range r.o.Given {
		sources[path] = UploadPrefix + name
	}
	r.given = make(map[string]string, len(sources))
	for path, name := range sources {
		real, err := corpus.RealPath(path)
		if err != nil {
			return err
		}
		r.given[real] = name
	}
	return nil
}

// handedIn makes a document that was read from a file of Options.Given or Options.Pages one of no file.
func (r *run) handedIn(d *corpus.Document) {
	name, ok := r.given[d.Path]
	if !ok && len(r.given) > 0 { // a file in an archive that was handed in
		archive := corpus.ArchiveOf(d.Path)
		if name, ok = r.given[archive]; ok {
			name += innerName(archive, name, d.Path[len(archive):])
		}
	}
	if !ok {
		return
	}
	switch file := filepath.Base(d.Path); d.Title { // it has no heading
	case file: // source code
		d.Title = filepath.Base(name)
	case strings.TrimSuffix(file, filepath.Ext(file)):
		d.Title = filepath.Base(strings.TrimSuffix(name, filepath.Ext(name)))
	}
	d.Path, d.Source = "", name
	if r.o.Sources != nil {
		r.connected(d)
		return
	}
	if d.Line > 0 {
		d.Source += ":" + strconv.Itoa(d.Line)
	} else {
		d.ID = d.Source
	}
}

// connected gives a document of a connector its own id and source.
func (r *run) connected(d *corpus.Document) {
	if d.Line == 0 {
		d.ID = d.Source
	}
	if source := d.Meta.Text(sourceKey); d.Line > 0 && source != "" {
		d.Source = source
		delete(d.Meta, sourceKey)
		return
	}
	d.Source = cmp.Or(r.o.Sources[d.ID], d.ID)
}

// sourceKey is the field of a connector's document that names its source.
const sourceKey = "source"

// innerName returns a path in an archive that was handed in under a name. A file that was packed by itself is called as
// its archive is, without the last ending.
func innerName(archive, name, inner string) string {
	own := filepath.Base(archive)
	own = "/" + strings.TrimSuffix(own, filepath.Ext(own))
	if rest, ok := strings.CutPrefix(inner, own); ok && (rest == "" || rest[0] == '/') {
		return "/" + strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)) + rest
	}
	return inner
}

// isOvertaken reports whether a document was changed after it was handed in, before work is done for it. One that is
// changed meanwhile is found by the commit.
func (r *run) isOvertaken(ctx context.Context, d *corpus.Document) (bool, error) {
	if r.o.HandedIn == nil {
		return false, nil
	}
	late, err := r.store.Overtaken(ctx, *r.o.HandedIn, d.ID)
	if late {
		r.overtaken(d)
	}
	return late, err
}

func (r *run) overtaken(d *corpus.Document) {
	r.result.Overtaken++
	r.skip(corpus.Skipped{Source: d.Source, Err: store.ErrOvertaken})
}

// withoutOvertaken returns a batch without the documents that were changed after they were handed in.
func (r *run) withoutOvertaken(b store.Batch, ids []string) store.Batch {
	isLate := func(id string) bool { return slices.Contains(ids, id) }
	ofLate := func(c corpus.Chunk) bool { return isLate(c.Document) }
	for _, d := range b.Documents {
		if isLate(d.ID) && !b.Partial { // of one in several commits, the last one counts
			r.overtaken(d)
		}
	}
	b.Documents = slices.DeleteFunc(slices.Clone(b.Documents), func(d *corpus.Document) bool { return isLate(d.ID) })
	b.Chunks = slices.DeleteFunc(slices.Clone(b.Chunks), ofLate)
	b.Known = slices.DeleteFunc(slices.Clone(b.Known), ofLate)
	return b
}
