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
