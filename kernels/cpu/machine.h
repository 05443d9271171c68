// What this machine has beyond what CPUID says to Go.
#ifndef SLC_MACHINE_H
#define SLC_MACHINE_H

#include <stdint.h>

// slc_has_amx tells whether the kernels for AMX are in this build (SLC_WITH_AMX).
int32_t slc_has_amx(void);

// slc_permit_amx asks the operating system for the tile registers (once per process is enough); 0 on success. Without
// the kernels for AMX it fails.
int32_t slc_permit_amx(void);

// slc_is_zen_3_or_4 tells whether this is a processor on which Winograd's inner products (encoder/linear.h) are faster.
int32_t slc_is_zen_3_or_4(void);

#endif
