/* Settings, call counts, faults, and the entry points for the driver, devices and contexts. */
#include "state.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace standin {

State &state() {
  static State *s = new State; /* never destroyed: threads may end after main */
  return *s;
}

void fault(const std::string &what) {
  State &s = state();
  if (s.faults.size() < 100) s.faults.push_back(what);
}

Entered::Entered(const char *name) : held(state().lock), code(0) {
  State &s = state();
  s.calls++;
  if (s.fail_at == s.calls) {
    s.failed = name;
    code = s.fail_code;
    Context *c = current();
    if (c && code >= 700 && code < 720) c->broken = code;
  }
}

static thread_local int current_device = -1;
static thread_local uint64_t current_generation = 0;

Context *current() {
  if (current_device < 0) return nullptr;
  Context &c = state().contexts[current_device];
  return c.references > 0 && c.generation == current_generation ? &c : nullptr;
}

int use(Context **context) {
  *context = current();
  if (!*context) {
    fault("a call on a thread without a context");
    return invalid_context;
  }
  return (*context)->broken;
}

static void set_from_environment(State &s) {
  auto number = [](const char *name, long long otherwise) {
    const char *v = getenv(name);
    return v && *v ? atoll(v) : otherwise;
  };
  s.devices = (int)number("SLUICE_STANDIN_DEVICES", s.devices);
  s.version = (int)number("SLUICE_STANDIN_VERSION", s.version);
  s.init = (int)number("SLUICE_STANDIN_INIT", s.init);
  s.memory = (size_t)number("SLUICE_STANDIN_MEMORY", (long long)s.memory);
  s.lazy = (int)number("SLUICE_STANDIN_LAZY", s.lazy);
  s.fail_at = (long)number("SLUICE_STANDIN_FAIL_AT", s.fail_at);
  s.fail_code = (int)number("SLUICE_STANDIN_FAIL_CODE", s.fail_code);
  if (const char *v = getenv("SLUICE_STANDIN_CAPABILITY")) sscanf(v, "%d.%d", &s.major, &s.minor);
}

}  // namespace standin

using namespace standin;

/* Settings for tests, named like the members of State. Returns 0 for an unknown name. */
STANDIN_API int standin_set(const char *name, long long value) {
  State &s = state();
  std::lock_guard<std::recursive_mutex> held(s.lock);
  std::string n = name;
  if (n == "devices") s.devices = (int)value;
  else if (n == "version") s.version = (int)value;
  else if (n == "major") s.major = (int)value;
  else if (n == "minor") s.minor = (int)value;
  else if (n == "init") s.init = (int)value;
  else if (n == "pools") s.pools = (int)value;
  else if (n == "lazy") s.lazy = (int)value;
  else if (n == "maps") s.maps = (int)value;
  else if (n == "swizzle") s.swizzle = (int)value;
  else if (n == "multiprocessors") s.sms = (int)value;
  else if (n == "memory") s.memory = (size_t)value;
  else if (n == "fail_code") s.fail_code = (int)value;
  else if (n == "fail_at") s.fail_at = value ? s.calls + value : 0, s.failed.clear();
  else return 0;
  return 1;
}

STANDIN_API long standin_calls(void) {
  std::lock_guard<std::recursive_mutex> held(state().lock);
  return state().calls;
}

static void tell(char *to, int size, const std::string &text) {
  snprintf(to, (size_t)size, "%s", text.c_str());
}

/* The name of the call that FailAt made fail, or "". */
STANDIN_API void standin_failed(char *to, int size) {
  std::lock_guard<std::recursive_mutex> held(state().lock);
  tell(to, size, state().failed);
}

/* Misuse by the caller since the last call, one per line. */
STANDIN_API void standin_faults(char *to, int size) {
  State &s = state();
  std::lock_guard<std::recursive_mutex> held(s.lock);
  std::string all;
  for (const std::string &f : s.faults) all += f + "\n";
  s.faults.clear();
  tell(to, size, all);
}

/* What has been created and not released. */
STANDIN_API void standin_left(char *to, int size) {
  State &s = state();
  std::lock_guard<std::recursive_mutex> held(s.lock);
  std::string all;
  auto count = [&](const char *what, size_t n) {
    if (n) all += std::to_string(n) + " " + what + "; ";
  };
  size_t references = 0, live = 0;
  for (auto &c : s.contexts) references += (size_t)c.second.references;
  for (auto &b : s.blocks) live += !b.second.leaving;
  count("contexts", references);
  count("pieces of device memory", live);
  count("pieces of pinned memory", s.pinned.size());
  count("streams", s.streams.size());
  count("events", s.events.size());
  count("modules", s.modules.size());
  count("memory pools", s.pools_made.size());
  tell(to, size, all);
}

