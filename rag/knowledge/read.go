package knowledge

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/embed"
)

// Extractor returns the base's reader. The error is ErrOption if the base has none.
func (b *Base) Extractor(ctx context.Context) (embed.Extractor, error) {
	if b.cfg.Extractor == nil {
		return nil, fmt.Errorf("%w: no reader is named", ErrOption)
	}
	return b.cfg.Extractor(ctx)
}

// Reads reports whether the base has a reader.
func (b *Base) Reads() bool { return b.cfg.Extractor != nil }
