// How the functions that check arguments report what is wrong.
#ifndef SLC_FAIL_H
#define SLC_FAIL_H

#include <stdio.h>

// FAIL returns the code, and writes the text, as printf formats it, to the parameter `error` unless that is NULL.
#define FAIL(code, ...) \
	do { \
		if (error) snprintf(error->text, sizeof error->text, __VA_ARGS__); \
		return code; \
	} while (0)

#endif