STANDIN_API int cuInit(unsigned flags) {
  State &s = state();
  std::lock_guard<std::recursive_mutex> held(s.lock);
  if (!s.initialised) set_from_environment(s);
  s.initialised = true;
  Entered e("cuInit");
  if (e.code) return e.code;
  if (flags) return invalid_value;
  if (s.init) return s.init;
  return s.devices ? ok : no_device;
}

STANDIN_API int cuDriverGetVersion(int *version) {
  Entered e("cuDriverGetVersion");
  if (e.code) return e.code;
  *version = state().version;
  return ok;
}

static const struct {
  int code;
  const char *name, *text;
} words[] = {
    {invalid_value, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {not_initialised, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {no_device, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {invalid_device, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {invalid_image, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {invalid_context, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {no_binary, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {invalid_handle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {not_found, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {not_ready, "CUDA_ERROR_NOT_READY", "device not ready"},
    {illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {launch_failed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static const char *word(int code, bool name) {
  for (auto &w : words)
    if (w.code == code) return name ? w.name : w.text;
  return nullptr;
}

/* These two return descriptions only and are not counted. */
STANDIN_API int cuGetErrorName(int code, const char **name) {
  *name = word(code, true);
  return *name ? ok : invalid_value;
}

STANDIN_API int cuGetErrorString(int code, const char **text) {
  *text = word(code, false);
  return *text ? ok : invalid_value;
}

STANDIN_API int cuDeviceGetCount(int *n) {
  Entered e("cuDeviceGetCount");
  if (e.code) return e.code;
  *n = state().devices;
  return ok;
}

static bool is_device(int d) { return d >= 0 && d < state().devices; }

STANDIN_API int cuDeviceGet(int *device, int ordinal) {
  Entered e("cuDeviceGet");
  if (e.code) return e.code;
  if (!is_device(ordinal)) return invalid_device;
  *device = ordinal;
  return ok;
}

STANDIN_API int cuDeviceGetName(char *name, int size, int device) {
  Entered e("cuDeviceGetName");
  if (e.code) return e.code;
  if (!is_device(device)) return invalid_device;
  snprintf(name, (size_t)size, "Stand-in GPU %d", device);
  return ok;
}

STANDIN_API int cuDeviceTotalMem_v2(size_t *bytes, int device) {
  Entered e("cuDeviceTotalMem_v2");
  if (e.code) return e.code;
  if (!is_device(device)) return invalid_device;
  *bytes = state().memory;
  return ok;
}

STANDIN_API int cuDeviceGetAttribute(int *value, int attribute, int device) {
  Entered e("cuDeviceGetAttribute");
  if (e.code) return e.code;
  State &s = state();
  if (!is_device(device)) return invalid_device;
  switch (attribute) {
    case 13: *value = 1980000; return ok;     /* clock rate in kHz */
    case 16: *value = s.sms; return ok;       /* multiprocessors */
    case 38: *value = 50 << 20; return ok;    /* second-level cache */
    case 75: *value = s.major; return ok;
    case 76: *value = s.minor; return ok;
    case 97: *value = 227 << 10; return ok;   /* shared memory of a block that has asked for it */
    case 115: *value = s.pools; return ok;    /* memory pools */
  }
  fault("cuDeviceGetAttribute of " + std::to_string(attribute) + ", which the stand-in does not know");
  return invalid_value;
}

STANDIN_API int cuDevicePrimaryCtxRetain(void **context, int device) {
  Entered e("cuDevicePrimaryCtxRetain");
  if (e.code) return e.code;
  if (!is_device(device)) return invalid_device;
  Context &c = state().contexts[device];
  c.device = device;
  if (c.broken) return c.broken;
  if (c.references++ == 0) c.generation++, c.streams_made = 0;
  *context = &c;
  return ok;
}

STANDIN_API int cuDevicePrimaryCtxRelease_v2(int device) {
  Entered e("cuDevicePrimaryCtxRelease_v2");
  Context &c = state().contexts[device];
  if (c.references == 0) {
    fault("a primary context that was released too often");
    return invalid_context;
  }
  if (--c.references == 0) release_context(&c);
  return e.code;
}

STANDIN_API int cuCtxSetCurrent(void *context) {
  Entered e("cuCtxSetCurrent");
  if (!context) {
    current_device = -1;
    return e.code;
  }
  if (e.code) return e.code;
  Context *c = (Context *)context;
  if (c->references == 0) return invalid_context;
  current_device = c->device;
  current_generation = c->generation;
  return ok;
}

STANDIN_API int cuCtxGetCurrent(void **context) {
  Entered e("cuCtxGetCurrent");
  if (e.code) return e.code;
  *context = current();
  return ok;
}
