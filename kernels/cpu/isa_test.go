package cpu_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
	. "github.com/sluice-rag/sluice/kernels/cpu"
)

func TestOpen(t *testing.T) {
	best, err := Open("")
	if err != nil || best.ISA() != Available()[0] {
		t.Fatalf("best: %v, %v", best.ISA(), err)
	}
	if _, err := Open("sse9"); !errors.Is(err, kernels.ErrISA) ||
		!strings.Contains(err.Error(), Available()[0].String()) {
		t.Errorf("an unknown instruction set: %v", err)
	}
	for _, isa := range []ISA{Scalar, AVX2, AVXVNNI, AVX512, AVX512VNNI, AMX, NEON, DotProd, I8MM, BF16, Go} {
		k, err := Open(isa.String())
		if has := fmt.Sprint(Available()); (err == nil) != strings.Contains(has, isa.String()) {
			t.Errorf("%s of %s: %v", isa, has, err)
		}
		if err == nil && k.String() != isa.String() {
			t.Errorf("%s: kernels named %q", isa, k)
		}
	}
}
