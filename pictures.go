package sluice

import (
	"context"
	"fmt"
	"image"

	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/ocr"
)

// The models that read text in pictures where none are named: the first of these that is here.
const (
	betterOCR = "ocr-multilingual"
	smallOCR  = "ocr"
)

// locateOCR finds the models that read text in pictures.
func (s *Sluice) locateOCR() (name, dir string, err error) {
	if name = s.cfg.OCR; name == "" {
		if dir, err = models.Locate(betterOCR); err == nil {
			return betterOCR, dir, nil
		}
		name = smallOCR
	}
	dir, err = models.Locate(name)
	return name, dir, err
}

func (s *Sluice) openOCR(context.Context) (*ocr.Reader, func() error, error) {
	_, dir, err := s.locateOCR()
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

func (p pictureReader) Lacks(language string) string {
	if r, ok := p.s.ocr.peek(); ok {
		return r.Lacks(language)
	}
	return ""
}

func (p pictureReader) Name() string {
	name, _, err := p.s.locateOCR()
	if err != nil {
		return ""
	}
	return name
}
