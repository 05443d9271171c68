//go:build !native || !cgo || !linux || !(amd64 || arm64)

package doctor

import "testing"

func TestNoGPUIsSaid(t *testing.T) { noGPU(t) }
