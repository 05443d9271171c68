package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/sluice-rag/sluice/bench/harness"
	"github.com/sluice-rag/sluice/bench/peers"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// coreType is the environment variable that chooses OpenBLAS's kernels.
const coreType = "OPENBLAS_CORETYPE"

// openBLAS returns the environment of a library's side-car that selects the kernels of its OpenBLAS; the result is
// cached. An OpenBLAS older than the processor may select old kernels: 0.3.15, which FAISS's wheel contains, selects
// AMD Barcelona's on Zen 5. So the AVX-512 kernels are tried if the processor has AVX-512.
func (s *session) openBLAS(ctx context.Context, library string) (env []string, err error) {
	if library == "sklearn" {
		library = "numpy" // it multiplies with NumPy
	}
	if library != "numpy" && library != "faiss" || !slices.Contains(cpu.Available(), cpu.AVX512) {
		return nil, nil
	}
	if env, ok := s.blas[library]; ok {
		return env, nil
	}
	usual, err := s.openBLASKernels(ctx, library, "")
	if err != nil {
		return nil, err
	}
	wide, err := s.openBLASKernels(ctx, library, "SkylakeX")
	if err != nil {
		return nil, err
	}
	if wide.Rate > 1.05*usual.Rate && wide.Kernels != usual.Kernels {
		env = []string{coreType + "=" + wide.Kernels}
		s.note("the OpenBLAS of %s has %s: %.4g GFLOP/s on one thread, its own choice (%s) %.4g", library, env[0],
			harness.Digits(wide.Rate/1e9), usual.Kernels, harness.Digits(usual.Rate/1e9))
	}
	s.blas[library] = env
	return env, nil
}

type openBLASKernels struct {
	Kernels string  `json:"kernels"`
	Rate    float64 `json:"rate"`
}

// openBLASKernels runs openblas.py; "" lets OpenBLAS choose.
func (s *session) openBLASKernels(ctx context.Context, library, choice string) (k openBLASKernels, err error) {
	cmd := exec.CommandContext(ctx, s.o.Python, filepath.Join(s.scripts, "openblas.py"), library)
	cmd.Env = peers.Environment(1)
	if choice != "" {
		cmd.Env = append(cmd.Env, coreType+"="+choice)
	}
	text, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(text, &k)
	}
	if err != nil {
		return k, fmt.Errorf("%w: the OpenBLAS of %s: %w", ErrPeer, library, err)
	}
	return k, nil
}
