package pipeline

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/sluice-rag/sluice/cluster/worker"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
)

// TestMain lets the process also be a worker, as a runner starts it.
func TestMain(m *testing.M) {
	flag.Parse()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // a runner logs every bundle, and failures that tests cause
	worker.OpenEncodersBy(func(context.Context, string) (embed.Embedder, error) { return doubles.NewEncoder(), nil })
	beam.Init()
	os.Exit(m.Run())
}
