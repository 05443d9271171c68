package pipeline

import (
	"flag"
	"log/slog"
	"os"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

// TestMain lets the process also be a worker, as a runner starts it.
func TestMain(m *testing.M) {
	flag.Parse()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // a runner logs every bundle, and failures that tests cause
	beam.Init()
	os.Exit(m.Run())
}
