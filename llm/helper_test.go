//go:build native

package llm

import (
	"os"
	"testing"
)

func testModel(t testing.TB) string {
	return os.Getenv("SLUICE_TEST_GGUF")
}
