// The body of slc_attention_f32, compiled once per instruction set by attention_<isa>.c, which defines ISA and what
// block_body.h requires.
#include <string.h>

#include "attention.h"
#include "block_body.h"
#include "transpose_body.h"

// pack_keys writes the keys of a head in panels: each element of PANEL keys together.
INLINE void pack_keys(float *to, const float *keys, int64_t stride, int64_t n, int64_t size) {
	for (int64_t first = 0; first < n; first += PANEL, to += size * PANEL) {
		const int64_t rest = n - first < PANEL ? n - first : PANEL;
		if (rest < PANEL) memset(to, 0, size * PANEL * sizeof *to);
		transpose_block(to, PANEL, keys + first * stride, stride, rest, size);
	}
}

// pack_values writes the values of a head in panels: for each key PANEL of its values.
INLINE void pack_values(float *to, const float *values, int64_t stride, int64_t n, int64_t size) {
	for (int64_t first = 0; first < size; first += PANEL)
		for (int64_t i = 0; i < n; i++, to += PANEL)
			for (int64_t j = 0; j < PANEL; j += W) {
				const int64_t rest = size - first - j;
				if (rest >= W) STORE(to + j, LOAD(values + i * stride + first + j));
				else STORE(to + j, rest > 0 ? LOADN(values + i * stride + first + j, rest) : SET1(0.f));
			}
}

INLINE vec scale_vector(float *scores, int64_t n, float scale, const float *bias, vec highest) {
	vec x = LOAD(scores) * SET1(scale);
	if (bias) x = x + LOADN(bias, n);
	if (n < W) x = choose(below(n), x, SET1(-__builtin_inff()));
	STORE(scores, x);
	return MAX(highest, x);
}

// scale_scores multiplies n scores by scale, adds the bias, and returns the largest; it pads them with -inf.
INLINE float scale_scores(float *scores, int64_t n, float scale, const float *bias) {
	vec highest = SET1(-__builtin_inff());
	int64_t j = 0;
	for (; j + W <= n; j += W) highest = scale_vector(scores + j, W, scale, bias ? bias + j : NULL, highest);
	if (j < n) highest = scale_vector(scores + j, n - j, scale, bias ? bias + j : NULL, highest);
	return largest(highest);
}

INLINE vec soften_vector(float *scores, int64_t n, vec top) {
	vec e = power_e(LOAD(scores) - top);
	if (n < W) e = choose(below(n), e, SET1(0.f));
	STORE(scores, e);
	return e;
}

// soften replaces n scores by e^(score − the largest), pads with zeros to a multiple of W, and returns their sum.
INLINE float soften(float *scores, int64_t n, float top) {
	vec sum = SET1(0.f);
	int64_t j = 0;
	for (; j + W <= n; j += W) sum = sum + soften_vector(scores + j, W, SET1(top));
	if (j < n) sum = sum + soften_vector(scores + j, n - j, SET1(top));
	return total(sum);
}

// attend computes the rows of one text and head.
INLINE void attend(const slc_attention *a, int64_t text, int64_t head) {
	const int64_t from = a->starts[text], n = a->starts[text + 1] - from, width = a->heads * a->size;
	const int64_t padded = (n + PANEL - 1) / PANEL * PANEL;
	const float *queries = a->qkv + from * a->stride + head * a->size;
	float *keys = a->scratch, *values = keys + padded * a->size;
	float *scores = values + (a->size + PANEL - 1) / PANEL * PANEL * n, *block = scores + BLOCK_R * padded;
	pack_keys(keys, queries + width, a->stride, n, a->size);
	pack_values(values, queries + 2 * width, a->stride, n, a->size);
	for (int64_t row = 0; row < n; row += BLOCK_R) {
		const int64_t rows = n - row < BLOCK_R ? n - row : BLOCK_R;
		float tops[BLOCK_R], over[BLOCK_R]; // the largest scores, and 1 / sums of weights
		for (int64_t j = 0; j < padded; j += PANEL) {
			multiply_rows(block, queries + row * a->stride, a->stride, keys + j * a->size, a->size, NULL, rows);
			for (int64_t i = 0; i < rows; i++)
				memcpy(scores + i * padded + j, block + i * PANEL, PANEL * sizeof *block);
		}
		for (int64_t i = 0; i < rows; i++) {
			const float *bias = a->bias ? a->bias + head * (2 * a->far + 1) + a->far - (row + i) : NULL;
			tops[i] = scale_scores(scores + i * padded, n, a->scale, bias);
		}
		for (int64_t i = 0; i < rows; i++) over[i] = 1 / soften(scores + i * padded, n, tops[i]);
		for (int64_t j = 0; j < a->size; j += PANEL) {
			multiply_rows(block, scores, padded, values + j * n, n, NULL, rows);
			for (int64_t i = 0; i < rows; i++)
				for (int64_t k = 0; k < PANEL && j + k < a->size; k += W) {
					const int64_t rest = a->size - j - k;
					float *y = a->y + (from + row + i) * a->y_stride + head * a->size + j + k;
					const vec v = LOAD(block + i * PANEL + k) * SET1(over[i]);
					if (rest >= W) STORE(y, v); // not STOREN, which takes 40 instructions on some AMD processors
					else STOREN(y, v, rest);
				}
		}
	}
}

void PASTE(slc_attention_f32_, ISA)(const slc_attention *a) {
	for (int64_t text = a->first; text < a->last; text++)
		for (int64_t head = a->first_head; head < a->last_head; head++) attend(a, text, head);
}
