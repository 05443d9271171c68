package encoder_test

import (
	"testing"

	. "github.com/sluice-rag/sluice/kernels/cpu"
)

// TestIntegersAgree: codes are the same, their products are exact integers, and floats are added in the same order, so
// NEON, SDOT and SMMLA give the same bits.
func TestIntegersAgree(t *testing.T) {
	neon, err := Open(NEON.String())
	if err != nil {
		t.Skipf("SKIP: %v", err)
	}
	for _, isa := range []ISA{DotProd, I8MM, BF16} {
		t.Run(isa.String(), func(t *testing.T) {
			k, err := Open(isa.String())
			if err != nil {
				t.Skipf("SKIP: %v", err)
			}
			compareProducts(t, neon, k, true, normal)
		})
	}
}
