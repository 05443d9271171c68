package ingest

import (
	"fmt"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

// cleaningKey is where a document's metadata say how it was cleaned.
const cleaningKey = "cleaning"

// chooseClean reads Options.Clean.
func (r *run) chooseClean() (err error) {
	if r.clean, err = corpus.ParseCleaners(r.o.Clean); err != nil {
		return fmt.Errorf("%w: %w", knowledge.ErrOption, err)
	}
	return nil
}

// cleaning names cleaners, as corpus.ParseCleaners reads them.
func cleaning(list []corpus.Cleaner) string {
	names := make([]string, len(list))
	for i, c := range list {
		names[i] = string(c)
	}
	return strings.Join(names, ",")
}

// cleaned counts and reports what was taken out of a document, and records in it which cleaner did.
func (r *run) cleaned(d *corpus.Document) {
	if len(r.clean) == 0 {
		return
	}
	setMeta(d, cleaningKey, cleaning(r.clean))
	if len(d.Cleaned) == 0 {
		return
	}
	if r.result.Cleaned == nil {
		r.result.Cleaned = map[corpus.Cleaner]int{}
	}
	for _, c := range d.Cleaned {
		r.result.Cleaned[c.By]++
	}
	if r.o.OnClean != nil {
		r.o.OnClean(d.Source, d.Cleaned)
	}
}
