package ingest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// examine sets how chunks are counted, and that those are dropped whose vectors would say nothing: they are near all
// others of their kind. The count of a chunk's whole text, which comes last, serves both.
func examine(o *corpus.ChunkOptions, enc embed.Embedder) {
	o.Count = enc.CountTokens
	if x, ok := enc.(embed.Examiner); ok {
		examineBy(o, x)
	}
}

// examineBy is examine of what tells contents.
func examineBy(o *corpus.ChunkOptions, x embed.Examiner) {
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

// languageKey is where a document's metadata name its language, as an ISO 639-1 code.
const languageKey = "language"

// tellLanguage sets a document's language, unless its source names it: to the one that was given, or to a guess.
func (r *run) tellLanguage(doc *corpus.Document) {
	if doc.Meta.Text(languageKey) != "" {
		return
	}
	code := r.o.Language
	if code == "" && doc.Meta["code"] == nil { // source files: what is guessed of them is chance
		code = r.base.Language(doc.Text)
	}
	if code != "" {
		setMeta(doc, languageKey, code)
	}
}

// sayLanguages warns of documents in languages that the encoder was not trained for.
func (r *run) sayLanguages() {
	few := (r.result.Documents + r.result.Empty) / 200 // so many guesses can be wrong
	codes := slices.DeleteFunc(slices.Sorted(maps.Keys(r.result.Foreign)),
		func(code string) bool { return r.result.Foreign[code] <= few })
	if len(codes) == 0 {
		return
	}
	counts := make([]string, len(codes))
	for i, code := range codes {
		counts[i] = fmt.Sprintf("%s (%d)", r.base.LanguageName(code), r.result.Foreign[code])
	}
	r.base.Logger().Warn(fmt.Sprintf("questions will hardly find documents in %s: %s", strings.Join(counts, ", "),
		r.base.Untrained(r.enc.Info(), codes...)))
}
