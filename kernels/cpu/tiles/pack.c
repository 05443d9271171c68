//go:build amd64 || arm64

// Checks what could make a packing kernel access memory out of bounds, then calls it by instruction set and format.
#include "fail.h"
#include "pack.h"

static slc_pack_fn *const table[SLC_ISAS][SLC_DTYPES] = {
	[SLC_SCALAR] = {slc_pack_f32_scalar},
#if defined(__x86_64__)
	[SLC_AVX2] = {[SLC_F32] = slc_pack_f32_avx2, [SLC_I16] = slc_pack_i16_avx2},
	[SLC_AVXVNNI] = {[SLC_F32] = slc_pack_f32_avx2, [SLC_I16] = slc_pack_i16_avx2},
	[SLC_AVX512] = {[SLC_F32] = slc_pack_f32_avx512},
	[SLC_AVX512VNNI] = {[SLC_F32] = slc_pack_f32_avx512, [SLC_I16] = slc_pack_i16_avx512vnni,
	                    [SLC_I8] = slc_pack_i8_avx512vnni},
#if defined(SLC_WITH_AMX)
	[SLC_AMX] = {slc_pack_f32_amx, slc_pack_bf16x3_amx, slc_pack_bf16_amx, slc_pack_i8_avx512vnni},
#endif
#elif defined(__aarch64__) // the baseline is NEON
	[SLC_NEON] = {slc_pack_f32_scalar},
	[SLC_DOTPROD] = {[SLC_F32] = slc_pack_f32_scalar, [SLC_I8] = slc_pack_i8_dotprod},
	[SLC_I8MM] = {[SLC_F32] = slc_pack_f32_scalar, [SLC_I8] = slc_pack_i8_i8mm},
	[SLC_BFMMLA] = {slc_pack_f32_scalar, slc_pack_bf16x3_bf16, slc_pack_bf16_bf16, slc_pack_i8_i8mm},
#endif
};

int64_t slc_panel_bytes(int32_t isa, int32_t dtype, int64_t dim) {
	if (isa < 0 || isa >= SLC_ISAS || dtype < 0 || dtype >= SLC_DTYPES || !table[isa][dtype]) return -1;
	switch (dtype) {
#if defined(__aarch64__)
	case SLC_BF16X3: return (dim + 3) / 4 * SLC_PANEL * 16;
	case SLC_BF16: return (dim + 3) / 4 * SLC_PANEL * 8;
	case SLC_I8: return isa == SLC_DOTPROD ? (dim + 3) / 4 * SLC_PANEL * 4 : (dim + 7) / 8 * SLC_PANEL * 8;
	default: return dim * SLC_PANEL * 4;
#else
	case SLC_F32: return isa == SLC_AMX ? (dim + 31) / 32 * 6144 : dim * SLC_PANEL * 4;
	case SLC_BF16X3: return (dim + 31) / 32 * 4096;
	case SLC_BF16: return (dim + 31) / 32 * 2048;
	case SLC_I16: return (dim + 1) / 2 * SLC_PANEL * 4;
	default: return (dim + 63) / 64 * 2048;
#endif
	}
}

int32_t slc_pack(int32_t isa, int32_t dtype, slc_packing p, double *found, slc_error *error) {
	if (slc_panel_bytes(isa, dtype, p.dim) < 0)
		FAIL(SLC_ERROR_ISA, "no tiles of format %d for instruction set %d", (int)dtype, (int)isa);
	if (p.dim < 1 || p.stride < p.dim || p.from < 0 || p.to < p.from || (p.to - 1) * SLC_PANEL >= p.n || !p.rows ||
	    !p.data)
		FAIL(SLC_ERROR_SHAPE, "panels %lld to %lld of %lld vectors of %lld elements with stride %lld",
		     (long long)p.from, (long long)p.to, (long long)p.n, (long long)p.dim, (long long)p.stride);
	if (dtype == SLC_I8 && (!p.steps || (p.right && !p.sums) || p.dim > 65536))
		FAIL(SLC_ERROR_SHAPE, "i8 of dimension %lld", (long long)p.dim);
	if (dtype == SLC_I16 && !p.steps) FAIL(SLC_ERROR_SHAPE, "i16 without steps");
	table[isa][dtype](&p);
	found[0] = p.norm, found[1] = p.residual, found[2] = p.low, found[3] = p.is_short;
	return SLC_OK;
}
