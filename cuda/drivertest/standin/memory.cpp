/* Device memory with guard bands, pinned memory, pools, copies. */
#include "state.h"

#include <cstdlib>
#include <cstring>

namespace standin {

/* A guard band lies on both sides of a block. New memory is filled with NaN (as float32 and float64). */
enum { band = 512, guard = 0xA5, fresh = 0xFF };

static bool guard_holds(const char *p) {
  static const std::vector<char> want(band, (char)guard);
  return memcmp(p, want.data(), band) == 0;
}

Block *block_around(uintptr_t address) {
  State &s = state();
  auto next = s.blocks.upper_bound(address);
  if (next == s.blocks.begin()) return nullptr;
  auto &b = *std::prev(next);
  return address < b.first + b.second.bytes ? &b.second : nullptr;
}

static uintptr_t address_of(const Block &b) { return (uintptr_t)b.raw + band; }

int inside(const char *what, uintptr_t address, size_t bytes, Context *context) {
  Block *b = block_around(address);
  std::string w = what;
  if (!b) {
    fault(w + " where no device memory is");
    return invalid_value;
  }
  if (b->context != context) {
    fault(w + " of another device's memory");
    return invalid_value;
  }
  if (address + bytes > address_of(*b) + b->bytes) {
    fault(w + " beyond a block of device memory");
    return invalid_value;
  }
  return ok;
}

int guards_hold(const char *after) {
  for (auto &b : state().blocks) {
    char *p = (char *)b.first;
    if (guard_holds(p - band) && guard_holds(p + b.second.bytes)) continue;
    fault(std::string(after) + " has written beyond a block of " + std::to_string(b.second.bytes) + " bytes");
    memset(p - band, guard, band);
    memset(p + b.second.bytes, guard, band);
    return illegal_address;
  }
  return ok;
}

static int allocate(uintptr_t *address, size_t bytes, Context *c, Pool *pool) {
  State &s = state();
  if (bytes == 0) return invalid_value;
  if (c->used + bytes > s.memory) return out_of_memory;
  size_t rounded = (bytes + 511) / 512 * 512;
  char *raw = (char *)aligned_alloc(512, rounded + 2 * band);
  if (!raw) return out_of_memory;
  memset(raw, guard, rounded + 2 * band);
  memset(raw + band, fresh, bytes);
  c->used += bytes;
  *address = (uintptr_t)raw + band;
  s.blocks[*address] = Block{c, raw, bytes, pool};
  return ok;
}

static void destroy(std::map<uintptr_t, Block>::iterator b) {
  free(b->second.raw);
  state().blocks.erase(b);
}

static int release(uintptr_t address, const char *what) {
  State &s = state();
  auto b = s.blocks.find(address);
  if (b == s.blocks.end()) {
    fault(std::string(what) + " of what is not allocated");
    return invalid_value;
  }
  int code = guards_hold(what);
  b->second.context->used -= b->second.bytes;
  destroy(b);
  return code;
}

void release_context(Context *c) {
  State &s = state();
  bool was_broken = c->broken != 0;
  drain(c);
  auto drop = [&](auto &set, auto destroy_one) {
    for (auto i = set.begin(); i != set.end();) {
      auto *x = *i;
      if (x->context == c) {
        if (was_broken) { /* memory of a broken context is released when the context ends */
          i = set.erase(i);
          destroy_one(x);
          continue;
        }
      }
      ++i;
    }
  };
  drop(s.streams, [](Stream *x) { delete x; });
  drop(s.events, [](Event *x) { delete x; });
  drop(s.modules, [](Module *x) { delete x; });
  drop(s.pools_made, [](Pool *x) { delete x; });
  for (auto b = s.blocks.begin(); b != s.blocks.end();) {
    auto here = b++;
    if (here->second.context == c && was_broken) destroy(here);
  }
  if (was_broken) {
    for (auto &p : s.pinned) free(p.first);
    s.pinned.clear();
    c->used = 0;
  }
  c->broken = 0;
}

static bool is_pinned(const void *p, size_t bytes) {
  const char *from = (const char *)p;
  for (auto &b : state().pinned) {
    const char *first = (const char *)b.first;
    if (from >= first && from + bytes <= first + b.second) return true;
  }
  return false;
}

static bool stream_fits(Stream *s, Context *c, const char *what) {
  if (known(s) && s->context == c) return true;
  fault(std::string(what) + " on a stream of another context");
  return false;
}

}  // namespace standin

using namespace standin;

#define ENTER(name)             \
  Entered e(name);              \
  if (e.code) return e.code;    \
  Context *c;                   \
  if (int code = use(&c)) return code

STANDIN_API int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  ENTER("cuMemGetInfo_v2");
  *total = state().memory;
  *free_bytes = *total - c->used;
  return ok;
}

STANDIN_API int cuMemAlloc_v2(uintptr_t *address, size_t bytes) {
  ENTER("cuMemAlloc_v2");
  return allocate(address, bytes, c, nullptr);
}

