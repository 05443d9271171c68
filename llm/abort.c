//go:build native

// What happens when ggml or another native library calls abort().

#include "abort.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

// ggml.h's; the header is not in this package's reach.
typedef void (*ggml_abort_callback_t)(const char * message);
ggml_abort_callback_t ggml_set_abort_callback(ggml_abort_callback_t callback);

static char reason[1024]; // of an abort that is under way; the process ends after it

static void put(const char * text) {
    size_t n = strlen(text);
    while (n > 0) {
        ssize_t k = write(STDERR_FILENO, text, n);
        if (k <= 0) {
            return;
        }
        text += k;
        n -= (size_t) k;
    }
}

static void keep_reason(const char * message) {
    const char * name = strrchr(message, '/'); // the path is of the machine that built the library
    strncpy(reason, name ? name + 1 : message, sizeof(reason) - 1);
}

// An abort callback of any kind keeps ggml from starting a debugger for its backtrace.
static void print_reason(const char * message) {
    keep_reason(message);
    put(reason);
    put("\n");
}

static void on_abort(int signal) {
    (void) signal;
    put("sluice: a native library gave up");
    if (reason[0]) {
        put(": llama.cpp: ");
        put(reason);
        put(" (the model file may be damaged, or memory too short)\n");
    } else {
        put(" (memory may be too short: see 'ulimit -v' and 'sluice doctor')\n");
    }
    _exit(1);
}

static bool exits; // set once, before the first model is opened

void slc_llm_abort_quietly(void) {
    if (!exits) {
        ggml_set_abort_callback(print_reason);
    }
}

int slc_llm_exit_on_abort(void) {
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = on_abort;
    action.sa_flags = SA_ONSTACK; // as Go's runtime wants it
    sigfillset(&action.sa_mask);
    if (sigaction(SIGABRT, &action, 0) != 0) {
        return -1;
    }
    exits = true;
    ggml_set_abort_callback(keep_reason);
    return 0;
}
