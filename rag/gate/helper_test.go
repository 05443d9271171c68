package gate

import (
	"testing"

	"github.com/sluice-rag/sluice/engine"
)

func newEngine(t testing.TB) *engine.Engine {
	t.Helper()
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}
