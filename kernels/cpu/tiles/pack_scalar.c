//go:build amd64 || arm64

// The baseline of the compiler's target: f32 panels, 32 vectors side by side, 16 elements of each at a time.
#include <string.h>
#include "pack.h"

void slc_pack_f32_scalar(slc_packing *p) {
	for (int64_t panel = p->from; panel < p->to; panel++) {
		float *to = (float *)p->data + panel * SLC_PANEL * p->dim;
		double squares[SLC_PANEL] = {0};
		const float *rows[SLC_PANEL];
		double scale[SLC_PANEL];
		int64_t n = p->n - panel * SLC_PANEL;
		if (n > SLC_PANEL) n = SLC_PANEL;
		for (int i = 0; i < n; i++) {
			int64_t v = panel * SLC_PANEL + i, row = p->order ? p->order[v] : v;
			rows[i] = p->rows + row * p->stride;
			scale[i] = !p->norms ? p->scale : p->norms[row] > 0 ? 1 / p->norms[row] : 0;
		}
		for (int64_t k = 0; k < p->dim; k += 16) {
			int64_t steps = p->dim - k < 16 ? p->dim - k : 16;
			float across[SLC_PANEL][16] = {{0}};
			for (int i = 0; i < n; i++) {
				float x[16] = {0};
				memcpy(x, rows[i] + k, (size_t)steps * sizeof x[0]);
				for (int j = 0; j < 16; j++) across[i][j] = (float)((double)x[j] * scale[i]);
			}
			float *at = to + k * SLC_PANEL;
			for (int64_t j = 0; j < steps; j++)
				for (int i = 0; i < SLC_PANEL; i++) at[j * SLC_PANEL + i] = across[i][j];
			for (int i = 0; i < SLC_PANEL && !p->norms; i++)
				for (int j = 0; j < 16; j++) squares[i] += (double)across[i][j] * (double)across[i][j];
		}
		for (int i = 0; i < SLC_PANEL; i++) {
			if (p->terms) p->terms[panel * SLC_PANEL + i] = (float)(-0.5 * squares[i]);
			double norm = p->norms ? (i < n && scale[i] > 0) * (1 + 0x1p-22)
				: __builtin_sqrt(squares[i]) * (1 + 0x1p-40);
			if (!(norm <= p->norm) && p->norm == p->norm) p->norm = norm; // NaN is preserved
		}
	}
	// A cosine's elements are rounded once; scaling by a power of two is exact except for underflow.
	p->residual = (p->norms ? 0x1p-24 * p->norm * (1 + 0x1p-20) : 0) + 0x1p-149 * (double)p->dim;
}
