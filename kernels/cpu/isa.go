package cpu

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/kernels"
)

// ISA names an instruction set that kernels are built for.
type ISA uint8

// The instruction sets, numbered as in slc/slc.h; Go stands for kernels/ref.
const (
	Scalar     ISA = iota // baseline of the compiler's target: SSE2 or NEON
	AVX2                  // with FMA
	AVXVNNI               // also AVX-VNNI: the scan, the encoder's products of 8 bits and tiles of 16
	AVX512                // F, BW, DQ, VL: all but the first processors with AVX-512
	AVX512VNNI            // also VNNI: tiles of 8 and 16 bits
	AMX                   // also AMX-BF16, AMX-INT8: tiles and the encoder's products
	NEON                  // with FMA, in every arm64 processor
	DotProd               // also SDOT: the scan, the encoder's products and tiles of 8 bits
	I8MM                  // also SMMLA: the encoder's products and tiles of 8 bits
	BF16                  // also BFMMLA: tiles of bfloat16
	Go
)

var isaNames = [...]string{Scalar: "scalar", AVX2: "avx2", AVXVNNI: "avxvnni", AVX512: "avx512",
	AVX512VNNI: "avx512vnni", AMX: "amx", NEON: "neon", DotProd: "dotprod", I8MM: "i8mm", BF16: "bf16", Go: "go"}

func (i ISA) String() string { return isaNames[i] }

// Kernels selects the kernels of one instruction set; the packages below this one take it as an argument.
type Kernels struct {
	isa      ISA
	products products
}

// products selects how encoder.Linear multiplies; everything else follows the instruction set.
type products uint8

const (
	ordinary    products = iota
	emulatedAMX          // AMX's algorithm with emulated tile instructions; encoder.Encode as well
	winograd             // Winograd's inner products
)

// EmulatedAMX names the best kernels of this machine with the products of encoder.Linear as AMX computes them: its tile
// instructions are emulated, bit for bit and slowly, on any amd64 machine with AVX2. It is for tests, and for
// reproducing vectors of a machine with AMX.
const EmulatedAMX = "amx-emulated"

// Winograd, appended to "avx2" or "avx512vnni", selects the kernels of that instruction set with float32 products in
// encoder.Linear that need fewer multiplications and as many additions. That is faster on processors that execute
// additions in parallel with multiply-adds: Open("") selects it there.
const Winograd = "-winograd"

// Open returns the kernels of the named instruction set ("scalar", "avx2", "avxvnni", "avx512", "avx512vnni", "amx",
// "neon", "dotprod", "i8mm", "bf16", "go"), optionally with Winograd's products; the best of this machine for ""; or
// EmulatedAMX. If the machine or the build lacks it, the error is kernels.ErrISA.
func Open(name string) (Kernels, error) {
	available := Available()
	if name == "" {
		k := Kernels{isa: available[0]}
		if fasterWithWinograd() && k.hasWinograd() {
			k.products = winograd
		}
		return k, nil
	}
	emulated := Kernels{available[0], emulatedAMX}
	if name == EmulatedAMX && slices.Contains(available, AVX2) && hasAMX() {
		return emulated, nil
	}
	base, found := strings.CutSuffix(name, Winograd)
	for _, isa := range available {
		k := Kernels{isa: isa}
		if found {
			k.products = winograd
		}
		if isa.String() == base && (!found || k.hasWinograd()) {
			return k, nil
		}
	}
	names := make([]string, len(available))
	for i, isa := range available {
		names[i] = isa.String()
	}
	return Kernels{},
		fmt.Errorf("%w: %q (this build on this machine has: %s)", kernels.ErrISA, name, strings.Join(names, ", "))
}

// EmulatesAMX reports whether the kernels were opened as EmulatedAMX.
func (k Kernels) EmulatesAMX() bool { return k.products == emulatedAMX }

// UsesWinograd reports whether encoder.Linear uses Winograd's products.
func (k Kernels) UsesWinograd() bool { return k.products == winograd }

func (k Kernels) hasWinograd() bool { return k.isa == AVX2 || k.isa == AVX512VNNI }

// ISA returns the instruction set in use, except for the products of EmulatedAMX.
func (k Kernels) ISA() ISA { return k.isa }

// String returns the name with which Open returns these kernels.
func (k Kernels) String() string {
	switch k.products {
	case emulatedAMX:
		return EmulatedAMX
	case winograd:
		return k.isa.String() + Winograd
	}
	return k.isa.String()
}
