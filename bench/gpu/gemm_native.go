//go:build native && cgo && linux && (amd64 || arm64)

package gpu

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// What is called of cuBLASLt's interface (cublasLt.h of CUDA 12 and 13), with handles as pointers.
typedef struct {
	uint64_t algorithm[8];
	size_t workspace;
	int state;
	float waves;
	int reserved[4];
} slc_heuristic;

enum { bf16 = 14, f32 = 0, compute_f32 = 68, transpose_a = 3, transposed = 1, max_workspace = 1, algorithms = 8 };

typedef struct {
	int (*create)(void **);
	int (*destroy)(void *);
	size_t (*version)(void);
	int (*desc)(void **, int, int);
	int (*desc_set)(void *, int, const void *, size_t);
	int (*desc_destroy)(void *);
	int (*layout)(void **, int, uint64_t, uint64_t, int64_t);
	int (*layout_destroy)(void *);
	int (*preference)(void **);
	int (*preference_set)(void *, int, const void *, size_t);
	int (*preference_destroy)(void *);
	int (*heuristic)(void *, void *, void *, void *, void *, void *, void *, int, slc_heuristic *, int *);
	int (*matmul)(void *, void *, const void *, const void *, void *, const void *, void *, const void *, const void *,
		void *, void *, void *, const void *, void *, size_t, void *);
} slc_lt;

// slc_lt_open returns what is missing, or NULL. The library stays open.
static const char *slc_lt_open(slc_lt *l, const char *path) {
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib) return dlerror();
	struct { void *to; const char *name; } all[] = {
		{&l->create, "cublasLtCreate"}, {&l->destroy, "cublasLtDestroy"}, {&l->version, "cublasLtGetVersion"},
		{&l->desc, "cublasLtMatmulDescCreate"}, {&l->desc_set, "cublasLtMatmulDescSetAttribute"},
		{&l->desc_destroy, "cublasLtMatmulDescDestroy"}, {&l->layout, "cublasLtMatrixLayoutCreate"},
		{&l->layout_destroy, "cublasLtMatrixLayoutDestroy"}, {&l->preference, "cublasLtMatmulPreferenceCreate"},
		{&l->preference_set, "cublasLtMatmulPreferenceSetAttribute"},
		{&l->preference_destroy, "cublasLtMatmulPreferenceDestroy"},
		{&l->heuristic, "cublasLtMatmulAlgoGetHeuristic"}, {&l->matmul, "cublasLtMatmul"}};
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		void *f = dlsym(lib, all[i].name);
		if (!f) return all[i].name;
		memcpy(all[i].to, &f, sizeof f);
	}
	return NULL;
}

static size_t slc_lt_version(const slc_lt *l) { return l->version(); }

// slc_gemm is a product of n contexts and m queries of dim values: in cuBLASLt's columns, m × n results that are the
// queries, transposed, by the contexts.
typedef struct {
	void *handle, *desc, *a, *b, *d, *preference;
	slc_heuristic found[algorithms];
	int count;
} slc_gemm;

static void slc_gemm_close(const slc_lt *l, slc_gemm *g) {
	if (g->preference) l->preference_destroy(g->preference);
	if (g->a) l->layout_destroy(g->a);
	if (g->b) l->layout_destroy(g->b);
	if (g->d) l->layout_destroy(g->d);
	if (g->desc) l->desc_destroy(g->desc);
	if (g->handle) l->destroy(g->handle);
	memset(g, 0, sizeof *g);
}

static int slc_gemm_open(const slc_lt *l, slc_gemm *g, int64_t n, int64_t m, int64_t dim, size_t room) {
	int code, op = transposed;
	memset(g, 0, sizeof *g);
	if ((code = l->create(&g->handle)) || (code = l->desc(&g->desc, compute_f32, f32)) ||
		(code = l->desc_set(g->desc, transpose_a, &op, sizeof op)) ||
		(code = l->layout(&g->a, bf16, dim, m, dim)) || (code = l->layout(&g->b, bf16, dim, n, dim)) ||
		(code = l->layout(&g->d, bf16, m, n, m)) || (code = l->preference(&g->preference)) ||
		(code = l->preference_set(g->preference, max_workspace, &room, sizeof room)))
		return code;
	return l->heuristic(g->handle, g->desc, g->a, g->b, g->d, g->d, g->preference, algorithms, g->found, &g->count);
}

static int slc_gemm_run(const slc_lt *l, slc_gemm *g, int which, uint64_t contexts, uint64_t queries, uint64_t out,
	uint64_t workspace, size_t room, void *stream) {
	float one = 1, zero = 0;
	return l->matmul(g->handle, g->desc, &one, (void *)queries, g->a, (void *)contexts, g->b, &zero, (void *)out, g->d,
		(void *)out, g->d, g->found[which].algorithm, (void *)workspace, room, stream);
}
*/
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/engine"
)

// gemmWorkspace is the size of cuBLASLt's workspace in bytes: NVIDIA's advice for sm_90.
const gemmWorkspace = 32 << 20

