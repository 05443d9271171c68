//go:build !(cgo && linux && (amd64 || arm64))

package limits

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/kernels"
)

func measure(context.Context, int, int64) (Limits, error) {
	return Limits{}, fmt.Errorf("limits: %w: measuring needs cgo on linux/amd64 or linux/arm64", kernels.ErrUnavailable)
}
