//go:build amd64 || arm64

#define _DEFAULT_SOURCE // syscall
#include "machine.h"

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__linux__)
#include <sys/auxv.h>
#endif

int32_t slc_has_amx(void) {
#if defined(SLC_WITH_AMX)
	return 1;
#else
	return 0;
#endif
}

// Linux grants the tile registers only to processes that request them.
int32_t slc_permit_amx(void) {
#if defined(__linux__) && defined(SLC_WITH_AMX)
	return syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* tile data */) == 0 ? 0 : -1;
#else
	return -1;
#endif
}

int32_t slc_has_bfmmla(void) {
#if defined(__aarch64__) && defined(__linux__)
	return (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0;
#else
	return 0;
#endif
}

// AMD's family 25 (Zen 3 and 4) has two adders beside two multiply-add units. Family 26 (Zen 5) does too, but fewer
// loads per operation; it was not measured.
int32_t slc_is_zen_3_or_4(void) {
#if defined(__x86_64__)
	unsigned a, b, c, d;
	if (!__get_cpuid(0, &a, &b, &c, &d) || b != signature_AMD_ebx || d != signature_AMD_edx || c != signature_AMD_ecx)
		return 0;
	__get_cpuid(1, &a, &b, &c, &d);
	return (a >> 8 & 15) + (a >> 20 & 255) == 25;
#else
	return 0;
#endif
}
