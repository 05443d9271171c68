//go:build cgo && (amd64 || arm64)

package cpu

// #cgo CFLAGS: -std=c11 -g1 -Wall -Wextra
// #cgo amd64,!noamx CFLAGS: -DSLC_WITH_AMX
// #include "machine.h"
import "C"

import cpuid "golang.org/x/sys/cpu"

// Available lists the instruction sets of this build on this machine, best first: those that the CPU supports (CPUID)
// and whose registers the operating system saves (XCR0), or those that the operating system names (AT_HWCAP of arm64).
// x/sys/cpu reads all of these but BF16.
func Available() []ISA {
	var found []ISA
	if a := cpuid.ARM64; a.HasASIMD {
		if a.HasASIMDDP {
			if a.HasI8MM {
				if C.slc_has_bfmmla() != 0 {
					found = append(found, BF16)
				}
				found = append(found, I8MM)
			}
			found = append(found, DotProd)
		}
		found = append(found, NEON)
	}
	x := cpuid.X86
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX2 && x.HasFMA && x.HasBMI2 {
		if x.HasAVX512VNNI {
			if x.HasAMXTile && x.HasAMXBF16 && x.HasAMXInt8 && x.HasAVX512BF16 && x.HasAVX512VBMI &&
				C.slc_permit_amx() == 0 {
				found = append(found, AMX)
			}
			found = append(found, AVX512VNNI)
		}
		found = append(found, AVX512)
	}
	if x.HasAVX2 && x.HasFMA {
		if x.HasAVXVNNI {
			found = append(found, AVXVNNI)
		}
		found = append(found, AVX2)
	}
	return append(found, Scalar, Go)
}

// hasAMX reports whether this build includes the AMX kernels.
func hasAMX() bool { return C.slc_has_amx() != 0 }

// fasterWithWinograd reports whether this processor executes additions in parallel with multiply-adds.
func fasterWithWinograd() bool { return C.slc_is_zen_3_or_4() != 0 }
