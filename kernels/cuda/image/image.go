// Package image holds the compiled kernels of kernels/cuda.
package image

import _ "embed"

//go:embed sluice.fatbin
var bytes []byte

// Bytes returns the image of all kernels for every target architecture (`make cuda-image`). It must not be modified.
func Bytes() []byte { return bytes }
