// Self-attention of each text of a batch; the texts are stored one after the other, without padding.
#ifndef SLC_ATTENTION_H
#define SLC_ATTENTION_H

#include "slc.h"

// Row t of qkv holds the queries of all heads, then the keys, then the values: 3 · heads · size values. Text i has the
// rows starts[i] to starts[i+1]. For each text and head, y = softmax(q·kᵀ·scale + bias)·v; a row of y holds all heads.
// The result of a text does not depend on the others.
//
// bias, if not NULL, has a row for each head, of 2·far + 1 values by the distance key − query, from −far on (MPNet).
// Then no text may be longer than far + 1.
//
// The caller chooses the texts [first, last) and the heads [first_head, last_head). scratch has
// slc_attention_scratch(isa, longest text, size) values.
typedef struct {
	const float *qkv;
	int64_t stride, heads, size;
	const int64_t *starts;
	int64_t first, last, first_head, last_head;
	float scale;
	const float *bias;
	int64_t far;
	float *y;
	int64_t y_stride;
	float *scratch;
} slc_attention;

int32_t slc_attention_f32(int32_t isa, const slc_attention *a, slc_error *error);
int64_t slc_attention_scratch(int32_t isa, int64_t longest, int64_t size);

// slc_attention_bf16 is slc_attention_f32 with queries, keys, values and weights rounded to bfloat16. For an
// instruction set of linear.h that does not support it, the scratch size is 0.
int32_t slc_attention_bf16(int32_t isa, const slc_attention *a, slc_error *error);
int64_t slc_attention_scratch_bf16(int32_t isa, int64_t longest, int64_t size);

typedef void slc_attention_fn(const slc_attention *a);
slc_attention_fn slc_attention_f32_scalar;
#if defined(__x86_64__)
slc_attention_fn slc_attention_f32_avx2, slc_attention_f32_avx512;
#if defined(SLC_WITH_AMX)
slc_attention_fn slc_attention_bf16_amx, slc_attention_bf16_amx_emulated;
#endif
#elif defined(__aarch64__)
slc_attention_fn slc_attention_f32_neon;
#endif

#endif
