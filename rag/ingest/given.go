package ingest

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus"
)

// UploadPrefix is before the names of documents that were handed in (Options.Given).
const UploadPrefix = "uploads/"

// resolveGiven finds the paths of Options.Given as documents have them.
func (r *run) resolveGiven() error {
	r.given = make(map[string]string, len(r.o.Given))
	for path, name := range r.o.Given {
		real, err := filepath.Abs(path)
		if err == nil {
			real, err = filepath.EvalSymlinks(real)
		}
		if err != nil {
			return err
		}
		r.given[real] = name
	}
	return nil
}

// handedIn makes a document that was read from a file of Options.Given one of no file.
func (r *run) handedIn(d *corpus.Document) {
	name, ok := r.given[d.Path]
	if !ok && len(r.given) > 0 { // a file in an archive that was handed in
		archive := corpus.ArchiveOf(d.Path)
		if name, ok = r.given[archive]; ok {
			name += d.Path[len(archive):]
		}
	}
	if !ok {
		return
	}
	if file := filepath.Base(d.Path); d.Title == strings.TrimSuffix(file, filepath.Ext(file)) { // it has no heading
		d.Title = strings.TrimSuffix(name, filepath.Ext(name))
	}
	d.Path, d.Source = "", UploadPrefix+name
	if d.Line > 0 {
		d.Source += ":" + strconv.Itoa(d.Line)
	} else {
		d.ID = d.Source
	}
}
