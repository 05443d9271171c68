package statistics

import (
	"testing"

	"github.com/sluice-rag/sluice/engine/internal/device/devicetest"
)

// TestStandIn runs all tests of the package again, with a device behind the interface that is not the CPU.
func TestStandIn(t *testing.T) { devicetest.RunAgain(t, "Stretches|Selection|NoInput") }
