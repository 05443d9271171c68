// abort.h: what happens when a native library calls abort().
#ifndef SLC_LLM_ABORT_H
#define SLC_LLM_ABORT_H

// slc_llm_abort_quietly has ggml print one line before it aborts, where it would start a debugger for a backtrace.
void slc_llm_abort_quietly(void);

// slc_llm_exit_on_abort ends the process with a sentence and exit code 1 at abort(). It returns -1 when the signal
// cannot be handled.
int slc_llm_exit_on_abort(void);

#endif
