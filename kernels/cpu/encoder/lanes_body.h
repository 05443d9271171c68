// Functions of the encoder's kernels on vectors of floats, built on the operations of lanes_<isa>.h.
#include "inline.h"

typedef unsigned int uvec __attribute__((vector_size(4 * W))); // bits whose sums may overflow, such as NaN bits

// BEHIND rotates the lanes by n.
#define FROM(n) ((n) % W)
#if W == 16
#define BEHIND(v, n) __builtin_shufflevector(v, v, FROM(n), FROM(n + 1), FROM(n + 2), FROM(n + 3), FROM(n + 4), \
	FROM(n + 5), FROM(n + 6), FROM(n + 7), FROM(n + 8), FROM(n + 9), FROM(n + 10), FROM(n + 11), FROM(n + 12), \
	FROM(n + 13), FROM(n + 14), FROM(n + 15))
#elif W == 8
#define BEHIND(v, n) __builtin_shufflevector(v, v, FROM(n), FROM(n + 1), FROM(n + 2), FROM(n + 3), FROM(n + 4), \
	FROM(n + 5), FROM(n + 6), FROM(n + 7))
#else
#define BEHIND(v, n) __builtin_shufflevector(v, v, FROM(n), FROM(n + 1), FROM(n + 2), FROM(n + 3))
#endif

// total adds the lanes of a vector, halves first, so that the order is the same for every caller. (In registers: gcc
// would keep a copy in memory there while the caller adds to it.)
INLINE float total(vec v) {
	if (W > 8) v = v + BEHIND(v, 8);
	if (W > 4) v = v + BEHIND(v, 4);
	v = v + BEHIND(v, 2);
	return v[0] + v[1];
}

// below is a mask of the first n lanes.
INLINE ivec below(int64_t n) {
	ivec i;
	for (int k = 0; k < W; k++) i[k] = k;
	return i < (int32_t)n;
}

INLINE vec choose(ivec which, vec a, vec b) { return (vec)(((ivec)a & which) | ((ivec)b & ~which)); }

INLINE float largest(vec v) {
	if (W > 8) v = MAX(v, BEHIND(v, 8));
	if (W > 4) v = MAX(v, BEHIND(v, 4));
	v = MAX(v, BEHIND(v, 2));
	return v[0] > v[1] ? v[0] : v[1];
}

// power_e is e^x to about 2 units of the last place for x between -87 and 88; x is clamped to that range. x = n·ln 2 +
// r with |r| ≤ ln 2 / 2, and e^r is a polynomial, fitted for the smallest relative error (3e-9).
INLINE vec power_e(vec x) {
	const vec magic = SET1(0x1.8p23f); // x + magic has the nearest integer to x in its lowest bits
	x = MAX(SET1(-87.f), MIN(SET1(88.f), x)); // this operand order, here and below, preserves NaN
	vec n = MADD(magic, x, SET1(0x1.715476p0f)), whole = n - magic;
	vec r = MADD(x, whole, SET1(-0x1.62e4p-1f));
	r = MADD(r, whole, SET1(-0x1.7f7d1cp-20f));
	vec p = SET1(0.001381459878757596f);
	p = MADD(SET1(0.0083687175065279f), p, r);
	p = MADD(SET1(0.04166838899254799f), p, r);
	p = MADD(SET1(0.1666652113199234f), p, r);
	p = MADD(SET1(0.4999999403953552f), p, r);
	p = MADD(MADD(SET1(1.f), r, SET1(1.f)), p, r * r);
	return (vec)((uvec)p + ((uvec)n << 23));
}

// error_function is erf(x) to 3e-7, and exactly ±1 from ±4 on: x times a ratio of polynomials in x², fitted on [-4, 4]
INLINE vec error_function(vec x) {
	x = MAX(SET1(-4.f), MIN(SET1(4.f), x));
	vec u = x * x;
	vec p = SET1(1.9867509308824083e-06f), q = SET1(3.7419853470055386e-05f);
	p = MADD(SET1(0.0002845663402695209f), p, u);
	q = MADD(SET1(0.0011855890043079853f), q, u);
	p = MADD(SET1(0.0038834286388009787f), p, u);
	q = MADD(SET1(0.015207421965897083f), q, u);
	p = MADD(SET1(0.053102001547813416f), p, u);
	q = MADD(SET1(0.11535085737705231f), q, u);
	p = MADD(SET1(0.19354720413684845f), p, u);
	q = MADD(SET1(0.5048592686653137f), q, u);
	p = MADD(SET1(1.128379225730896f), p, u);
	q = MADD(SET1(1.f), q, u);
	return x * p / q;
}

INLINE vec hyperbolic_tangent(vec x) {
	x = MAX(SET1(-10.f), MIN(SET1(10.f), x));
	vec e = power_e(x + x);
	vec small = x * x, t = (e - SET1(1.f)) / (e + SET1(1.f));
	// Near 0 the difference above cancels, so x − x³/3 + 2x⁵/15 is used there.
	vec near = MADD(x, x * small, MADD(SET1(-1.f / 3), small, SET1(2.f / 15)));
	ivec use = small < SET1(0.0025f);
	return (vec)(((ivec)near & use) | ((ivec)t & ~use));
}
