package sluice

import (
	"cmp"
	"context"
	"fmt"
	"image"

	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/ocr"
)

// ocrModel names the models that read text in pictures.
func (s *Sluice) ocrModel() string { return cmp.Or(s.cfg.OCR, "ocr") }

func (s *Sluice) openOCR(context.Context) (*ocr.Reader, func() error, error) {
	dir, err := models.Locate(s.ocrModel())
	if err != nil {
		return nil, nil, err
	}
	s.log.Debug("loading the models that read pictures", "dir", dir)
	r, err := ocr.Open(dir, ocr.Options{Library: s.cfg.ONNXRuntime, Cores: s.budget})
	if err != nil {
		return nil, nil, err
	}
	return r, func() error { r.Close(); return nil }, nil
}

// pictureReader loads the models when the first picture comes.
type pictureReader struct{ s *Sluice }

func (p pictureReader) ReadPicture(ctx context.Context, picture image.Image) ([]corpus.PictureLine, error) {
	r, err := p.s.ocr.get(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", corpus.ErrPictures, err)
	}
	return r.ReadPicture(ctx, picture)
}

func (p pictureReader) Name() string {
	if _, err := models.Locate(p.s.ocrModel()); err != nil {
		return ""
	}
	return p.s.ocrModel()
}
