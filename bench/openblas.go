package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/sluice-rag/sluice/bench/harness"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// coreType is the environment variable that chooses OpenBLAS's kernels.
const coreType = "OPENBLAS_CORETYPE"

// openBLAS is the environment for side-cars with OpenBLAS, found out once. OpenBLAS takes its AVX2 kernels on
// processors with AVX-512 that are newer than it knows (0.3.30 on AMD Zen 5: half the speed), so its AVX-512
// kernels are tried. A choice of the user stays.
func (s *session) openBLAS(ctx context.Context) (env []string, err error) {
	if s.blas != nil {
		return s.blas, nil
	}
	env, err = s.chooseOpenBLAS(ctx)
	if err == nil {
		s.blas = append([]string{}, env...)
	}
	return env, err
}

func (s *session) chooseOpenBLAS(ctx context.Context) (env []string, err error) {
	if os.Getenv(coreType) != "" || !slices.Contains(cpu.Available(), cpu.AVX512) {
		return nil, nil
	}
	usual, err := s.openBLASKernels(ctx, "")
	if err != nil {
		return nil, err
	}
	wide, err := s.openBLASKernels(ctx, "SkylakeX")
	if err != nil {
		return nil, err
	}
	s.log("OpenBLAS on one thread: %s %.4g GFLOP/s, %s %.4g GFLOP/s", usual.Kernels, usual.Rate/1e9, wide.Kernels,
		wide.Rate/1e9)
	// OpenBLAS is made for Intel's processors, so its own choice needs a reason to be overruled there. Elsewhere a
	// tie is one: older versions, like that inside FAISS, know the processor even less.
	factor := 0.97
	if harness.Vendor() == "GenuineIntel" {
		factor = 1.05
	}
	if wide.Rate < factor*usual.Rate || wide.Kernels == usual.Kernels {
		return nil, nil
	}
	s.note("OpenBLAS of the peers has %s=SkylakeX: %.4g GFLOP/s on one thread, its own choice (%s) %.4g",
		coreType, harness.Digits(wide.Rate/1e9), usual.Kernels, harness.Digits(usual.Rate/1e9))
	return []string{coreType + "=SkylakeX"}, nil
}

type openBLASKernels struct {
	Kernels string  `json:"kernels"`
	Rate    float64 `json:"rate"`
}

// openBLASKernels runs openblas.py; "" lets OpenBLAS choose.
func (s *session) openBLASKernels(ctx context.Context, choice string) (k openBLASKernels, err error) {
	cmd := exec.CommandContext(ctx, s.o.Python, filepath.Join(s.scripts, "openblas.py"))
	cmd.Env = append(os.Environ(), quietThreads(1)...)
	if choice != "" {
		cmd.Env = append(cmd.Env, coreType+"="+choice)
	}
	text, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(text, &k)
	}
	if err != nil {
		return k, fmt.Errorf("%w: OpenBLAS: %w", ErrPeer, err)
	}
	return k, nil
}
