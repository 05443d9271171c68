//go:build linux

package main

// #include <stdio.h>
// #include <string.h>
// #include <sys/resource.h>
// #include <unistd.h>
//
// // Go's runtime reserves ranges of addresses before main begins, and ends with a trace where it cannot.
// #define LEAST (1920UL << 20)
//
// __attribute__((constructor)) static void look_at_the_address_space(void) {
//     struct rlimit limit;
//     if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= LEAST) {
//         return;
//     }
//     char text[160];
//     snprintf(text, sizeof(text), "sluice: the address space is limited to %lu MiB (ulimit -v); %lu are needed\n",
//         (unsigned long) (limit.rlim_cur >> 20), LEAST >> 20);
//     ssize_t written = write(STDERR_FILENO, text, strlen(text));
//     (void) written;
//     _exit(1);
// }
import "C"
