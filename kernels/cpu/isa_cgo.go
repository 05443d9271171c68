//go:build cgo && (amd64 || arm64)

package cpu

// #include "slc.h"
import "C"

// Available lists the instruction sets of this build on this machine, best first.
func Available() []ISA { return append(extensions(), Scalar, Go) }

// permitAMX asks the operating system for the tile registers.
func permitAMX() bool { return C.slc_permit_amx() == 0 }
