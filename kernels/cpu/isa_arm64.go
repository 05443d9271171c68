//go:build cgo

package cpu

// extensions: NEON is the baseline of arm64, which Scalar is compiled for.
func extensions() []ISA { return nil }

func addsBeside() bool { return false }
