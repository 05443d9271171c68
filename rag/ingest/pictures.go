package ingest

import (
	"crypto/sha256"
	"fmt"

	"github.com/sluice-rag/sluice/rag/corpus"
)

// picturesOf returns what reads text in pictures; nil if they are not to be read.
func picturesOf(in Input) corpus.PictureReader {
	if in.OCR == OCROff {
		return nil
	}
	return in.Pictures
}

// howFor returns what the documents of a file depend on besides the file: for one that may have pictures, also what
// reads them, so that it is read again when models have come.
func (r *run) howFor(f corpus.File) string {
	if r.pictures == nil || !corpus.HoldsPictures(f.Path) {
		return r.how
	}
	by := r.pictures.Name()
	if by == "" {
		return r.how
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\nPictures=%s\nAllPages=%v\n", r.how, by, r.o.OCR == OCRAlways))
	return fmt.Sprintf("%x", sum[:16])
}

// tellPictures notes the letters of a document's language that what has read its pictures does not know.
func (r *run) tellPictures(doc *corpus.Document) {
	if r.pictures == nil || doc.Meta[corpus.OCRKey] == nil {
		return
	}
	language := doc.Meta.Text(languageKey)
	if lacks := r.pictures.Lacks(language); lacks != "" {
		if r.result.Unreadable == nil {
			r.result.Unreadable = map[string]string{}
		}
		r.result.Unreadable[language] = lacks
	}
}
