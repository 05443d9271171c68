// Attention of one head and its backward pass, a part of training_body.h.
//
// All six products have the form out[r][c] = sum over t of a[r * down + t * right] * b[t * stride + c], where the rows
// of b are vectors: keys and values are copied, or transposed, into rows padded with zeros. One function computes four
// rows and two vectors of columns at a time; each element is one sum over t in order.

// tile computes ROWS x COLS vectors of a product.
INLINE void tile(float *out, int64_t out_stride, const float *a, int64_t down, int64_t right, const float *b,
                 int64_t stride, int64_t terms, int rows, int cols) {
	vec s[4][2] = {{{0}}};
	for (int64_t t = 0; t < terms; t++) {
		vec y[2];
#pragma GCC unroll 2
		for (int c = 0; c < cols; c++) y[c] = *(const unaligned *)(b + t * stride + c * WIDTH);
#pragma GCC unroll 4
		for (int r = 0; r < rows; r++) {
			vec x = all(a[r * down + t * right]);
#pragma GCC unroll 2
			for (int c = 0; c < cols; c++) s[r][c] = MADD(s[r][c], x, y[c]);
		}
	}
#pragma GCC unroll 4
	for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
		for (int c = 0; c < cols; c++) *(unaligned *)(out + r * out_stride + c * WIDTH) = s[r][c];
}

// product computes all of it; cols is a multiple of WIDTH.
static void product(float *out, int64_t out_stride, const float *a, int64_t down, int64_t right, const float *b,
                    int64_t stride, int64_t rows, int64_t terms, int64_t cols) {
	for (int64_t r = 0; r < rows;) {
		int64_t some = rows - r >= 4 ? 4 : 1;
		for (int64_t c = 0; c < cols;) {
			const float *from = a + r * down, *y = b + c;
			float *to = out + r * out_stride + c;
			if (cols - c >= 2 * WIDTH) {
				if (some == 4)
					tile(to, out_stride, from, down, right, y, stride, terms, 4, 2);
				else
					tile(to, out_stride, from, down, right, y, stride, terms, 1, 2);
				c += 2 * WIDTH;
			} else {
				if (some == 4)
					tile(to, out_stride, from, down, right, y, stride, terms, 4, 1);
				else
					tile(to, out_stride, from, down, right, y, stride, terms, 1, 1);
				c += WIDTH;
			}
		}
		r += some;
	}
}

INLINE int64_t padded(int64_t n) { return (n + SLC_ATTENDED_PAD - 1) / SLC_ATTENDED_PAD * SLC_ATTENDED_PAD; }

// copy_rows copies rows of dim values to rows of padded(dim), padding with zeros.
static void copy_rows(float *to, const float *from, int64_t stride, int64_t rows, int64_t dim) {
	int64_t width = padded(dim);
	for (int64_t i = 0; i < rows; i++) {
		memcpy(to + i * width, from + i * stride, (size_t)dim * sizeof *to);
		memset(to + i * width + dim, 0, (size_t)(width - dim) * sizeof *to);
	}
}

// turn_rows writes the transpose of rows, times scale, as dim rows of padded(rows), padding with zeros.
static void turn_rows(float *to, const float *from, int64_t stride, int64_t rows, int64_t dim, float scale) {
	int64_t width = padded(rows);
	for (int64_t j = 0; j < dim; j++) {
		for (int64_t i = 0; i < rows; i++) to[j * width + i] = from[i * stride + j] * scale;
		memset(to + j * width + rows, 0, (size_t)(width - rows) * sizeof *to);
	}
}

// put_rows is the inverse of copy_rows.
static void put_rows(float *to, int64_t stride, const float *from, int64_t rows, int64_t dim) {
	for (int64_t i = 0; i < rows; i++) memcpy(to + i * stride, from + i * padded(dim), (size_t)dim * sizeof *to);
}

// softmax converts a row of n values to probabilities; elements from n up to width become 0.
static void softmax(float *row, int64_t n, int64_t width) {
	float top = row[0], sum = 0;
	for (int64_t j = 1; j < n; j++) top = row[j] > top ? row[j] : top;
	for (int64_t j = 0; j < width; j += WIDTH)
		*(unaligned *)(row + j) = exponential(*(unaligned *)(row + j) - top);
	memset(row + n, 0, (size_t)(width - n) * sizeof *row);
	vec lanes = {0};
	for (int64_t j = 0; j < width; j += WIDTH) lanes += *(unaligned *)(row + j);
	for (int j = 0; j < WIDTH; j++) sum += lanes[j];
	for (int64_t j = 0; j < width; j += WIDTH) *(unaligned *)(row + j) /= sum;
}

void PASTE(slc_attend_f32_, ISA)(const slc_attended_head *a, const float *q, const float *k, const float *v,
                                 const float *bias, float *p, float *context, float *scratch) {
	int64_t width = padded(a->length), dim = padded(a->dim);
	float *kt = scratch, *rows = kt + a->dim * width, *out = rows + a->length * dim;
	turn_rows(kt, k, a->kv_stride, a->length, a->dim, a->scale);
	copy_rows(rows, v, a->kv_stride, a->length, a->dim);
	product(p, width, q, a->q_stride, 1, kt, width, a->queries, a->dim, width);
	for (int64_t i = 0; i < a->queries; i++) {
		for (int64_t j = 0; bias && j < a->length; j++) p[i * width + j] += bias[j - i];
		softmax(p + i * width, a->length, width);
	}
	product(out, dim, p, width, 1, rows, dim, a->queries, a->length, dim);
	put_rows(context, a->q_stride, out, a->queries, a->dim);
}

void PASTE(slc_attend_back_f32_, ISA)(const slc_attended_head *a, const float *q, const float *k, const float *v,
                                      const float *p, const float *d_context, float *dq, float *dk, float *dv,
                                      float *scratch) {
	int64_t width = padded(a->length), dim = padded(a->dim);
	float *vt = scratch, *rows = vt + a->dim * width, *ds = rows + (a->length + a->queries) * dim;
	float *out = ds + a->queries * width;
	turn_rows(vt, v, a->kv_stride, a->length, a->dim, 1);
	product(ds, width, d_context, a->q_stride, 1, vt, width, a->queries, a->dim, width);
	for (int64_t i = 0; i < a->queries; i++) {
		const float *pi = p + i * width;
		float *di = ds + i * width, along = 0;
		vec lanes = {0};
		for (int64_t j = 0; j < width; j += WIDTH)
			lanes = MADD(lanes, *(unaligned *)(di + j), *(const unaligned *)(pi + j));
		for (int j = 0; j < WIDTH; j++) along += lanes[j];
		for (int64_t j = 0; j < width; j += WIDTH) // p is 0 beyond the length, so this is too
			*(unaligned *)(di + j) = *(const unaligned *)(pi + j) * (*(unaligned *)(di + j) - along) * a->scale;
	}
	copy_rows(rows, k, a->kv_stride, a->length, a->dim);
	product(out, dim, ds, width, 1, rows, dim, a->queries, a->length, dim);
	put_rows(dq, a->q_stride, out, a->queries, a->dim);
	copy_rows(rows, q, a->q_stride, a->queries, a->dim);
	product(out, dim, ds, 1, width, rows, dim, a->length, a->queries, dim);
	put_rows(dk, a->kv_stride, out, a->length, a->dim);
	copy_rows(rows, d_context, a->q_stride, a->queries, a->dim);
	product(out, dim, p, 1, width, rows, dim, a->length, a->queries, dim);
	put_rows(dv, a->kv_stride, out, a->length, a->dim);
}
