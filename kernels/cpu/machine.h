// Properties of this machine that Go does not get from CPUID.
#ifndef SLC_MACHINE_H
#define SLC_MACHINE_H

#include <stdint.h>

// slc_has_amx reports whether this build includes the AMX kernels (SLC_WITH_AMX).
int32_t slc_has_amx(void);

// slc_permit_amx requests the tile registers from the operating system (once per process is enough); 0 on success.
// Without the AMX kernels it fails.
int32_t slc_permit_amx(void);

// slc_has_bfmmla reports whether the system names arm64's bfloat16 instructions; only Linux is asked.
int32_t slc_has_bfmmla(void);

// slc_is_zen_3_or_4 identifies processors on which Winograd's inner products (encoder/linear.h) are faster.
int32_t slc_is_zen_3_or_4(void);

#endif
