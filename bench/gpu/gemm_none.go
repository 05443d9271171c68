//go:build !(native && cgo && linux && (amd64 || arm64))

package gpu

import (
	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/engine"
)

// gemm needs the native build.
type gemm struct{ version string }

type prepared struct{}

func openGEMM(string) (*gemm, error) { return nil, cuda.ErrUnavailable }

func (*gemm) prepare(*cuda.Device, engine.Vectors, engine.Vectors) (*prepared, error) {
	return nil, cuda.ErrUnavailable
}

func (*prepared) run() (multiplied, error) { return multiplied{}, cuda.ErrUnavailable }

func (*prepared) close() {}
