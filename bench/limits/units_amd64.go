//go:build cgo && linux

package limits

// #include "limits.h"
import "C"

import "golang.org/x/sys/cpu"

// units returns the kinds that this CPU and its kernel have, and how wide lim_read may load.
func units() (kinds map[int]bool, wide int) {
	x := cpu.X86
	avx2, avx512 := x.HasAVX2 && x.HasFMA, x.HasAVX512F
	tiles := (x.HasAMXBF16 || x.HasAMXInt8) && x.HasAMXTile && C.lim_amx() == 0
	kinds = map[int]bool{
		C.LIM_FMA_BASE: true, C.LIM_FMA_AVX2: avx2, C.LIM_FMA_AVX512: avx512, C.LIM_VNNI: avx512 && x.HasAVX512VNNI,
		C.LIM_AMX_BF16: tiles && x.HasAMXBF16, C.LIM_AMX_I8: tiles && x.HasAMXInt8,
	}
	switch {
	case avx512:
		wide = 2
	case avx2:
		wide = 1
	}
	return kinds, wide
}
