//go:build amd64

#include <cpuid.h>

#include "slc.h"

// AMD's family 25, Zen 3 and 4, has two adders beside two units for multiply-adds. Family 26 (Zen 5) has as well, but
// fewer loads an operation; it was not measured.
int32_t slc_adds_beside(void) {
	unsigned a, b, c, d;
	if (!__get_cpuid(0, &a, &b, &c, &d) || b != signature_AMD_ebx || d != signature_AMD_edx || c != signature_AMD_ecx)
		return 0;
	__get_cpuid(1, &a, &b, &c, &d);
	return (a >> 8 & 15) + (a >> 20 & 255) == 25;
}
