package generator

import (
	"encoding/binary"
	"math"
	"slices"
)

// blocks is a type of tensors. Layouts: ggml's ggml-common.h. What is written is good enough for weights that mean
// nothing: ggml's own quantisation looks for better scales.
type blocks struct {
	id            uint32 // ggml_type
	values, bytes int    // of a block
	encode        func(v []float32) []byte
}

func types() map[string]blocks {
	return map[string]blocks{
		"F32":    float32s(),
		"F16":    {1, 1, 2, func(v []float32) []byte { return binary.LittleEndian.AppendUint16(nil, half(v[0])) }},
		"Q4_0":   {2, 32, 18, q4},
		"Q4_1":   {3, 32, 20, q41},
		"Q5_0":   {6, 32, 22, func(v []float32) []byte { return q5(v, absMax(v)/16, -absMax(v), nil) }},
		"Q5_1":   {7, 32, 24, q51},
		"Q8_0":   {8, 32, 34, q8},
		"Q4_K":   {12, 256, 144, func(v []float32) []byte { return qk(v, 4) }},
		"Q5_K":   {13, 256, 176, func(v []float32) []byte { return qk(v, 5) }},
		"Q6_K":   {14, 256, 210, q6k},
		"IQ4_XS": {23, 256, 136, iq4},
	}
}

func float32s() blocks {
	return blocks{0, 1, 4, func(v []float32) []byte {
		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(v[0]))
	}}
}

func absMax(v []float32) (largest float64) {
	for _, x := range v {
		largest = max(largest, math.Abs(float64(x)))
	}
	return largest
}

// level returns the nearest of the levels lo…hi for x in units of d.
func level(x float32, d float64, lo, hi int) int {
	if d == 0 {
		return 0
	}
	return min(max(int(math.RoundToEven(float64(x)/d)), lo), hi)
}

func putHalf(b []byte, x float64) { binary.LittleEndian.PutUint16(b, half(float32(x))) }

// nibbles packs two values a byte: the first half's low, the second half's high.
func nibbles(b []byte, v []float32, d, shift float64) {
	for i := range b {
		b[i] = byte(level(v[i]-float32(shift), d, 0, 15) | level(v[i+len(b)]-float32(shift), d, 0, 15)<<4)
	}
}

func q4(v []float32) []byte {
	b := make([]byte, 18)
	d := absMax(v) / 8
	putHalf(b, d)
	nibbles(b[2:], v, d, -8*d)
	return b
}

func q41(v []float32) []byte {
	b := make([]byte, 20)
	lowest := float64(slices.Min(v))
	d := (float64(slices.Max(v)) - lowest) / 15
	putHalf(b, d)
	putHalf(b[2:], lowest)
	nibbles(b[4:], v, d, lowest)
	return b
}

// q5 puts the numbers' fifth bits between the scale, perhaps with a minimum, and the four others.
func q5(v []float32, d, lowest float64, minimum []byte) []byte {
	b := make([]byte, 2, 24)
	putHalf(b, d)
	b = append(b, minimum...)
	var fifth uint32
	low := make([]byte, 16)
	for i, x := range v {
		n := level(x-float32(lowest), d, 0, 31)
		fifth |= uint32(n>>4) << i
		low[i%16] |= byte(n&15) << (i / 16 * 4)
	}
	return append(binary.LittleEndian.AppendUint32(b, fifth), low...)
}

func q51(v []float32) []byte {
	lowest, minimum := float64(slices.Min(v)), make([]byte, 2)
	putHalf(minimum, lowest)
	return q5(v, (float64(slices.Max(v))-lowest)/31, lowest, minimum)
}

func q8(v []float32) []byte {
	b := make([]byte, 34)
	d := absMax(v) / 127
	putHalf(b, d)
	for i, x := range v {
		b[2+i] = byte(int8(level(x, d, -127, 127)))
	}
	return b
}

// qk is Q4_K or Q5_K: eight runs of 32 with a scale and a minimum of six bits each. For Q5_K the fifth bits come first.
func qk(v []float32, bits int) []byte {
	var scales, minima [8]float32
	top := float64(int(1)<<bits - 1)
	for j := range 8 {
		run := v[32*j : 32*j+32]
		lowest := min(0, float64(slices.Min(run)))
		scales[j], minima[j] = float32((float64(slices.Max(run))-lowest)/top), float32(-lowest)
	}
	d, dmin := absMax(scales[:])/63, absMax(minima[:])/63
	high := 32 * (bits - 4)
	b := make([]byte, 16+high+128)
	putHalf(b, d)
	putHalf(b[2:], dmin)
	for j := range 8 {
		scale, minimum := level(scales[j], d, 0, 63), level(minima[j], dmin, 0, 63)
		if j < 4 {
			b[4+j] |= byte(scale)
			b[8+j] |= byte(minimum)
		} else {
			b[8+j] = byte(scale&15 | minimum&15<<4)
			b[j] |= byte(scale >> 4 << 6)
			b[4+j] |= byte(minimum >> 4 << 6)
		}
		for i, x := range v[32*j : 32*j+32] {
			q := level(x+float32(float64(minimum)*dmin), float64(scale)*d, 0, int(top))
			b[16+high+32*(j/2)+i] |= byte(q & 15 << (4 * (j % 2)))
			if high > 0 {
				b[16+i] |= byte(q >> 4 << j)
			}
		}
	}
	return b
}

// q6k has 16 runs of 16 with a scale of eight bits: low four bits, high two, scales, d.
func q6k(v []float32) []byte {
	b := make([]byte, 210)
	d := absMax(v) / 31 / 127
	putHalf(b[208:], d)
	for run := range 16 {
		scale := level(float32(absMax(v[16*run:16*run+16])/31), d, 0, 127)
		b[192+run] = byte(scale)
		for i, x := range v[16*run : 16*run+16] {
			q := level(x, d*float64(scale), -32, 31) + 32
			at := 16*run + i
			n, part, l := at/128, at%128/32, at%32
			b[64*n+32*(part%2)+l] |= byte(q & 15 << (4 * (part / 2)))
			b[128+32*n+l] |= byte(q >> 4 << (2 * part))
		}
	}
	return b
}

// iq4 is IQ4_XS: eight runs of 32 with a scale of six bits around 32, and 16 levels that are not evenly spaced.
func iq4(v []float32) []byte {
	levels := []float64{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	b := make([]byte, 136)
	d := absMax(v) / 113 / 31
	putHalf(b, d)
	var high uint16
	for j := range 8 {
		run := v[32*j : 32*j+32]
		scale := max(1, level(float32(absMax(run)/113), d, 0, 31))
		high |= uint16((scale + 32) >> 4 << (2 * j))
		b[4+j/2] |= byte((scale + 32) & 15 << (4 * (j % 2)))
		for i, x := range run {
			best := 0
			for k, l := range levels {
				if math.Abs(float64(x)-l*d*float64(scale)) < math.Abs(float64(x)-levels[best]*d*float64(scale)) {
					best = k
				}
			}
			b[8+16*j+i%16] |= byte(best << (4 * (i / 16)))
		}
	}
	binary.LittleEndian.PutUint16(b[2:], high)
	return b
}
