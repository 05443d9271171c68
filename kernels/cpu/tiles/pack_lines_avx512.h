// Lines of 64 bytes in the order of tile registers and VNNI. Include pack_avx512.h first.

// place stores 16 vectors' lines of 64 bytes in a tile: unchanged (left), or in columns of 4 bytes (right).
INLINE void place(uint8_t *tile, __m512i *lines, int right) {
	__m512 words[16];
	for (int i = 0; i < 16; i++) words[i] = _mm512_castsi512_ps(lines[i]);
	if (right) transpose(words);
	for (int i = 0; i < 16; i++) _mm512_store_ps(tile + 64 * i, words[i]);
}
