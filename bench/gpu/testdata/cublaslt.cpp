// A stand-in for libcublasLt: what bench/gpu calls of it, for bfloat16 and the products that it asks for, on memory of
// the stand-in driver, which is the host's. Whatever else it is asked for is an error.
#include <cstdint>
#include <cstring>

namespace {
enum { ok = 0, invalid = 7 };
struct Layout {
  uint64_t rows, cols;
  int64_t ld;
};
struct Desc {
  int transposed;
};
struct Result {
  uint64_t algorithm[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
size_t room;
float wide(uint16_t x) {
  uint32_t u = (uint32_t)x << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}
} // namespace

#define API extern "C" __attribute__((visibility("default")))
API size_t cublasLtGetVersion() { return 130100; }
API int cublasLtCreate(void **h) { return *h = new int, ok; }
API int cublasLtDestroy(void *h) { return delete (int *)h, ok; }
API int cublasLtMatmulDescCreate(Desc **d, int compute, int scale) {
  if (compute != 68 || scale != 0) return invalid;
  return *d = new Desc{}, ok;
}
API int cublasLtMatmulDescSetAttribute(Desc *d, int attribute, const int *value, size_t size) {
  if (attribute != 3 || size != 4) return invalid;
  return d->transposed = *value, ok;
}
API int cublasLtMatmulDescDestroy(Desc *d) { return delete d, ok; }
API int cublasLtMatrixLayoutCreate(Layout **l, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  if (type != 14 || ld < (int64_t)rows) return invalid;
  return *l = new Layout{rows, cols, ld}, ok;
}
API int cublasLtMatrixLayoutDestroy(Layout *l) { return delete l, ok; }
API int cublasLtMatmulPreferenceCreate(int **p) { return *p = new int, ok; }
API int cublasLtMatmulPreferenceSetAttribute(int *, int attribute, const size_t *value, size_t size) {
  if (attribute != 1 || size != 8) return invalid;
  return room = *value, ok;
}
API int cublasLtMatmulPreferenceDestroy(int *p) { return delete p, ok; }
API int cublasLtMatmulAlgoGetHeuristic(void *, Desc *d, Layout *a, Layout *b, Layout *c, Layout *r, int *, int most,
                                       Result *found, int *count) {
  if (d->transposed != 1 || a->rows != b->rows || c->rows != a->cols || c->cols != b->cols || c != r || most < 2)
    return invalid;
  memset(found, 0, 2 * sizeof *found);
  found[0].algorithm[7] = 11, found[1].algorithm[7] = 12;
  return *count = 2, ok;
}
API int cublasLtMatmul(void *, Desc *, const float *alpha, const uint16_t *a, Layout *la, const uint16_t *b, Layout *lb,
                       const float *beta, const void *, Layout *, uint16_t *d, Layout *ld, const uint64_t *algorithm,
                       void *workspace, size_t bytes, void *stream) {
  if (*alpha != 1 || *beta != 0 || algorithm[7] < 11 || algorithm[7] > 12 || !workspace || bytes != room || !stream)
    return invalid;
  for (uint64_t i = 0; i < ld->rows; i++)
    for (uint64_t j = 0; j < ld->cols; j++) {
      float sum = 0;
      for (uint64_t k = 0; k < la->rows; k++) sum += wide(a[i * la->ld + k]) * wide(b[j * lb->ld + k]);
      uint32_t u;
      memcpy(&u, &sum, 4);
      d[j * ld->ld + i] = (uint16_t)(u >> 16);
    }
  return ok;
}
