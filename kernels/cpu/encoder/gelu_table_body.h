// GELU without a division, which would take half of the time. A file that includes it includes lanes_body.h and defines
//   LOOKUP(table, i)  for each lane, the element of a table of 16 selected by the lowest four bits of i

// The coefficients, lowest degree first, of polynomials for Φ(x) − 1/2 in r, where x = (i + r)·5.4/15.5 and |r| ≤ 1/2:
// one of degree 4 for each i, from Chebyshev nodes. The largest error is 1.1e-7; at 5.4 Φ is 1 − 3.3e-8.
static const float normal_distribution[5][16] __attribute__((aligned(64))) = {
	{0.f, 0.136225253f, 0.257027924f, 0.352025777f, 0.418273002f, 0.459240139f,
	 0.481705576f, 0.492630094f, 0.497340858f, 0.49914214f, 0.499752879f, 0.499936521f,
	 0.499985456f, 0.49999705f, 0.499999464f, 0.499999911f},
	{0.138985351f, 0.130801827f, 0.109030508f, 0.0804954171f, 0.0526359193f, 0.0304845627f,
	 0.0156373363f, 0.00710441871f, 0.00285874167f, 0.00101882371f, 0.000321586442f, 8.99015795e-05f,
	 2.22589006e-05f, 4.88092792e-06f, 9.4789084e-07f, 1.63029441e-07f},
	{0.f, -0.00793782901f, -0.013233236f, -0.014654831f, -0.0127770817f, -0.00924999919f,
	 -0.00569389947f, -0.00301806885f, -0.00138796296f, -0.000556505809f, -0.000195185334f, -6.002585e-05f,
	 -1.62144188e-05f, -3.85222256e-06f, -8.05776153e-07f, -1.48512569e-07f},
	{-0.00279560918f, -0.00231340481f, -0.00113341876f, 0.00014314607f, 0.000993155758f, 0.00124749262f,
	 0.0010633514f, 0.00071172358f, 0.000393225608f, 0.000183614888f, 7.34230925e-05f, 2.53496983e-05f,
	 7.59811019e-06f, 1.9847555e-06f, 4.5311387e-07f, 9.06022208e-08f},
	{0.f, 0.000229446508f, 0.000334463781f, 0.000281580142f, 0.000136855509f, -2.34603294e-06f,
	 -7.80294795e-05f, -8.95467456e-05f, -6.68830689e-05f, -3.85653475e-05f, -1.81623618e-05f, -7.1731547e-06f,
	 -2.41122166e-06f, -6.96262816e-07f, -1.73791321e-07f, -3.76642468e-08f},
};

INLINE vec gelu_by_table(vec x) {
	const vec magic = SET1(0x1.8p23f); // u + magic has the nearest integer to u in its lowest bits
	const vec u = MIN((vec)((ivec)x & 0x7fffffff) * SET1(15.5f / 5.4f), SET1(15.49999f)), i = u + magic;
	const vec r = u - (i - magic);
	vec p = LOOKUP(normal_distribution[4], i);
#pragma GCC unroll 4
	for (int k = 3; k >= 0; k--) p = MADD(LOOKUP(normal_distribution[k], i), p, r);
	const vec above = MAX(SET1(-5.4f), x); // below, a larger x would multiply the error of Φ; NaN is preserved
	const vec half = (vec)((ivec)p | ((ivec)x & (int32_t)0x80000000));
	return MADD(SET1(.5f) * above, above, half);
}
