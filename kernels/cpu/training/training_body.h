// The body of the training kernels, compiled once per instruction set by training_<isa>.c (so it has no include guard),
// which defines ISA, WIDTH (floats per vector register), MADD(s,x,y) = s + x*y and ROOT(x).
#include <stdint.h>
#include <string.h>

#include "inline.h"
#include "training.h"

typedef float vec __attribute__((vector_size(4 * WIDTH)));
typedef float unaligned __attribute__((vector_size(4 * WIDTH), aligned(4)));
typedef int32_t ints __attribute__((vector_size(4 * WIDTH)));

INLINE vec all(float x) { return (vec){} + x; }
INLINE vec pick(ints which, vec x, vec y) { return (vec)((which & (ints)x) | (~which & (ints)y)); }
INLINE vec least(vec x, float y) { return pick(x < y, x, all(y)); }
INLINE vec most(vec x, float y) { return pick(x > y, x, all(y)); }

// horner evaluates a polynomial, the highest coefficient first.
INLINE vec horner(vec x, const float *c, int n) {
	vec s = all(c[0]);
#pragma GCC unroll 8
	for (int i = 1; i < n; i++) s = MADD(all(c[i]), s, x);
	return s;
}

// exponential is e^x for x <= 0: 2^k times a polynomial on [-ln 2 / 2, ln 2 / 2] (as in Cephes), relative error 1e-7.
INLINE vec exponential(vec x) {
	static const float c[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f,
	                          1.6666665459e-1f, 5.0000001201e-1f};
	x = most(x, -87);
	vec shifted = x * 1.44269504088896341f + 12582912.f; // rounds: the sum has no fraction bits
	ints k = (ints)shifted - 0x4b400000;
	vec n = shifted - 12582912.f;
	x = MADD(x, n, all(-0.693359375f));
	x = MADD(x, n, all(2.12194440e-4f));
	vec y = MADD(x, horner(x, c, 6), x * x) + 1.f;
	return y * (vec)((k + 127) << 23);
}

// error_function is erf(x), a rational function on [-4, 4] as in Eigen; absolute error 2e-7.
INLINE vec error_function(vec x) {
	static const float a[] = {-2.72614225801306e-10f, 2.77068142495902e-08f, -2.10102402082508e-06f,
	                          -5.69250639462346e-05f, -7.34990630326855e-04f, -2.95459980854025e-03f,
	                          -1.60960333262415e-02f};
	static const float b[] = {-1.45660718464996e-05f, -2.13374055278905e-04f, -1.68282697438203e-03f,
	                          -7.37332916720468e-03f, -1.42647390514189e-02f};
	x = least(most(x, -4), 4);
	vec square = x * x;
	return x * horner(square, a, 7) / horner(square, b, 5);
}

INLINE void gelu(float *x, float *slope) {
	vec v = *(unaligned *)x;
	vec phi = MADD(all(.5f), error_function(v * .70710678118654752f), all(.5f));
	vec density = exponential(v * v * -.5f) * .39894228040143268f;
	*(unaligned *)x = v * phi;
	*(unaligned *)slope = MADD(phi, v, density);
}

void PASTE(slc_gelu_slope_f32_, ISA)(float *x, float *slope, int64_t n) {
	int64_t i = 0;
	for (; i + WIDTH <= n; i += WIDTH) gelu(x + i, slope + i);
	if (i == n) return;
	float rest[WIDTH] = {0}, slopes[WIDTH];
	memcpy(rest, x + i, (size_t)(n - i) * sizeof *x);
	gelu(rest, slopes);
	memcpy(x + i, rest, (size_t)(n - i) * sizeof *x);
	memcpy(slope + i, slopes, (size_t)(n - i) * sizeof *x);
}

INLINE void adam(float *w, const float *g, float *m, float *v, const slc_adam_step *s) {
	vec d = *(const unaligned *)g * s->scale;
	vec first = MADD(d * (1 - s->beta1), *(unaligned *)m, all(s->beta1));
	vec second = MADD(d * d * (1 - s->beta2), *(unaligned *)v, all(s->beta2));
	*(unaligned *)m = first;
	*(unaligned *)v = second;
	vec step = first * s->rate / (ROOT(second) * s->root + s->epsilon);
	*(unaligned *)w = *(unaligned *)w * s->shrink - step;
}

void PASTE(slc_adam_f32_, ISA)(float *w, const float *g, float *m, float *v, int64_t n, const slc_adam_step *step) {
	int64_t i = 0;
	for (; i + WIDTH <= n; i += WIDTH) adam(w + i, g + i, m + i, v + i, step);
	if (i == n) return;
	float rest[4][WIDTH] = {{0}};
	size_t bytes = (size_t)(n - i) * sizeof *w;
	memcpy(rest[0], w + i, bytes);
	memcpy(rest[1], g + i, bytes);
	memcpy(rest[2], m + i, bytes);
	memcpy(rest[3], v + i, bytes);
	adam(rest[0], rest[1], rest[2], rest[3], step);
	memcpy(w + i, rest[0], bytes);
	memcpy(m + i, rest[2], bytes);
	memcpy(v + i, rest[3], bytes);
}

#include "training_attention_body.h"
