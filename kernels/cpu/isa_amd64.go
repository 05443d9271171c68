//go:build cgo

package cpu

// #include "slc.h"
import "C"

import cpuid "golang.org/x/sys/cpu"

// extensions lists what the CPU has (CPUID) and the operating system saves (XCR0; x/sys/cpu asks both).
func extensions() []ISA {
	var found []ISA
	x := cpuid.X86
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX2 && x.HasFMA {
		if x.HasAVX512VNNI {
			if x.HasAMXTile && x.HasAMXBF16 && x.HasAMXInt8 && x.HasAVX512BF16 && x.HasAVX512VBMI && permitAMX() {
				found = append(found, AMX)
			}
			found = append(found, AVX512VNNI)
		}
		found = append(found, AVX512)
	}
	if x.HasAVX2 && x.HasFMA {
		found = append(found, AVX2)
	}
	return found
}

// addsBeside tells whether this processor adds beside its multiply-adds.
func addsBeside() bool { return C.slc_adds_beside() != 0 }
