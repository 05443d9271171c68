// The C contract of Sluice's CPU kernels.
//
// Every function is pure and single-threaded: it reads its inputs, writes only its output, allocates nothing, keeps no
// state and never aborts. The caller provides threads, tiles and memory; only encoder/helper.h has a thread. Rows are
// `stride` elements apart (stride >= dim) and need no alignment; nothing beyond a row's last element is read, nothing
// beyond an output's last element is written.
//
// A function that can fail returns a code and, in the same call, writes the reason to *error (which may be NULL), so
// that another thread cannot overwrite it before it is read.
//
// Names: slc_<op>_<metric>_<dtype>_<isa>, without the parts that do not apply; slc_<op> checks its arguments and calls
// one of them. Each operation has its own header, in the folder of its family.
#ifndef SLC_H
#define SLC_H

#include <stdint.h>

enum { SLC_OK = 0, SLC_ERROR_SHAPE = 1, SLC_ERROR_METRIC = 2, SLC_ERROR_ISA = 3, SLC_ERROR_RANGE = 4 };

// The metrics, numbered as in kernels.Metric.
enum { SLC_COSINE = 0, SLC_IP = 1, SLC_L2 = 2, SLC_METRICS = 3 };

// The instruction sets. Scalar is the baseline of the compiler's target (SSE2, NEON). The caller must check that the
// machine supports the others (CPUID and XCR0; on arm64, the hardware capabilities of getauxval).
enum {
	SLC_SCALAR = 0,
	SLC_AVX2 = 1,
	SLC_AVXVNNI = 2,
	SLC_AVX512 = 3,
	SLC_AVX512VNNI = 4,
	SLC_AMX = 5,
	SLC_NEON = 6,
	SLC_DOTPROD = 7,
	SLC_I8MM = 8,
	SLC_BFMMLA = 9,
	SLC_ISAS = 10
};

typedef struct {
	char text[192];
} slc_error;

// Rows of float32 vectors, stride elements apart, and their norms if a cosine needs them.
typedef struct {
	const float *data;
	const double *norms;
	int64_t n, stride;
} slc_rows;

#endif
