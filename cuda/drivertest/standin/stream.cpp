/* Streams, events, images, launches. */
#include "state.h"

#include <malloc.h>

#include <chrono>
#include <cstring>

/* The kernels, compiled for the host (kernels/cuda/host, or the small set for tests). */
extern "C" int slc_host_launch(const char *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, void **params);
extern "C" const char *slc_host_kernels(int i);

namespace standin {

static double now() {
  using namespace std::chrono;
  return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

bool known(Stream *s) { return state().streams.count(s) != 0; }

int queue(Stream *s, std::function<int()> run) {
  s->work.push_back(Work{run});
  s->queued++;
  return s->lazy ? (int)ok : advance(s, s->queued);
}

/* advance runs a stream's work up to a position. An error breaks the context, as on a device; here the call that
 * caused it returns it. */
int advance(Stream *s, uint64_t position) {
  if (s->busy) return ok; /* two streams wait for each other only through completed work */
  s->busy = true;
  while (s->done < position && !s->work.empty()) {
    Work w = s->work.front();
    s->work.pop_front();
    int code = s->context->broken ? 0 : w.run();
    s->done++;
    if (code && !s->context->broken) s->context->broken = code;
  }
  s->busy = false;
  return s->context->broken;
}

int drain(Context *c) {
  int code = ok;
  for (Stream *s : state().streams)
    if (s->context == c)
      if (int r = advance(s, s->queued)) code = r;
  return code;
}

static int reach(Event *e) {
  return e->stream && known(e->stream) ? advance(e->stream, e->position) : (int)ok;
}

}  // namespace standin

using namespace standin;

#define ENTER(name)             \
  Entered e(name);              \
  if (e.code) return e.code;    \
  Context *c;                   \
  if (int code = use(&c)) return code

/* Calls that release something do so before they return an error. */
#define LEAVE(name)             \
  Entered e(name);              \
  Context *c;                   \
  if (int code = use(&c)) return code

STANDIN_API int cuStreamCreate(Stream **s, unsigned flags) {
  ENTER("cuStreamCreate");
  if (flags > 1) return invalid_value;
  *s = new Stream(c);
  int number = c->streams_made++;
  (*s)->lazy = state().lazy == 1 || (state().lazy == 2 && number % 2 == 1);
  state().streams.insert(*s);
  return ok;
}

STANDIN_API int cuStreamDestroy_v2(Stream *s) {
  LEAVE("cuStreamDestroy_v2");
  if (!known(s)) return invalid_handle;
  int code = advance(s, s->queued);
  for (Event *v : state().events)
    if (v->stream == s) v->stream = nullptr;
  state().streams.erase(s);
  delete s;
  return e.code ? e.code : code;
}

STANDIN_API int cuStreamSynchronize(Stream *s) {
  ENTER("cuStreamSynchronize");
  if (!known(s)) return invalid_handle;
  return advance(s, s->queued);
}

STANDIN_API int cuStreamWaitEvent(Stream *s, Event *v, unsigned) {
  ENTER("cuStreamWaitEvent");
  if (!known(s) || !state().events.count(v)) return invalid_handle;
  Stream *other = v->stream;
  uint64_t position = v->position;
  if (!other || other == s) return ok;
  return queue(s, [other, position] { return known(other) ? advance(other, position) : (int)ok; });
}

STANDIN_API int cuEventCreate(Event **v, unsigned flags) {
  ENTER("cuEventCreate");
  *v = new Event{c, flags};
  state().events.insert(*v);
  return ok;
}

STANDIN_API int cuEventDestroy_v2(Event *v) {
  LEAVE("cuEventDestroy_v2");
  if (!state().events.erase(v)) return invalid_handle;
  delete v;
  return e.code;
}

STANDIN_API int cuEventRecord(Event *v, Stream *s) {
  ENTER("cuEventRecord");
  if (!known(s) || !state().events.count(v)) return invalid_handle;
  v->stream = s;
  v->position = s->queued + 1;
  v->reached = false;
  v->asked = 0;
  uint64_t position = v->position;
  return queue(s, [v, position] {
    if (state().events.count(v) && v->position == position) { /* not recorded again since */
      v->milliseconds = now();
      v->reached = true;
    }
    return (int)ok;
  });
}

/* A lazy device is not ready until somebody waits. Repeated queries are not all counted. */
STANDIN_API int cuEventQuery(Event *v) {
  {
    std::lock_guard<std::recursive_mutex> held(state().lock);
    if (current() && !current()->broken && state().events.count(v) && !v->reached && v->asked++ >= 2) return not_ready;
  }
  ENTER("cuEventQuery");
  if (!state().events.count(v)) return invalid_handle;
  return v->reached ? ok : not_ready;
}

STANDIN_API int cuEventSynchronize(Event *v) {
  ENTER("cuEventSynchronize");
  if (!state().events.count(v)) return invalid_handle;
  return reach(v);
}

STANDIN_API int cuEventElapsedTime(float *milliseconds, Event *from, Event *to) {
  ENTER("cuEventElapsedTime");
  if (!state().events.count(from) || !state().events.count(to)) return invalid_handle;
  if ((from->flags | to->flags) & 2) return invalid_handle; /* made without timing */
  if (!from->reached || !to->reached) return not_ready;
  *milliseconds = (float)(to->milliseconds - from->milliseconds);
  return ok;
}

STANDIN_API int cuModuleLoadData(Module **m, const void *image) {
  ENTER("cuModuleLoadData");
  uint32_t magic;
  memcpy(&magic, image, 4);
  if (magic != 0xBA55ED50) return invalid_image;
  *m = new Module(c);
  state().modules.insert(*m);
  return ok;
}

STANDIN_API int cuModuleUnload(Module *m) {
  LEAVE("cuModuleUnload");
  drain(c);
  if (!state().modules.erase(m)) return invalid_handle;
  delete m;
  return e.code;
}

STANDIN_API int cuModuleGetFunction(Function **f, Module *m, const char *name) {
  ENTER("cuModuleGetFunction");
  if (!state().modules.count(m)) return invalid_handle;
  for (int i = 0;; i++) {
    const char *k = slc_host_kernels(i);
    if (!k) return not_found;
    if (!strcmp(k, name)) break;
  }
  auto &slot = m->functions[name];
  if (!slot) slot.reset(new Function{m, name});
  *f = slot.get();
  return ok;
}

STANDIN_API int cuFuncSetAttribute(Function *f, int attribute, int value) {
  ENTER("cuFuncSetAttribute");
  if (attribute != 8 || value < 0 || value > 227 << 10) return invalid_value;
  f->shared = value;
  return ok;
}

/* The parameters' values: gorgonia.org/cu stores them, eight bytes each, in one array that the pointers follow.
 * Their number is not passed; a kernel never reads beyond the last. */
static std::vector<uint64_t> values_of(void **params) {
  std::vector<uint64_t> v;
  if (!params) return v;
  size_t n = malloc_usable_size(params) / sizeof *params;
  char *base = (char *)params[0];
  n = n && base ? std::min(n, malloc_usable_size(base) / sizeof(uint64_t)) : 0;
  for (size_t i = 0; i < n && params[i] == base + 8 * i; i++) {
    uint64_t x;
    memcpy(&x, params[i], sizeof x);
    v.push_back(x);
  }
  return v;
}

STANDIN_API int cuLaunchKernel(Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, Stream *s, void **params, void **extra) {
  ENTER("cuLaunchKernel");
  if (!known(s) || s->context != c || f->module->context != c) {
    fault("a launch on a stream of another context");
    return invalid_handle;
  }
  uint64_t threads = (uint64_t)bx * by * bz;
  bool grid = gx && gy && gz && gx <= 0x7fffffff && gy <= 65535 && gz <= 65535;
  if (!grid || !threads || threads > 1024 || bz > 64 || extra || (int)shared > f->shared) return invalid_value;
  auto values = std::make_shared<std::vector<uint64_t>>(values_of(params));
  values->resize(values->size() + 1); /* never empty */
  return queue(s, [=] {
    std::vector<void *> at;
    for (uint64_t &x : *values) at.push_back(&x);
    at.resize(at.size() + 64, values->data()); /* more than any kernel reads */
    int code = slc_host_launch(f->name.c_str(), gx, gy, gz, bx, by, bz, shared, at.data());
    if (code == 1) {
      fault("a launch of an unknown kernel " + f->name);
      return (int)launch_failed;
    }
    if (code) return (int)illegal_address;
    return guards_hold(f->name.c_str());
  });
}
