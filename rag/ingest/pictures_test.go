package ingest_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/ingest"
)

// eyes is a PictureReader that finds one line in every picture, once it has a name.
type eyes struct{ name, text string }

func (e *eyes) ReadPicture(context.Context, image.Image) ([]corpus.PictureLine, error) {
	if e.name == "" {
		return nil, fmt.Errorf("%w: no models", corpus.ErrPictures)
	}
	return []corpus.PictureLine{{Right: 200, Bottom: 20, Text: e.text, Confidence: .875}}, nil
}

func (e *eyes) Name() string { return e.name }

// TestPicturesComeWithTheirModels: pictures are read once there is something to read them with, and again when that
// changes; other files are not read again for it.
func TestPicturesComeWithTheirModels(t *testing.T) {
	b, folder := doubles.NewBase(t, nil), t.TempDir()
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 9, 9))); err != nil {
		t.Fatal(err)
	}
	hour := time.Now().Add(-time.Hour)
	modifiedAt(t, write(t, folder, "a.txt", "The tide comes in twice a day, and nobody can stop it."), hour)
	modifiedAt(t, write(t, folder, "b.png", picture.String()), hour)
	e := &eyes{text: "Das Wasser steigt zweimal am Tag und niemand kann es aufhalten, auch nicht im Hafen."}
	for i, x := range []struct {
		name, ocr       string
		read, documents int
		skipped         bool
	}{
		{"", ingest.OCRAuto, 1, 1, true}, {"", ingest.OCRAuto, 0, 0, true},
		{"small", ingest.OCRAuto, 1, 1, false}, {"small", "", 0, 0, false},
		{"large", ingest.OCRAuto, 1, 1, false}, {"large", ingest.OCRAlways, 1, 1, false},
	} {
		e.name = x.name
		skipped := false
		r, err := ingest.Run(t.Context(), b.Base, ingest.Input{Paths: []string{folder}, Pictures: e,
			Options: ingest.Options{Sync: true, Chunk: "64/0", OCR: x.ocr,
				OnSkip: func(corpus.Skipped) { skipped = true }}})
		if err != nil || r.Read != x.read || r.Documents != x.documents || skipped != x.skipped {
			t.Fatalf("%d, %+v: skipped %v, %v: %+v", i, x, skipped, err, r)
		}
	}
	st, err := b.Reader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list, err := st.Documents(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	for c, err := range st.DocumentChunks(t.Context(), list[1].ID) {
		if err != nil || c.Text != e.text || c.Anchor != "page=1&ocr=88" {
			t.Errorf("%+v, %v", c, err)
		}
	}
	r, err := ingest.Run(t.Context(), b.Base, ingest.Input{Paths: []string{folder}, Pictures: e,
		Options: ingest.Options{Chunk: "64/0", OCR: ingest.OCROff}})
	if err != nil || r.Documents != 1 || r.Skipped != 1 {
		t.Errorf("off: %v: %+v", err, r)
	}
}
