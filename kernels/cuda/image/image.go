// Package image holds the compiled kernels of kernels/cuda.
package image

import _ "embed"

//go:embed sluice.fatbin
var bytes []byte

// Bytes is the image of all kernels for every architecture that they are compiled for (`make cuda-image`). It must not
// be changed.
func Bytes() []byte { return bytes }
