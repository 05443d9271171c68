//go:build native

package llm

// #include <stdlib.h>
// #include "slc_llm.h"
import "C"

import (
	"fmt"
	"strings"
	"time"
	"unsafe"
)

// cMemory is memory of C that is freed together.
type cMemory []unsafe.Pointer

// allocate returns n zeroed values in memory of C.
func allocate[T any](m *cMemory, n int) []T {
	var t T
	p := C.calloc(C.size_t(max(n, 1)), C.size_t(unsafe.Sizeof(t)))
	*m = append(*m, p)
	return unsafe.Slice((*T)(p), n)
}

func (m *cMemory) text(s string) *C.char {
	p := C.CString(s)
	*m = append(*m, unsafe.Pointer(p))
	return p
}

// orNull is text, with NULL for an empty string.
func (m *cMemory) orNull(s string) *C.char {
	if s == "" {
		return nil
	}
	return m.text(s)
}

func (m *cMemory) free() {
	for _, p := range *m {
		C.free(p)
	}
}

// call is a request as llama.cpp's threads read it, and its outcome, in memory of C. Free it when run has returned.
type call struct {
	cMemory
	c *C.slc_llm_request
}

func newCall(text string, marked bool, scope *Scope) *call {
	k := &call{}
	k.c = &allocate[C.slc_llm_request](&k.cMemory, 1)[0]
	k.c.text, k.c.text_len, k.c.marked = k.text(text), C.int64_t(len(text)), C.bool(marked)
	k.c.scope = C.uint64_t(scope.ID())
	k.c.alternatives = -1
	return k
}

func generateCall(p prompt, req Request, seed int64, scope *Scope) *call {
	k := newCall(p.text, p.marked, scope)
	c := k.c
	c.grammar = k.orNull(p.grammar)
	c.shown = k.orNull(p.calls.written() + p.shown)
	stops := allocate[*C.char](&k.cMemory, len(req.Stop))
	for i, s := range req.Stop {
		stops[i] = k.text(s)
	}
	c.stops, c.n_stops = unsafe.SliceData(stops), C.int32_t(len(stops))
	c.max_tokens = C.int32_t(req.MaxTokens)
	c.priority = C.int32_t(req.Priority)
	c.seed = C.uint32_t(seed)
	c.temperature = C.float(req.Temperature)
	c.top_k, c.top_p, c.min_p = C.int32_t(req.TopK), C.float(req.TopP), C.float(req.MinP)
	c.repeat_penalty = C.float(req.RepeatPenalty)
	c.frequency_penalty, c.presence_penalty = C.float(req.FrequencyPenalty), C.float(req.PresencePenalty)
	c.no_repeat = C.int32_t(req.NoRepeatNGram)
	if req.LogProbs {
		c.alternatives = C.int32_t(req.Alternatives)
	}
	return k
}

func (k *call) outcome() (Result, error) {
	r := &k.c.result
	micros := func(us C.int64_t) time.Duration { return time.Duration(us) * time.Microsecond }
	res := Result{
		PromptTokens:     int(r.prompt_tokens),
		CachedTokens:     int(r.cached_tokens),
		CompletionTokens: int(r.completion_tokens),
		Finish:           finishReasons[r.finish],
		QueueTime:        micros(r.queue_us),
		PromptTime:       micros(r.prompt_us),
		DecodeTime:       micros(r.decode_us),
	}
	reason := C.GoString(&r.error[0])
	switch r.code {
	case C.SLC_LLM_OK:
		return res, nil
	case C.SLC_LLM_PROMPT_TOO_LONG:
		return res, &PromptTooLongError{Tokens: res.PromptTokens, Limit: int(r.context) - 1}
	case C.SLC_LLM_BAD_OPTION:
		return res, optionError("%s", reason)
	case C.SLC_LLM_CLOSED:
		return res, ErrClosed
	case C.SLC_LLM_GRAMMAR:
		return res, &GrammarLimitError{Steps: int64(r.grammar_steps), Limit: int64(r.grammar_limit)}
	}
	return res, fmt.Errorf("llm: %w: %s", ErrGenerate, reason)
}

// finishReasons is by enum slc_llm_finish; the first stands for failed requests.
var finishReasons = [...]FinishReason{"", FinishStop, FinishLength, FinishContext, FinishCancelled}

// A NUL would end a C string: the library and this package write it as an overlong pair of bytes.
func escapeNUL(s string) string   { return strings.ReplaceAll(s, "\x00", "\xC0\x80") }
func unescapeNUL(s string) string { return strings.ReplaceAll(s, "\xC0\x80", "\x00") }
