//go:build !cgo || !(amd64 || arm64)

package cpu

// Available lists the instruction sets of this build: plain Go only.
func Available() []ISA { return []ISA{Go} }

func hasAMX() bool { return false }

func fasterWithWinograd() bool { return false }
