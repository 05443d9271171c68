package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/sluice-rag/sluice/internal/filehash"
)

// EnvCUDAArch names the environment variable with the architecture that llama.cpp's CUDA back-end is compiled for: 75,
// 80, 86, 89, 90 or what else nvcc knows.
const EnvCUDAArch = "SLUICE_CUDA_ARCH"

const cudaArchDefault = "90"

var cudaArch = regexp.MustCompile(`^[0-9]{2,3}[af]?$`)

// llamaRequirements is the environment that the back-end is compiled in.
var llamaRequirements = filepath.Join("third_party", "cuda", "llama-requirements.txt")

func llamaToolkit() recipe {
	return pinnedPython("python-llama-cuda", llamaRequirements,
		"llama-cuda: making an environment of NVIDIA's compiler and cuBLAS (about 530 MB, 900 MB unpacked)")
}

// llamaCUDA builds ggml's CUDA back-end as a library that is opened at run time, with its own copy of ggml's base, for
// one architecture.
func llamaCUDA(arch string) recipe {
	return recipe{
		name: "llama-cuda-" + arch, version: 1,
		inputs: func(ctx context.Context, e *Env) ([]string, error) {
			in, err := llamaInputs(ctx, e)
			if err != nil {
				return nil, err
			}
			pins, err := filehash.Sum(ctx, filepath.Join(e.Repo, llamaRequirements))
			return append(in, pins, arch), err
		},
		build: func(ctx context.Context, e *Env, j job) error {
			if !cudaArch.MatchString(arch) {
				return fmt.Errorf("%s is %q, a number such as 90 is expected", EnvCUDAArch, arch)
			}
			tools, err := e.cudaToolkit(ctx, j)
			if err != nil {
				return err
			}
			e.console.printf("llama-cuda: compiling llama.cpp's CUDA back-end for sm_%s (about 150 compiler runs)", arch)
			flags := slices.Concat(cmakeFlags, []string{ // the last one of a name counts
				"-DLLAMA_BUILD_COMMON=OFF", "-DLLAMA_BUILD_TOOLS=OFF", "-DBUILD_SHARED_LIBS=ON", "-DGGML_BACKEND_DL=ON",
				"-DGGML_CPU=OFF", "-DGGML_CUDA=ON", "-DGGML_CUDA_NO_VMM=ON", "-DGGML_CUDA_NCCL=OFF",
				"-DCMAKE_CUDA_ARCHITECTURES=" + arch + "-real",
				"-DCMAKE_CUDA_COMPILER=" + filepath.Join(tools, "bin", "nvcc"), "-DCUDAToolkit_ROOT=" + tools,
				"-DCMAKE_BUILD_RPATH_USE_ORIGIN=ON"})
			if err := e.cmake(ctx, j, llamaTree, nil, flags, "ggml-cuda"); err != nil {
				return err
			}
			libs, err := glob(filepath.Join(j.work, "build", "bin"), "libggml-cuda.so", "libggml-base.so*")
			if err != nil {
				return err
			}
			return copyInto(filepath.Join(j.out, "lib"), libs...)
		},
	}
}

// cudaToolkit lays the wheels' files out as cmake looks for them: lib64, and libraries without a version in their
// names.
func (e *Env) cudaToolkit(ctx context.Context, j job) (string, error) {
	out, err := e.output(ctx, llamaToolkit())
	if err != nil {
		return "", err
	}
	from, err := glob(out, toolkit)
	if err != nil {
		return "", err
	}
	to := filepath.Join(j.work, "toolkit")
	if err := os.RemoveAll(to); err != nil {
		return "", err
	}
	if err := e.run(ctx, j, j.work, nil, "cp", "-a", from[0], to); err != nil { // nvcc looks for the rest beside itself
		return "", err
	}
	err = os.Symlink("lib", filepath.Join(to, "lib64"))
	for _, lib := range []string{"cudart", "cublas", "cublasLt"} {
		name := "lib" + lib + ".so"
		err = errors.Join(err, os.Symlink(name+".13", filepath.Join(to, "lib", name)))
	}
	return to, err
}
