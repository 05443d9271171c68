// The body of slc_attention_f32, compiled once per instruction set by attention_<isa>.c, which defines ISA and what
// block_body.h wants.
#include <string.h>

#include "attention.h"
#include "block_body.h"
#include "transpose_body.h"

// pack_keys writes the keys of a head in panels: for each of its values, those of PANEL keys.
INLINE void pack_keys(float *to, const float *keys, int64_t stride, int64_t n, int64_t size) {
	for (int64_t first = 0; first < n; first += PANEL, to += size * PANEL) {
		const int64_t rest = n - first < PANEL ? n - first : PANEL;
		transpose_block(to, PANEL, keys + first * stride, stride, rest, size);
		for (int64_t k = 0; k < size; k++)
			for (int64_t j = rest; j < PANEL; j++) to[k * PANEL + j] = 0;
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

// soften replaces n scores by e^(score·scale + bias − the largest), zeros behind them up to a multiple of PANEL, and
// returns their sum.
INLINE float soften(float *scores, int64_t n, float scale, const float *bias) {
	vec highest = SET1(-__builtin_inff()), sum = SET1(0.f);
	for (int64_t j = 0; j < n; j += W) {
		vec x = LOAD(scores + j) * SET1(scale);
		const int64_t rest = n - j < W ? n - j : W;
		if (bias) x = x + LOADN(bias + j, rest);
		STORE(scores + j, x);
		for (int64_t i = rest; i < W; i++) scores[j + i] = -__builtin_inff();
		highest = MAX(highest, LOAD(scores + j));
	}
	const float top = largest(highest);
	for (int64_t j = 0; j < n; j += W) {
		const int64_t rest = n - j < W ? n - j : W;
		vec e = power_e(LOAD(scores + j) - SET1(top));
		STORE(scores + j, e);
		for (int64_t i = rest; i < W; i++) scores[j + i] = 0;
		sum = sum + LOAD(scores + j);
	}
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
		float sums[BLOCK_R];
		for (int64_t j = 0; j < padded; j += PANEL) {
			multiply_rows(block, queries + row * a->stride, a->stride, keys + j * a->size, a->size, NULL, rows);
			for (int64_t i = 0; i < rows; i++)
				memcpy(scores + i * padded + j, block + i * PANEL, PANEL * sizeof *block);
		}
		for (int64_t i = 0; i < rows; i++) {
			const float *bias = a->bias ? a->bias + head * (2 * a->far + 1) + a->far - (row + i) : NULL;
			sums[i] = soften(scores + i * padded, n, a->scale, bias);
		}
		for (int64_t j = 0; j < a->size; j += PANEL) {
			multiply_rows(block, scores, padded, values + j * n, n, NULL, rows);
			for (int64_t i = 0; i < rows; i++)
				for (int64_t k = 0; k < PANEL && j + k < a->size; k += W) {
					const int64_t rest = a->size - j - k;
					float *y = a->y + (from + row + i) * a->y_stride + head * a->size + j + k;
					const vec v = LOAD(block + i * PANEL + k) / SET1(sums[i]);
					if (rest >= W) STORE(y, v); // not STOREN, which takes 40 instructions on some AMD
					else STOREN(y, v, rest);
				}
		}
	}
}

void PASTE(slc_attention_f32_, ISA)(const slc_attention *a) {
	for (int64_t text = a->first; text < a->last; text++)
		for (int64_t head = a->first_head; head < a->last_head; head++) attend(a, text, head);
}
