//go:build cgo && linux

package limits

// #include "limits.h"
import "C"

func units() (kinds map[int]bool, wide int) { return map[int]bool{C.LIM_FMA_BASE: true}, 0 }
