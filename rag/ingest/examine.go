package ingest

import (
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// examine sets how chunks are counted, and that those are dropped whose vectors would say nothing: they are near all
// others of their kind. The count of a chunk's whole text, which comes last, serves both.
func examine(o *corpus.ChunkOptions, enc embed.Embedder) {
	o.Count = enc.CountTokens
	x, ok := enc.(embed.Examiner)
	if !ok {
		return
	}
	var last string
	var content embed.Content
	o.Count = func(text string) (int, error) {
		n, c, err := x.Examine(text)
		last, content = text, c
		return n, err
	}
	o.Reject = func(text string) error {
		if text != last {
			return nil // it was not counted
		}
		return content.Fault()
	}
}