// gemm is an open library.
type gemm struct {
	l       *C.slc_lt
	version string
}

// openGEMM opens libcublasLt; the error has the paths that were searched.
func openGEMM(path string) (*gemm, error) {
	paths := []string{path}
	if path == "" {
		root := os.Getenv("SLUICE_CACHE")
		if home, err := os.UserHomeDir(); root == "" && err == nil {
			root = filepath.Join(home, ".cache", "sluice")
		}
		found, _ := filepath.Glob(filepath.Join(root, "out", "libonnxruntime-cuda-*", "lib", "libcublasLt.so.*"))
		paths = append(found, "libcublasLt.so.13", "libcublasLt.so.12")
	}
	var errs []error
	for _, p := range paths {
		l := new(C.slc_lt)
		name := C.CString(p)
		missing := C.slc_lt_open(l, name)
		C.free(unsafe.Pointer(name))
		if missing == nil {
			v := int(C.slc_lt_version(l))
			return &gemm{l, fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100)}, nil
		}
		errs = append(errs, fmt.Errorf("%s: %s", p, C.GoString(missing)))
	}
	return nil, errors.Join(errs...)
}

// prepared is a product whose factors lie on the device.
type prepared struct {
	g                             *gemm
	c                             *C.slc_gemm
	d                             *cuda.Device
	contexts, queries, out, scrap cuda.Ptr
	best, seen                    int // the fastest algorithm; those tried so far
	fastest                       float64
	shown                         int
}

func (g *gemm) prepare(d *cuda.Device, contexts, queries engine.Vectors) (p *prepared, err error) {
	p = &prepared{g: g, c: new(C.slc_gemm), d: d, shown: min(queries.Rows, 64)}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	n, m := int64(contexts.Rows), int64(queries.Rows)
	for _, piece := range []struct {
		to    *cuda.Ptr
		bytes int64
	}{{&p.contexts, 2 * n * int64(contexts.Dim)}, {&p.queries, 2 * m * int64(queries.Dim)}, {&p.out, 2 * n * m},
		{&p.scrap, gemmWorkspace}} {
		if *piece.to, err = d.Alloc(piece.bytes); err != nil {
			return p, err
		}
	}
	return p, d.Do(func(s *cuda.Stream) error {
		for _, v := range []struct {
			to   cuda.Ptr
			from []float32
		}{{p.contexts, contexts.Data}, {p.queries, queries.Data}} {
			words := make([]byte, 2*len(v.from))
			for i, x := range v.from {
				binary.LittleEndian.PutUint16(words[2*i:], toBF16(x))
			}
			if err := s.Write(v.to, words); err != nil {
				return err
			}
		}
		code := C.slc_gemm_open(g.l, p.c, C.int64_t(n), C.int64_t(m), C.int64_t(contexts.Dim), gemmWorkspace)
		if code != 0 || p.c.count == 0 {
			return fmt.Errorf("bench gpu: cuBLASLt has no algorithm for %d × %d × %d: status %d", n, m, contexts.Dim,
				int(code))
		}
		return nil
	})
}

// run multiplies by the algorithm that was the fastest, once all have been tried, and returns the device's time.
func (p *prepared) run() (m multiplied, err error) {
	err = p.d.Do(func(s *cuda.Stream) error {
		once := func(which int) (float64, error) {
			took, err := s.Time(func() error {
				return s.Call(func(stream unsafe.Pointer) error {
					code := C.slc_gemm_run(p.g.l, p.c, C.int(which), C.uint64_t(p.contexts), C.uint64_t(p.queries),
						C.uint64_t(p.out), C.uint64_t(p.scrap), gemmWorkspace, stream)
					if code != 0 {
						return fmt.Errorf("bench gpu: cublasLtMatmul: status %d", int(code))
					}
					return nil
				}, p.contexts, p.queries, p.out, p.scrap)
			})
			return took / 1000, err
		}
		for ; p.seen < int(p.c.count); p.seen++ { // the first call, which is not counted
			if _, err := once(p.seen); err != nil {
				return err
			}
			took, err := once(p.seen)
			if err != nil {
				return err
			}
			if p.seen == 0 || took < p.fastest {
				p.best, p.fastest = p.seen, took
			}
		}
		if m.took, err = once(p.best); err != nil {
			return err
		}
		words := make([]byte, 2*p.shown)
		if err := s.Read(words, p.out); err != nil {
			return err
		}
		for i := range p.shown {
			m.first = append(m.first, fromBF16(binary.LittleEndian.Uint16(words[2*i:])))
		}
		return nil
	})
	return m, err
}

func (p *prepared) close() {
	_ = p.d.Do(func(*cuda.Stream) error { C.slc_gemm_close(p.g.l, p.c); return nil })
	for _, at := range []cuda.Ptr{p.contexts, p.queries, p.out, p.scrap} {
		if at != 0 {
			p.d.Free(at)
		}
	}
}
