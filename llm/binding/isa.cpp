// Which of the instruction sets that ggml's CPU code is compiled for runs in this process (tools/setup/isa.go builds
// them). llama.cpp has one registry of backends for the process, so the choice is made once, before the first model.
#include "../slc_llm.h"

#include "ggml-cpu.h"

#include <cstdlib>
#include <cstring>
#include <sys/syscall.h>
#include <unistd.h>

#define SLC_DECLARE(isa)                                                                \
    extern "C" ggml_backend_reg_t slc_##isa##_ggml_backend_cpu_reg(void);               \
    extern "C" ggml_threadpool * slc_##isa##_ggml_threadpool_new(ggml_threadpool_params *); \
    extern "C" void slc_##isa##_ggml_threadpool_free(ggml_threadpool *);                \
    extern "C" void slc_##isa##_ggml_threadpool_pause(ggml_threadpool *);
#define SLC_ISA(isa, runs)                                                                       \
    {#isa, runs, slc_##isa##_ggml_backend_cpu_reg, slc_##isa##_ggml_threadpool_new, \
     slc_##isa##_ggml_threadpool_free, slc_##isa##_ggml_threadpool_pause}

SLC_DECLARE(avx2)
SLC_DECLARE(avx512vnni)
SLC_DECLARE(amx)

namespace {

bool always() {
    return true;
}

bool avx512vnni() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi") &&
           __builtin_cpu_supports("avx512vnni");
}

// The system gives a process the tiles' registers when it asks.
bool amx() {
    constexpr long request = 0x1023, tile_data = 18; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return avx512vnni() && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("amx-tile") &&
           __builtin_cpu_supports("amx-int8") && syscall(SYS_arch_prctl, request, tile_data) == 0;
}

struct Isa {
    const char * name;
    bool (*runs)();
    ggml_backend_reg_t (*reg)();
    ggml_threadpool * (*pool_new)(ggml_threadpool_params *);
    void (*pool_free)(ggml_threadpool *);
    void (*pool_pause)(ggml_threadpool *);
};

constexpr Isa kIsas[] = {SLC_ISA(avx2, always), SLC_ISA(avx512vnni, avx512vnni), SLC_ISA(amx, amx)}; // the best last

// The best one that runs here and is not beyond $SLUICE_ISA, which limits the kernels, too.
const Isa & choose_isa() {
    __builtin_cpu_init();
    const char * limit = getenv("SLUICE_ISA");
    if (!limit || !*limit) {
        limit = "amx";
    }
    const Isa * best = &kIsas[0];
    for (const Isa & isa : kIsas) {
        if (isa.runs()) {
            best = &isa;
        }
        if (strcmp(isa.name, limit) == 0) {
            return *best;
        }
    }
    return kIsas[0]; // scalar, avx512 or a name that the kernels refuse
}

const Isa & chosen() {
    static const Isa & isa = choose_isa();
    return isa;
}

} // namespace

extern "C" {

const char * slc_llm_isa(void) {
    return chosen().name;
}

ggml_backend_reg_t ggml_backend_cpu_reg(void) {
    return chosen().reg();
}

ggml_threadpool * ggml_threadpool_new(ggml_threadpool_params * params) {
    return chosen().pool_new(params);
}

void ggml_threadpool_free(ggml_threadpool * pool) {
    chosen().pool_free(pool);
}

void ggml_threadpool_pause(ggml_threadpool * pool) {
    chosen().pool_pause(pool);
}

} // extern "C"
