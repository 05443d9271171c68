// Which of the instruction sets that ggml's CPU code is compiled for runs in this process (tools/setup/isa.go builds
// them, and defines SLC_HAS_<set> for each). llama.cpp has one registry of backends for the process, so the choice is
// made once, before the first model.
#include "../slc_llm.h"

#include "ggml-backend.h"
#include "ggml-cpu.h"

#include <cstdlib>
#include <cstring>
#if defined(__aarch64__)
#include <sys/auxv.h>
#else
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define SLC_DECLARE(isa)                                                                \
    extern "C" ggml_backend_reg_t slc_##isa##_ggml_backend_cpu_reg(void);               \
    extern "C" ggml_threadpool * slc_##isa##_ggml_threadpool_new(ggml_threadpool_params *); \
    extern "C" void slc_##isa##_ggml_threadpool_free(ggml_threadpool *);                \
    extern "C" void slc_##isa##_ggml_threadpool_pause(ggml_threadpool *);
#define SLC_ISA(isa, bit)                                                          \
    {#isa, bit, slc_##isa##_ggml_backend_cpu_reg, slc_##isa##_ggml_threadpool_new, \
     slc_##isa##_ggml_threadpool_free, slc_##isa##_ggml_threadpool_pause}

#define SLC_LACKS(isa, bit) {#isa, bit, nullptr, nullptr, nullptr, nullptr}

#ifdef SLC_HAS_avx2
SLC_DECLARE(avx2)
#define SLC_ISA_avx2 SLC_ISA
#else
#define SLC_ISA_avx2 SLC_LACKS
#endif
#ifdef SLC_HAS_avxvnni
SLC_DECLARE(avxvnni)
#define SLC_ISA_avxvnni SLC_ISA
#else
#define SLC_ISA_avxvnni SLC_LACKS
#endif
#ifdef SLC_HAS_avx512vnni
SLC_DECLARE(avx512vnni)
#define SLC_ISA_avx512vnni SLC_ISA
#else
#define SLC_ISA_avx512vnni SLC_LACKS
#endif
#ifdef SLC_HAS_amx
SLC_DECLARE(amx)
#define SLC_ISA_amx SLC_ISA
#else
#define SLC_ISA_amx SLC_LACKS
#endif
#ifdef SLC_HAS_neon
SLC_DECLARE(neon)
#define SLC_ISA_neon SLC_ISA
#else
#define SLC_ISA_neon SLC_LACKS
#endif
#ifdef SLC_HAS_dotprod
SLC_DECLARE(dotprod)
#define SLC_ISA_dotprod SLC_ISA
#else
#define SLC_ISA_dotprod SLC_LACKS
#endif
#ifdef SLC_HAS_i8mm
SLC_DECLARE(i8mm)
#define SLC_ISA_i8mm SLC_ISA
#else
#define SLC_ISA_i8mm SLC_LACKS
#endif

namespace {

#if defined(__aarch64__)
uint32_t this_cpu() {
    const bool dotprod = getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
    return SLC_LLM_CPU_NEON | (dotprod ? SLC_LLM_CPU_DOTPROD : 0u) |
           (dotprod && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) ? SLC_LLM_CPU_I8MM : 0u);
}
#else
bool avx2() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
           __builtin_cpu_supports("bmi2");
}

bool avxvnni() {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0; // gcc 12's __builtin_cpu_supports does not know it
    return avx2() && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && eax & bit_AVXVNNI;
}

