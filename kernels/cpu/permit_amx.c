//go:build amd64 || arm64

// Asks Linux for the tile registers of AMX, which it gives only to processes that do.
#define _DEFAULT_SOURCE // syscall
#include "slc.h"

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

int32_t slc_permit_amx(void) {
#if defined(__linux__) && defined(SLC_WITH_AMX)
	return syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* tile data */) == 0 ? 0 : -1;
#else
	return -1;
#endif
}