STANDIN_API int cuMemFree_v2(uintptr_t address) {
  Entered e("cuMemFree_v2");
  Context *c;
  if (int code = use(&c)) return code;
  drain(c); /* as the real driver does */
  int code = release(address, "cuMemFree");
  return e.code ? e.code : code;
}

STANDIN_API int cuMemHostAlloc(void **p, size_t bytes, unsigned) {
  ENTER("cuMemHostAlloc");
  *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!*p) return out_of_memory;
  memset(*p, guard, bytes);
  state().pinned[*p] = bytes;
  return ok;
}

STANDIN_API int cuMemFreeHost(void *p) {
  Entered e("cuMemFreeHost");
  Context *c;
  if (int code = use(&c)) return code;
  drain(c);
  if (!state().pinned.erase(p)) {
    fault("cuMemFreeHost of what is not allocated");
    return invalid_value;
  }
  free(p);
  return e.code;
}

STANDIN_API int cuMemPoolCreate(Pool **pool, const void *) {
  ENTER("cuMemPoolCreate");
  *pool = new Pool{c};
  state().pools_made.insert(*pool);
  return ok;
}

STANDIN_API int cuMemPoolDestroy(Pool *pool) {
  Entered e("cuMemPoolDestroy");
  Context *c;
  if (int code = use(&c)) return code;
  if (!state().pools_made.erase(pool)) return invalid_value;
  for (auto &b : state().blocks)
    if (b.second.pool == pool) {
      if (!b.second.leaving) fault("cuMemPoolDestroy of a pool with memory in use");
      b.second.pool = nullptr;
    }
  delete pool;
  return e.code;
}

STANDIN_API int cuMemAllocFromPoolAsync(uintptr_t *address, size_t bytes, Pool *pool, Stream *s) {
  ENTER("cuMemAllocFromPoolAsync");
  if (!stream_fits(s, c, "cuMemAllocFromPoolAsync") || !state().pools_made.count(pool)) return invalid_handle;
  return allocate(address, bytes, c, pool);
}

STANDIN_API int cuMemFreeAsync(uintptr_t address, Stream *s) {
  Entered e("cuMemFreeAsync");
  Context *c;
  if (int code = use(&c)) return code;
  if (!stream_fits(s, c, "cuMemFreeAsync")) return invalid_handle;
  Block *b = block_around(address);
  if (!b || b->leaving) {
    fault("cuMemFreeAsync of what is not allocated");
    return invalid_value;
  }
  b->leaving = true;
  int code = queue(s, [address] { return release(address, "cuMemFreeAsync"); });
  return e.code ? e.code : code;
}

STANDIN_API int cuMemcpyHtoDAsync_v2(uintptr_t to, const void *from, size_t bytes, Stream *s) {
  ENTER("cuMemcpyHtoDAsync_v2");
  if (!stream_fits(s, c, "a copy")) return invalid_handle;
  if (!is_pinned(from, bytes)) {
    fault("an asynchronous copy from memory that is not pinned");
    return invalid_value;
  }
  if (int code = inside("a copy to the device", to, bytes, c)) return code;
  return queue(s, [=] {
    int code = inside("a copy to the device", to, bytes, c);
    if (!code) memcpy((void *)to, from, bytes);
    return code ? (int)illegal_address : (int)ok;
  });
}

STANDIN_API int cuMemcpyDtoHAsync_v2(void *to, uintptr_t from, size_t bytes, Stream *s) {
  ENTER("cuMemcpyDtoHAsync_v2");
  if (!stream_fits(s, c, "a copy")) return invalid_handle;
  if (!is_pinned(to, bytes)) {
    fault("an asynchronous copy to memory that is not pinned");
    return invalid_value;
  }
  if (int code = inside("a copy from the device", from, bytes, c)) return code;
  return queue(s, [=] {
    int code = inside("a copy from the device", from, bytes, c);
    if (!code) memcpy(to, (const void *)from, bytes);
    return code ? (int)illegal_address : (int)ok;
  });
}

STANDIN_API int cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t bytes, Stream *s) {
  ENTER("cuMemcpyDtoDAsync_v2");
  if (!stream_fits(s, c, "a copy")) return invalid_handle;
  for (uintptr_t p : {to, from})
    if (int code = inside("a copy on the device", p, bytes, c)) return code;
  return queue(s, [=] {
    for (uintptr_t p : {to, from})
      if (inside("a copy on the device", p, bytes, c)) return (int)illegal_address;
    memmove((void *)to, (const void *)from, bytes);
    return (int)ok;
  });
}

STANDIN_API int cuMemsetD8Async(uintptr_t to, unsigned char value, size_t bytes, Stream *s) {
  ENTER("cuMemsetD8Async");
  if (!stream_fits(s, c, "a fill")) return invalid_handle;
  if (int code = inside("a fill", to, bytes, c)) return code;
  return queue(s, [=] {
    int code = inside("a fill", to, bytes, c);
    if (!code) memset((void *)to, value, bytes);
    return code ? (int)illegal_address : (int)ok;
  });
}
