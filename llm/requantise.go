//go:build native

package llm

// #cgo CFLAGS: -I${SRCDIR}/../third_party/llama/include
// #include <stdlib.h>
// #include "llama.h"
//
// static void quiet(enum ggml_log_level level, const char * text, void * data) {
//     (void) level; (void) text; (void) data;
// }
//
// // Until a model is opened, llama.cpp would log a line for each tensor to standard error.
// static uint32_t quantise(const char * from, const char * to, const llama_model_quantize_params * o) {
//     ggml_log_callback log; void * data;
//     llama_log_get(&log, &data);
//     llama_log_set(quiet, NULL);
//     uint32_t code = llama_model_quantize(from, to, o);
//     ggml_log_callback now; void * ignored;
//     llama_log_get(&now, &ignored);
//     if (now == quiet) { // else a model that was opened meanwhile has set its own
//         llama_log_set(log, data);
//     }
//     return code;
// }
import "C"

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/llm/gguf"
)

// Requantise writes the model of a GGUF file in another type of weights (Q4_0, Q4_1, Q8_0), by llama.cpp's own
// quantiser. Weights that are quantised already lose again what they round away. The file appears whole or not at all.
func Requantise(from, to, kind string) error {
	kinds := map[string]C.enum_llama_ftype{"Q4_0": C.LLAMA_FTYPE_MOSTLY_Q4_0, "Q4_1": C.LLAMA_FTYPE_MOSTLY_Q4_1,
		"Q8_0": C.LLAMA_FTYPE_MOSTLY_Q8_0}
	ftype, known := kinds[kind]
	if !known {
		return optionError("weights of type %q: known are Q4_0, Q4_1, Q8_0", kind)
	}
	if _, err := gguf.Inspect(from, ISA()); err != nil {
		return err
	}
	o := C.llama_model_quantize_default_params()
	o.ftype, o.allow_requantize, o.nthread = ftype, true, C.int32_t(cores.Available())
	part := to + ".part"
	in, out := C.CString(from), C.CString(part)
	defer C.free(unsafe.Pointer(in))
	defer C.free(unsafe.Pointer(out))
	if code := C.quantise(in, out, &o); code != 0 {
		return errors.Join(fmt.Errorf("llm: %w: llama.cpp cannot write %s as %s", ErrModel, from, kind),
			os.Remove(part))
	}
	if err := os.Rename(part, to); err != nil {
		return fmt.Errorf("llm: %w", err)
	}
	return nil
}
