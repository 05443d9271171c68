// Shared by the bodies of canonical scores (scores_body.h, pairs_body.h). They are compiled once per instruction set,
// so this file has no include guard; scores_body.h lists the required definitions.
//
// A pair has eight float64 lanes: lane l adds the terms i = l (mod 8) in order, starting from +0.
// A tail of fewer than eight elements is read into a zeroed buffer; adding its +0 terms changes no
// lane, because a sum that starts from +0 is never -0.
#include <string.h>
#include "inline.h"
#include "scores.h"

#define PARTS (8 / WIDTH)

typedef double vec __attribute__((vector_size(8 * WIDTH)));

// fold adds a pair's eight lanes in a fixed order: ((l0+l4)+(l2+l6)) + ((l1+l5)+(l3+l7)).
INLINE double fold(const vec *lane) {
#if WIDTH == 8
	typedef double vec4 __attribute__((vector_size(32)));
	vec4 low = __builtin_shufflevector(lane[0], lane[0], 0, 1, 2, 3);
	vec4 high = __builtin_shufflevector(lane[0], lane[0], 4, 5, 6, 7);
	vec4 four = low + high;
#elif WIDTH == 4
	vec four = lane[0] + lane[1];
#endif
#if WIDTH == 2
	vec two = (lane[0] + lane[2]) + (lane[1] + lane[3]);
#else
	typedef double vec2 __attribute__((vector_size(16)));
	vec2 two = __builtin_shufflevector(four, four, 0, 1) + __builtin_shufflevector(four, four, 2, 3);
#endif
	return two[0] + two[1];
}
