// Package kernels defines what all compute layers of Sluice share: the metrics, the data types and the errors.
// kernels/ref is the reference implementation, kernels/cpu the C implementation.
package kernels

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Metric selects how two vectors are compared.
type Metric uint8

const (
	// Cosine is a·b/(‖a‖‖b‖), clamped to [−1, 1]; a zero vector has cosine 0 with everything.
	Cosine Metric = iota
	// IP is the inner product a·b.
	IP
	// L2 is the Euclidean distance ‖a − b‖: smaller is closer.
	L2
)

var metricNames = [...]string{Cosine: "cosine", IP: "ip", L2: "l2"}

// String returns the metric's name as used in flags, files and kernels.
func (m Metric) String() string {
	if int(m) < len(metricNames) {
		return metricNames[m]
	}
	return fmt.Sprintf("metric(%d)", uint8(m))
}

// ParseMetric is the inverse of String; an unknown name returns ErrMetric.
func ParseMetric(name string) (Metric, error) {
	for m, n := range metricNames {
		if n == name {
			return Metric(m), nil
		}
	}
	return 0, fmt.Errorf("%w: %q (known: cosine, ip, l2)", ErrMetric, name)
}

// MarshalText encodes the metric as its name in JSON and YAML.
func (m Metric) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (m *Metric) UnmarshalText(b []byte) (err error) { *m, err = ParseMetric(string(b)); return err }

// Ascending reports whether a smaller score is closer (L2 only).
func (m Metric) Ascending() bool { return m == L2 }

// Better reports whether score a is strictly closer than score b.
func (m Metric) Better(a, b float64) bool {
	if m == L2 {
		return a < b
	}
	return a > b
}

// Worst is a score that every finite score is better than.
func (m Metric) Worst() float64 {
	if m == L2 {
		return math.Inf(1)
	}
	return math.Inf(-1)
}

// Biased adds a bias b ≥ 0 in the direction of closeness: score + b, for L2 distance − b.
func (m Metric) Biased(score, b float64) float64 {
	if m == L2 {
		return score - b
	}
	return score + b
}

// The errors of the compute layers. They are wrapped with the place and the values given.
var (
	ErrMetric      = errors.New("unknown metric")
	ErrArgument    = errors.New("argument out of range")
	ErrShape       = errors.New("shapes do not fit")
	ErrEmpty       = errors.New("empty input")
	ErrNonFinite   = errors.New("non-finite value")
	ErrRange       = errors.New("vectors too long or too short for the format")
	ErrMemoryLimit = errors.New("memory limit too small")
	ErrISA         = errors.New("instruction set not available")
	ErrUnavailable = errors.New("not available in this build or on this machine")
)

// DType is the number format in which a bounded kernel multiplies. Sums are float32; int32 for I8, and for every 32
// products of I16; for every 32 products of FP8 they have about as many bits as float16.
type DType uint8

const (
	// F32 multiplies float32. With AMX each value is split into three bfloat16 parts, which hold all its bits, and the
	// six products that affect a float32 sum are added.
	F32 DType = iota
	// BF16x3 splits each value into two bfloat16 and drops the product of the low halves: about as accurate as F32
	// (Henry, Tang, Heinecke, "Leveraging the bfloat16 AI datatype", 2019).
	BF16x3
	// BF16 rounds each value to bfloat16.
	BF16
	// I8 rounds each vector to 8-bit integers with a scale per vector.
	I8
	// I16 rounds each vector to 16-bit integers with a scale per vector: about 20 times coarser than F32.
	I16
	// FP8 rounds each vector to 8-bit floats with three fraction bits (e4m3; Micikevicius et al., "FP8 formats for deep
	// learning", 2022) and a scale per vector. Only GPUs support it.
	FP8
	// DTypes is the number of formats.
	DTypes
)

var dtypeNames = [...]string{F32: "f32", BF16x3: "bf16x3", BF16: "bf16", I8: "i8", I16: "i16", FP8: "fp8"}

// String returns the type's name as used in flags and kernels.
func (t DType) String() string {
	if int(t) < len(dtypeNames) {
		return dtypeNames[t]
	}
	return fmt.Sprintf("dtype(%d)", uint8(t))
}

// ParseDType is the inverse of String; an unknown name returns ErrArgument.
func ParseDType(name string) (DType, error) {
	for t, n := range dtypeNames {
		if n == name {
			return DType(t), nil
		}
	}
	return 0, fmt.Errorf("%w: data type %q (known: %s)", ErrArgument, name, strings.Join(dtypeNames[:], ", "))
}
