// Packing: rows of float32 into the layouts that tiles are multiplied from. Vectors are normalised (cosine) or scaled
// by a power of two (ip, l2) as kernels/cpu.Panels says, and come in panels of 32, the last one filled up with zeros.
//
//	f32     [panel][padded dimension][32] floats
//	bf16    [vector][padded dimension] bfloat16
//	bf16x3  the same twice: value rounded to bfloat16, and the rounded rest
//	i8      [vector][padded dimension] signed bytes, and each vector's step in float32: values are bytes times the step
//	fp8     the same with floats of eight bits (e4m3)
//
// The padded dimension is a multiple of 32; of 64 where elements have eight bits.
#ifndef SLC_PACK_CUH
#define SLC_PACK_CUH

#include "device.cuh"

namespace slc {

enum { kPanel = 32, kPackThreads = 256 };

// What packing finds, over all vectors: the squares of the largest norm of a packed vector, of its distance to the
// exact one and of its second part, as the bits of doubles that are not negative, so that the order of bits is that of
// values; NaN is above all.
struct PackFound {
	uint64_t norm, residual, low;
	uint32_t is_short, unused; // 1: some vector has 0 < norm < 2^-45
};

enum Format { kF32, kBF16, kBF16x3, kI8, kE4M3 };

// step_of is the step of numbers of which the one furthest from 0 is so far from it; inverse_of is 1 / step, or 0.
template <Format format> SLC_FN float step_of(double largest) { return (float)(largest / (format == kI8 ? 127 : 448)); }
SLC_FN double inverse_of(float step) { return step > 0 ? 1 / (double)step : 0; }

// nearest_i8 is the nearest of the integers -127 to 127, ties to even.
SLC_FN double nearest_i8(double x) {
	double c = rint(x);
	if (c > 127) c = 127;
	if (c < -127) c = -127;
	return c;
}

// to_e4m3 is the code of the nearest number of four bits of exponent and three of fraction, ties to even; beyond 448
// there is none. NaN becomes one.
SLC_FN uint8_t to_e4m3(float x) {
	const uint32_t bits = float_to_bits(x), sign = bits >> 24 & 0x80, size = bits & 0x7fffffffu;
	if (size > 0x7f800000u) return 0x7f;
	if (size >= 0x43e00000u) return (uint8_t)(sign | 0x7e); // 448
	if (size < 0x3c800000u) // below 2^-6: multiples of 2^-9
		return (uint8_t)(sign | (uint32_t)rint((double)bits_to_float(size) * 512));
	const uint32_t code = ((size + 0x7ffffu + (size >> 20 & 1)) >> 20) - ((127 - 7) << 3);
	return (uint8_t)(sign | code);
}
SLC_FN float from_e4m3(uint8_t code) {
	const uint32_t sign = (uint32_t)(code & 0x80) << 24, exponent = code >> 3 & 15, fraction = code & 7;
	if ((code & 0x7f) == 0x7f) return bits_to_float(0x7fc00000u);
	if (exponent == 0) return bits_to_float(sign | float_to_bits((float)fraction * 0x1p-9f));
	return bits_to_float(sign | (exponent + 127 - 7) << 23 | fraction << 20);
}

// pack_vector packs vector v of the set by one warp: row order[v - from], or row v without a list. rows and norms begin
// with row base. terms are -1/2 norm^2 (l2).
template <Format format>
SLC_FN void pack_vector(const float *rows, int64_t stride, const double *norms, const int32_t *order, int64_t n,
		int64_t dim, int64_t padded, int64_t from, int64_t base, int64_t v, double scale, void *out,
		void *low_out, float *terms, PackFound *found) {
	const int lane = (int)(threadIdx.x % 32);
	const int64_t row = v >= n ? 0 : (order ? order[v - from] : v) - base;
	double factor = scale;
	if (norms) factor = v < n && norms[row] > 0 ? 1 / norms[row] : 0;
	float step = 0;
	if (format == kI8 || format == kE4M3) {
		double largest = 0;
		for (int64_t k = lane; v < n && k < dim; k += 32) {
			const double size = fabs(mul((double)rows[row * stride + k], factor));
			if (size > largest) largest = size;
		}
		step = step_of<format>(warp_largest(largest));
	}
	const double inverse = inverse_of(step);
	double norm = 0, residual = 0, low = 0, exact = 0;
	for (int64_t k = lane; k < padded; k += 32) {
		const double y = v < n && k < dim ? mul((double)rows[row * stride + k], factor) : 0;
		const float f = (float)y;
		double packed = f;
		if (format == kF32) {
			((float *)out)[(v / kPanel * padded + k) * kPanel + v % kPanel] = f;
		} else if (format == kI8) {
			const double code = nearest_i8(mul(y, inverse));
			((int8_t *)out)[v * padded + k] = code == code ? (int8_t)code : 0;
			packed = mul(code, (double)step); // NaN stays NaN
		} else if (format == kE4M3) {
			const uint8_t code = to_e4m3((float)mul(y, inverse));
			((uint8_t *)out)[v * padded + k] = code;
			packed = mul((double)from_e4m3(code), (double)step);
		} else {
			const uint16_t high = to_bf16(f);
			((uint16_t *)out)[v * padded + k] = high;
			packed = from_bf16(high);
			if (format == kBF16x3) {
				const uint16_t rest = to_bf16(f - from_bf16(high));
				((uint16_t *)low_out)[v * padded + k] = rest;
				const double second = from_bf16(rest);
				packed = add(packed, second);
				low = add(low, mul(second, second));
			}
		}
		norm = add(norm, mul(packed, packed));
		residual = add(residual, mul(packed - y, packed - y));
		exact = add(exact, mul(y, y));
	}
	norm = warp_sum(norm), residual = warp_sum(residual), low = warp_sum(low), exact = warp_sum(exact);
	if (lane != 0) return;
	if (terms) terms[v] = (float)(-0.5 * exact);
	if (format == kI8 || format == kE4M3) ((float *)low_out)[v] = step;
	atomic_max(&found->norm, double_to_bits(norm));
	atomic_max(&found->residual, double_to_bits(residual));
	atomic_max(&found->low, double_to_bits(low));
	if (norm > 0 && norm < 0x1p-90) atomic_or(&found->is_short, 1);
}

// pack is a grid of blocks of eight warps, a vector each.
template <Format format>
SLC_FN void pack(const float *rows, int64_t stride, const double *norms, const int32_t *order, int64_t n, int64_t dim,
		int64_t padded, int64_t from, int64_t to, int64_t base, double scale, void *out, void *low,
		float *terms, PackFound *found) {
	const int64_t v = from + (int64_t)blockIdx.x * (kPackThreads / 32) + (int64_t)(threadIdx.x / 32);
	if (v < to)
		pack_vector<format>(rows, stride, norms, order, n, dim, padded, from, base, v, scale, out, low, terms, found);
}

} // namespace slc
#endif
