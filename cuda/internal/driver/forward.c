//go:build native && cgo && linux && (amd64 || arm64)

/* Every entry point of the CUDA driver that this program calls, as a forwarder: the program needs no libcuda to be
 * linked or to start. Until slc_cuda_load has succeeded a call returns an error code; from then on it is one
 * indirect jump. The symbols are hidden, so a library that loads libcuda itself (a CUDA provider of ONNX Runtime)
 * uses its own. */
#define _GNU_SOURCE
#include "forward.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

enum { not_initialised = 3, not_found = 500 };

#define HIDDEN __attribute__((visibility("hidden")))

static int no_driver(void) { return not_initialised; }
static int no_symbol(void) { return not_found; }
static int (*real_init)(unsigned);

#define X(i, name) (void *)no_driver,
HIDDEN void *slc_cuda_table[] = {
#include "symbols.h"
};
#undef X
#define X(i, name) #name,
static const char *const names[] = {
#include "symbols.h"
};
#undef X
enum { entries = sizeof names / sizeof *names };

/* The arguments stay in registers and on the stack, so one form serves all signatures. */
#if defined(__x86_64__)
#define X(i, name)                                                                                        \
  __asm__(".text\n.p2align 4\n.globl " #name "\n.hidden " #name "\n.type " #name ",@function\n" #name   \
          ":\n\tendbr64\n\tjmpq *slc_cuda_table+8*" #i "(%rip)\n.size " #name ",.-" #name "\n");
#elif defined(__aarch64__)
#define X(i, name)                                                                                        \
  __asm__(".text\n.p2align 4\n.globl " #name "\n.hidden " #name "\n.type " #name ",%function\n" #name   \
          ":\n\tadrp x16, slc_cuda_table+8*" #i "\n\tldr x16, [x16, :lo12:slc_cuda_table+8*" #i         \
          "]\n\tbr x16\n.size " #name ",.-" #name "\n");
#endif
#include "symbols.h"
#undef X

/* gorgonia.org/cu calls this in its package's init() and ends the process on an error; slc_cuda_load makes the real
 * call. */
HIDDEN int cuInit(unsigned flags) { return real_init ? real_init(flags) : 0; }

int slc_cuda_load(const char *path, int *loaded, char *text, int size) {
  *loaded = 0;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *why = dlerror();
    snprintf(text, size, "%s", why ? why : "dlopen failed");
    return -1;
  }
  *loaded = 1;
  int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
  if (!init) {
    snprintf(text, size, "%s has no cuInit", path);
    return not_found;
  }
  int code = init(0);
  if (code) {
    int (*name_of)(int, const char **) = (int (*)(int, const char **))dlsym(library, "cuGetErrorName");
    int (*text_of)(int, const char **) = (int (*)(int, const char **))dlsym(library, "cuGetErrorString");
    const char *name = NULL, *what = NULL;
    if (name_of) name_of(code, &name);
    if (text_of) text_of(code, &what);
    snprintf(text, size, "%s\n%s", name ? name : "", what ? what : "");
    return code; /* the library stays open: drivers do not support unloading */
  }
  for (size_t i = 0; i < entries; i++) {
    void *entry = dlsym(library, names[i]);
    slc_cuda_table[i] = entry ? entry : (void *)no_symbol;
  }
  real_init = init;
  return 0;
}
