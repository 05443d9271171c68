//go:build linux

package main

// #include <stdio.h>
// #include <string.h>
// #include <sys/resource.h>
// #include <unistd.h>
//
// // Go's runtime reserves ranges of addresses before main begins, and ends with a trace where it cannot.
// #define LEAST_ADDRESSES (1920UL << 20)
//
// // With fewer than 8 file handles Go's runtime ends with a trace; with up to 16 it depends on the machine and on the
// // moment which of database, segments, model and tokenizer cannot be opened. The rest is for threads that read.
// #define LEAST_FILES 32UL
//
// static void end_with(const char *format, unsigned long limit, unsigned long needed) {
//     char text[240];
//     snprintf(text, sizeof(text), format, limit, needed);
//     ssize_t written = write(STDERR_FILENO, text, strlen(text));
//     (void) written;
//     _exit(1);
// }
//
// __attribute__((constructor)) static void check_limits(void) {
//     struct rlimit limit;
//     if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < LEAST_ADDRESSES) {
//         end_with("sluice: the address space is limited to %lu MiB (ulimit -v); %lu are needed\n",
//             (unsigned long) (limit.rlim_cur >> 20), LEAST_ADDRESSES >> 20);
//     }
//     // Go's runtime raises the soft limit to the hard one.
//     if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max != RLIM_INFINITY && limit.rlim_max < LEAST_FILES) {
//         end_with("sluice: too few file handles: only %lu may be open at once (ulimit -n); %lu are needed\n"
//             "\xe2\x86\x92 'ulimit -n 1024' raises the limit\n", (unsigned long) limit.rlim_max, LEAST_FILES);
//     }
// }
import "C"