bool avx512vnni() {
    return avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
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

uint32_t this_cpu() {
    __builtin_cpu_init();
    return (avx2() ? SLC_LLM_CPU_AVX2 : 0u) | (avxvnni() ? SLC_LLM_CPU_AVXVNNI : 0u) |
           (avx512vnni() ? SLC_LLM_CPU_AVX512VNNI : 0u) | (amx() ? SLC_LLM_CPU_AMX : 0u);
}
#endif

struct Isa {
    const char * name;
    uint32_t cpu; // its bit
    ggml_backend_reg_t (*reg)();
    ggml_threadpool * (*pool_new)(ggml_threadpool_params *);
    void (*pool_free)(ggml_threadpool *);
    void (*pool_pause)(ggml_threadpool *);
};

constexpr Isa kIsas[] = { // the best last
#if defined(__aarch64__)
    SLC_ISA_neon(neon, SLC_LLM_CPU_NEON), SLC_ISA_dotprod(dotprod, SLC_LLM_CPU_DOTPROD),
    SLC_ISA_i8mm(i8mm, SLC_LLM_CPU_I8MM)
#else
    SLC_ISA_avx2(avx2, SLC_LLM_CPU_AVX2), SLC_ISA_avxvnni(avxvnni, SLC_LLM_CPU_AVXVNNI),
    SLC_ISA_avx512vnni(avx512vnni, SLC_LLM_CPU_AVX512VNNI),
    SLC_ISA_amx(amx, SLC_LLM_CPU_AMX)
#endif
};

// What this library was built for.
uint32_t built() {
    uint32_t all = 0;
    for (const Isa & isa : kIsas) {
        all |= isa.reg ? isa.cpu : 0u;
    }
    return all;
}

// The best set of this build that the processor has and the limit allows, or the lowest that the processor has. An
// unknown limit (scalar, avx512) leaves the lowest. Null: the processor has none of them.
const Isa * choose_isa(uint32_t cpu, uint32_t have, const char * limit) {
    const Isa * best = nullptr;
    const Isa * lowest = nullptr;
#if defined(__aarch64__)
    if (limit && strcmp(limit, "bf16") == 0) { // above all sets: upstream has no code for BFMMLA
        limit = nullptr;
    }
#endif
    bool beyond = limit && *limit;
    for (const Isa & isa : kIsas) {
        beyond = beyond && strcmp(isa.name, limit) != 0;
    }
    for (const Isa & isa : kIsas) {
        if (cpu & have & isa.cpu) {
            lowest = lowest ? lowest : &isa;
            best = beyond ? best : &isa;
        }
        beyond = beyond || (limit && strcmp(isa.name, limit) == 0);
    }
    return best ? best : lowest;
}

// $SLUICE_ISA limits the kernels, too.
const Isa * chosen() {
    static const Isa * const isa = choose_isa(this_cpu(), built(), getenv("SLUICE_ISA"));
    return isa;
}

} // namespace

extern "C" {

const char * slc_llm_choose_isa(uint32_t cpu, uint32_t have, const char * limit) {
    const Isa * isa = choose_isa(cpu, have, limit);
    return isa ? isa->name : "";
}

const char * slc_llm_isa(void) {
    return chosen() ? chosen()->name : "";
}

void slc_llm_ran(int64_t * attention, int64_t * products) {
    *attention = *products = 0;
    if (chosen()) {
        auto * ran = (void (*)(int64_t *, int64_t *)) ggml_backend_reg_get_proc_address(chosen()->reg(), "slc_ran");
        ran(attention, products);
    }
}

int64_t slc_llm_time_waited(void) {
    if (!chosen()) {
        return 0;
    }
    return ((int64_t(*)()) ggml_backend_reg_get_proc_address(chosen()->reg(), "slc_time_waited"))();
}

// Without an instruction set no model is opened, and the functions of thread pools are not called.

ggml_backend_reg_t ggml_backend_cpu_reg(void) {
    return chosen() ? chosen()->reg() : nullptr;
}

ggml_threadpool * ggml_threadpool_new(ggml_threadpool_params * params) {
    return chosen()->pool_new(params);
}

void ggml_threadpool_free(ggml_threadpool * pool) {
    chosen()->pool_free(pool);
}

void ggml_threadpool_pause(ggml_threadpool * pool) {
    chosen()->pool_pause(pool);
}

} // extern "C"
