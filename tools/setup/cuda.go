package setup

import (
	"archive/zip"
	"context"
	"fmt"
	"path/filepath"

	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/filehash"
	"github.com/sluice-rag/sluice/internal/models"
)

// cudaHeaders returns the folder of cuda.h, which takes NVIDIA's header (a wheel of some 2 MB) through cuda/compat.
// Only compilers read it: the driver itself is opened at run time. The folder lies in the cache and has the
// digest of cuda/compat in its name, as the Makefile has it: Go does not see edits of headers outside a package,
// but it does see another path, and clones with the same header share what is compiled.
func (e *Env) cudaHeaders(ctx context.Context) (string, error) {
	sum, err := filehash.Sum(ctx, filepath.Join(e.Repo, "cuda", "compat", "cuda.h"))
	if err != nil {
		return "", err
	}
	return e.Cache.Path("include", "cuda-"+sum[:12]), nil
}

// cudaKey describes the headers and whether they are installed, so that missing ones are assembled.
func cudaKey(ctx context.Context, e *Env) (string, error) {
	dir, err := e.cudaHeaders(ctx)
	if err != nil {
		return "", err
	}
	return there(e.Manifest.Native.CUDA.Header.SHA256, filepath.Join(dir, "cuda.h")), nil
}

func assembleCUDA(ctx context.Context, e *Env, _ []string) error {
	dir, err := e.cudaHeaders(ctx)
	if err != nil {
		return err
	}
	spec := e.Manifest.Native.CUDA
	pkg, _ := e.Manifest.Package(spec.Package)
	python, _, _, err := e.python(ctx)
	if err != nil {
		return err
	}
	blob := pkg.Wheels[0]
	e.console.printf("cuda: %s from %s (%s)", spec.Header.Member, blob.File, size(blob.Size))
	wheel, err := fetch.Pip{Python: python, Cache: e.Cache}.Wheel(ctx, pkg, blob, e.console.bytes)
	if err != nil {
		return err
	}
	z, err := zip.OpenReader(wheel)
	if err != nil {
		return err
	}
	defer z.Close()
	unlock, err := e.Cache.Lock(ctx, filepath.Base(dir))
	if err != nil {
		return err
	}
	defer unlock()
	if err := models.Extract(&z.Reader, spec.Header, dir); err != nil {
		return err
	}
	return copyFile(filepath.Join(e.Repo, "cuda", "compat", "cuda.h"), filepath.Join(dir, "cuda.h"))
}

// nvcc installs an environment with NVIDIA's compiler. The product never uses it: the compiled kernels are checked in.
func nvcc() recipe {
	return pinnedPython("python-nvcc", filepath.Join("third_party", "cuda", "requirements.txt"),
		"nvcc: making an environment of NVIDIA's compiler (about 105 MB, 280 MB unpacked)")
}

// toolkit is the folder of the environment that nvcc calls its own.
const toolkit = "lib/python3.*/site-packages/nvidia/cu13"

func nvccKey(ctx context.Context, e *Env) (string, error) {
	key, err := nvcc().key(ctx, e)
	return there(key+" in "+e.Cache.Root(), filepath.Join(e.Repo, "build", "out", "nvcc")), err
}

func assembleNvcc(ctx context.Context, e *Env, outputs []string) error {
	programs, err := glob(outputs[0], toolkit+"/bin/nvcc", toolkit+"/bin/cuobjdump")
	if err != nil {
		return fmt.Errorf("%w: nvcc: %w", ErrPart, err)
	}
	for _, p := range programs {
		if err := e.run(ctx, job{name: "nvcc"}, e.Repo, nil, p, "--version"); err != nil {
			return fmt.Errorf("%w: nvcc: %w", ErrPart, err)
		}
		if err := launcher(filepath.Join(e.Repo, "build", "out", filepath.Base(p)), p); err != nil {
			return err
		}
	}
	return nil
}
