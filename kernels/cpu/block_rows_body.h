// Calls multiply with the number of rows as a constant.
#define ROWS(r) \
	case r: multiply(sums, a, a_stride, b, n, STREAMS, r < BLOCK_R ? r : BLOCK_R); break;
switch (rows) {
	ROWS(1) ROWS(2) ROWS(3)
#if BLOCK_R > 4
	ROWS(4) ROWS(5)
#endif
#if BLOCK_R > 6
	ROWS(6) ROWS(7) ROWS(8) ROWS(9) ROWS(10) ROWS(11)
#endif
default: multiply(sums, a, a_stride, b, n, STREAMS, BLOCK_R);
}
#undef ROWS
#undef STREAMS
