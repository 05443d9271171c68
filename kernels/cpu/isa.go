package cpu

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/kernels"
)

// ISA names an instruction set that kernels are built for.
type ISA uint8

// The instruction sets, numbered like slc.h; Go stands for kernels/ref.
const (
	Scalar     ISA = iota // baseline of the compiler's target: SSE2 or NEON
	AVX2                  // with FMA
	AVX512                // F, BW, DQ, VL, as all but the first processors with AVX-512 have
	AVX512VNNI            // also VNNI: tiles of 8 and 16 bits
	AMX                   // also AMX-BF16, AMX-INT8: tiles and the encoder's products
	Go
)

var isaNames = [...]string{Scalar: "scalar", AVX2: "avx2", AVX512: "avx512", AVX512VNNI: "avx512vnni", AMX: "amx",
	Go: "go"}

func (i ISA) String() string { return isaNames[i] }

// Kernels are the kernels of one instruction set.
type Kernels struct {
	isa      ISA
	emulated bool // Linear and Encode are those of AMX with its tile instructions emulated
}

// EmulatedAMX names the best kernels of this machine with the products of Linear as AMX computes them: its tile
// instructions are emulated, bit for bit and slowly, on any amd64 machine with AVX2. It is for tests, and for vectors
// that a machine with AMX has to repeat.
const EmulatedAMX = "amx-emulated"

// Open returns the kernels of the named instruction set ("scalar", "avx2", "avx512", "avx512vnni", "amx", "go"), or the
// best of this machine for "", or EmulatedAMX. One that the machine or the build lacks is kernels.ErrISA.
func Open(name string) (Kernels, error) {
	available := Available()
	if name == "" {
		return Kernels{isa: available[0]}, nil
	}
	if name == EmulatedAMX && slices.Contains(available, AVX2) {
		return Kernels{available[0], true}, nil
	}
	for _, isa := range available {
		if isa.String() == name {
			return Kernels{isa: isa}, nil
		}
	}
	names := make([]string, len(available))
	for i, isa := range available {
		names[i] = isa.String()
	}
	return Kernels{},
		fmt.Errorf("%w: %q (this build on this machine has: %s)", kernels.ErrISA, name, strings.Join(names, ", "))
}

// ISA is the instruction set in use, but for what EmulatedAMX emulates.
func (k Kernels) ISA() ISA { return k.isa }

// String is a name for which Open gives these kernels.
func (k Kernels) String() string {
	if k.emulated {
		return EmulatedAMX
	}
	return k.isa.String()
}
