//go:build cgo && amd64 && !noamx

package cpu

// With the build tag noamx, which `make build` sets on machines without AMX, its kernels and their emulation are left
// out: a fifth of what the compiler takes for this package.

// #cgo CFLAGS: -DSLC_WITH_AMX
import "C"
