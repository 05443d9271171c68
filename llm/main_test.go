package llm

import (
	"testing"

	"go.uber.org/goleak"
)

// Nothing keeps running when the tests are over.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
