/* Tensor maps for copies of boxes. The 128 bytes that a real driver writes are undocumented; here they hold the
 * structure that kernels/cuda/host/hopper.h reads. */
#include "state.h"

#include <cstring>

namespace {

struct Map {
  uint64_t mark, address, width, height, stride;
  uint32_t box_width, box_height, element, swizzle;
  uint64_t unused[9];
};
static_assert(sizeof(Map) == 128, "a map has 128 bytes");

const uint64_t map_mark = 0x70616d2d636c73;

/* Sizes of the supported types by the driver's numbers: 8-bit integers and bfloat16. */
uint32_t size_of(int type) { return type == 0 ? 1 : type == 9 ? 2 : 0; }

} /* namespace */

using namespace standin;

/* The limits come from the driver's documentation. */
STANDIN_API int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t *size,
                                       const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                                       int interleave, int swizzle, int promotion, int fill) {
  Entered e("cuTensorMapEncodeTiled");
  if (e.code) return e.code;
  if (!state().maps) return not_found; /* as from a driver that lacks the entry */
  uint32_t element = size_of(type);
  if (!element || rank != 2 || interleave != 0 || promotion < 0 || promotion > 3 || fill != 0) return invalid_value;
  static const uint32_t patterns[] = {0, 32, 64, 128};
  if (swizzle < 0 || swizzle > 3 || (uintptr_t)map % 64 || (uintptr_t)address % 16) return invalid_value;
  if (!size[0] || !size[1] || size[0] > (1ull << 32) || size[1] > (1ull << 32)) return invalid_value;
  if (strides[0] % 16 || strides[0] >= (1ull << 40) || strides[0] < size[0] * element) return invalid_value;
  if (!box[0] || !box[1] || box[0] > 256 || box[1] > 256 || steps[0] != 1 || steps[1] != 1) return invalid_value;
  uint32_t bytes = box[0] * element;
  if (bytes % 16 || (swizzle && bytes > patterns[swizzle])) return invalid_value;
  Map m = {map_mark, (uintptr_t)address, size[0], size[1], strides[0], box[0], box[1], element, patterns[swizzle], {}};
  if (state().swizzle >= 0) m.swizzle = (uint32_t)state().swizzle;
  memcpy(map, &m, sizeof m);
  return ok;
}
