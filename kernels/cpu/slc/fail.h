// Error reporting of the functions that check arguments.
#ifndef SLC_FAIL_H
#define SLC_FAIL_H

#include <stdio.h>

// FAIL returns the code, and writes the printf-formatted text to the parameter `error` unless that is NULL.
#define FAIL(code, ...) \
	do { \
		if (error) snprintf(error->text, sizeof error->text, __VA_ARGS__); \
		return code; \
	} while (0)

#endif
