package setup

import (
	"context"
	"os"
	"path/filepath"

	"github.com/sluice-rag/sluice/internal/filehash"
)

// onnxCUDARequirements pins ONNX Runtime's build for NVIDIA GPUs, and what it opens.
var onnxCUDARequirements = filepath.Join("third_party", "cuda", "onnxruntime-requirements.txt")

// onnxCUDA puts the libraries of those wheels into one folder, which package embed searches.
func onnxCUDA() recipe {
	return recipe{
		name: "libonnxruntime-cuda", version: 1,
		inputs: func(ctx context.Context, e *Env) ([]string, error) {
			pins, err := filehash.Sum(ctx, filepath.Join(e.Repo, onnxCUDARequirements))
			return []string{pins}, err
		},
		build: func(ctx context.Context, e *Env, j job) error {
			e.console.printf("onnxruntime-cuda: downloading ONNX Runtime for CUDA 13 and NVIDIA's libraries " +
				"(1.3 GB, 2.2 GB unpacked)")
			path, _, _, err := e.python(ctx)
			if err != nil {
				return err
			}
			wheels := filepath.Join(j.work, "wheels")
			if err := os.RemoveAll(wheels); err != nil {
				return err
			}
			if err := e.pip(ctx, j, path, "--target", wheels, "--require-hashes", "--only-binary=:all:", "--no-compile",
				"-r", filepath.Join(e.Repo, onnxCUDARequirements)); err != nil {
				return err
			}
			libs, err := glob(wheels, "onnxruntime/capi/libonnxruntime.so.*",
				"onnxruntime/capi/libonnxruntime_providers_cuda.so",
				"onnxruntime/capi/libonnxruntime_providers_shared.so", "nvidia/*/lib/lib*.so.*",
				"onnxruntime/LICENSE", "onnxruntime/ThirdPartyNotices.txt", "nvidia_cudnn*.dist-info/licenses/*")
			if err != nil {
				return err
			}
			to := filepath.Join(j.out, "lib")
			if err := os.MkdirAll(to, 0o755); err != nil {
				return err
			}
			for _, lib := range libs {
				if err := os.Rename(lib, filepath.Join(to, filepath.Base(lib))); err != nil {
					return err
				}
			}
			return os.RemoveAll(wheels)
		},
	}
}

func onnxCUDAKey(ctx context.Context, e *Env) (string, error) {
	key, err := onnxCUDA().key(ctx, e)
	return there(key, e.Cache.Path("out", key)), err
}
