//go:build native

package llm

// #cgo LDFLAGS: -L${SRCDIR}/../third_party/llama/lib
// #include <stdlib.h>
// #include "slc_llm.h"
// #include "abort.h"
// static uint32_t slc_llm_header_abi(void) { return SLC_LLM_ABI; }
// int32_t slcLLMAcquire(uintptr_t user);
// void slcLLMRelease(uintptr_t user);
import "C"

import (
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/cgo"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	llama "github.com/go-skynet/go-llama.cpp"
)

// Available reports whether this program can run models.
const Available = true

// The digest of the linked libbinding.a lies here. Go does not hash static archives, so this file is what makes it link
// (and test) anew when the archive changes.
//
//go:embed all:stamp
var stamp embed.FS

// NativeDigest returns the digest of the libbinding.a that set-up assembled last before this build; empty when unknown.
func NativeDigest() string {
	b, _ := stamp.ReadFile("stamp/native.digest")
	return strings.TrimSpace(string(b))
}

// handle is one share of a model: upstream's object, and the state behind it for the slc_llm_* functions. It serves one
// request at a time.
type handle struct {
	llama *llama.LLama
	state unsafe.Pointer
}

// budget is what the scheduler's thread reaches through a cgo.Handle.
type budget struct {
	acquire func() (int, func())
	release func() // set between acquire and release; only the scheduler's thread touches it
}

//export slcLLMAcquire
func slcLLMAcquire(user C.uintptr_t) C.int32_t {
	b := cgo.Handle(user).Value().(*budget)
	threads, release := b.acquire()
	b.release = release
	return C.int32_t(max(1, min(threads, maxThreads)))
}

//export slcLLMRelease
func slcLLMRelease(user C.uintptr_t) {
	b := cgo.Handle(user).Value().(*budget)
	if b.release != nil {
		b.release()
		b.release = nil
	}
}

// loadRequest is what openHandle passes around upstream's New.
type loadRequest struct {
	path    string
	mapped  bool // the file is mapped, not read
	options Options
	group   uint64
	user    cgo.Handle // 0: no budget
	cancel  *C.int32_t // C memory; non-zero stops the load
}

// ExitOnAbort is for programs, not for libraries: from now on an abort in native code (an assertion of llama.cpp,
// memory that a thread cannot get) ends the process with a sentence on standard error and exit code 1, where Go's
// runtime would print the state of all threads and exit with 2. Without it llama.cpp's reason is printed, no debugger
// is started, and the signal takes its course.
func ExitOnAbort() error {
	if C.slc_llm_exit_on_abort() != 0 {
		return errors.New("llm: SIGABRT cannot be handled")
	}
	return nil
}

// openHandle makes a handle, loading the weights unless a handle of the same group or file holds them. The goroutine
// must stay on one OS thread from the options to the handle: they travel in thread-local variables.
func openHandle(r loadRequest) (*handle, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	o := r.options
	opts := C.slc_llm_load_options{
		group:   C.uint64_t(r.group),
		context: C.int32_t(o.ContextSize),
		cells:   C.int32_t(o.CacheTokens),
		slots:   C.int32_t(o.Slots),
		batch:   C.int32_t(o.BatchSize),
		threads: C.int32_t(o.Threads),
		cancel:  r.cancel,
	}
	if r.user != 0 {
		opts.user = C.uintptr_t(r.user)
		opts.acquire = C.slc_llm_acquire_fn(C.slcLLMAcquire)
		opts.release = C.slc_llm_release_fn(C.slcLLMRelease)
	}
	C.slc_llm_abort_quietly()
	C.slc_llm_next_load(&opts)
	l, err := llama.New(r.path, llama.SetContext(o.ContextSize), llama.SetNBatch(o.BatchSize),
		llama.SetGPULayers(o.GPULayers), llama.SetMMap(r.mapped), llama.SetLoraAdapter(o.LoRA))
	var reason [1024]C.char
	state := C.slc_llm_loaded(&reason[0], C.size_t(len(reason)))
	if err != nil || state == nil {
		return nil, errors.New(C.GoString(&reason[0]))
	}
	return &handle{llama: l, state: state}, nil
}

func (h *handle) free() { h.llama.Free() }

// prepare tells the next predict what upstream's options cannot.
func (h *handle) prepare(textLen int, marked bool, shown *C.char, seed uint32, scope *Scope, req Request) {
	r := C.slc_llm_request{
		scope:        C.uint64_t(scope.ID()),
		marked:       C.bool(marked),
		shown:        shown,
		text_len:     C.int64_t(textLen),
		max_tokens:   C.int32_t(req.MaxTokens),
		seed:         C.uint32_t(seed),
		min_p:        C.float(req.MinP),
		no_repeat:    C.int32_t(req.NoRepeatNGram),
		alternatives: -1,
		priority:     C.int32_t(req.Priority),
	}
	if req.LogProbs {
		r.alternatives = C.int32_t(req.Alternatives)
	}
	C.slc_llm_prepare(h.state, &r)
}

// again takes back an earlier cancellation, for what is no predict.
func (h *handle) again() { C.slc_llm_prepare(h.state, &C.slc_llm_request{alternatives: -1}) }

// tokenize returns the tokens of a text as a prompt. Any number of goroutines may call it.
func (h *handle) tokenize(text string, marked bool) ([]int32, error) {
	c := C.CString(text)
	defer C.free(unsafe.Pointer(c))
	ids := make([]int32, len(text)/2+16)
	for {
		n := C.slc_llm_tokenize(h.state, c, C.int64_t(len(text)), C.bool(marked), (*C.int32_t)(&ids[0]),
			C.int64_t(len(ids)))
		switch {
		case n < 0:
			return nil, fmt.Errorf("llm: %w: a text of %d bytes cannot be tokenised", ErrGenerate, len(text))
		case int(n) <= len(ids):
			return ids[:n:n], nil
		}
		ids = make([]int32, n)
	}
}

// logProbs are those of the last predict, which was asked for so many alternatives.
func (h *handle) logProbs(alternatives int) []TokenLogProb {
	n := C.slc_llm_probs(h.state, nil, 0)
	if n == 0 {
		return nil
	}
	probs := make([]C.slc_llm_prob, n)
	C.slc_llm_probs(h.state, &probs[0], n)
	list := make([]TokenLogProb, 0, int(n)/(1+alternatives))
	for ; len(probs) > alternatives; probs = probs[1+alternatives:] {
		token := h.logProb(probs[0])
		for _, p := range probs[1 : 1+alternatives] {
			if p.token >= 0 {
				token.Top = append(token.Top, h.logProb(p))
			}
		}
		list = append(list, token)
	}
	return list
}

func (h *handle) logProb(p C.slc_llm_prob) TokenLogProb {
	text, _ := h.piece(int32(p.token)) // it is one of the vocabulary
	return TokenLogProb{Token: int32(p.token), Text: text, LogProb: float64(p.logprob)}
}

// piece is what a token adds to a text; false for one beyond the vocabulary. It only reads the vocabulary.
func (h *handle) piece(token int32) (string, bool) {
	text := make([]C.char, 256)
	n := C.slc_llm_piece(h.state, C.int32_t(token), &text[0], C.int32_t(len(text)))
	if int(n) > len(text) {
		text = make([]C.char, n)
		n = C.slc_llm_piece(h.state, C.int32_t(token), &text[0], n)
	}
	if n < 0 {
		return "", false
	}
	return C.GoStringN(&text[0], n), true
}

// pin reads a text and keeps it in the cache.
func (h *handle) pin(text string, marked bool, scope *Scope) (number int64, tokens int, err error) {
	c := C.CString(text)
	defer C.free(unsafe.Pointer(c))
	number = int64(C.slc_llm_pin(h.state, c, C.int64_t(len(text)), C.bool(marked), C.uint64_t(scope.ID())))
	if number < 0 {
		_, err = h.last()
		return 0, 0, err
	}
	var r C.slc_llm_result
	C.slc_llm_last(h.state, &r)
	return number, int(r.prompt_tokens), nil
}

func (h *handle) unpin(number int64) { C.slc_llm_unpin(h.state, C.int64_t(number)) }

func (h *handle) cancel() { C.slc_llm_cancel(h.state) }

// last returns the outcome of the handle's last predict.
func (h *handle) last() (Result, error) {
	var r C.slc_llm_result
	C.slc_llm_last(h.state, &r)
	micros := func(us C.int64_t) time.Duration { return time.Duration(us) * time.Microsecond }
	res := Result{
		PromptTokens:     int(r.prompt_tokens),
		CachedTokens:     int(r.cached_tokens),
		CompletionTokens: int(r.completion_tokens),
		QueueTime:        micros(r.queue_us),
		PromptTime:       micros(r.prompt_us),
		DecodeTime:       micros(r.decode_us),
	}
	switch r.finish {
	case C.SLC_LLM_FINISH_STOP:
		res.Finish = FinishStop
	case C.SLC_LLM_FINISH_LENGTH:
		res.Finish = FinishLength
	case C.SLC_LLM_FINISH_CONTEXT:
		res.Finish = FinishContext
	case C.SLC_LLM_FINISH_CANCELLED:
		res.Finish = FinishCancelled
	}
	reason := C.GoString(&r.error[0])
	switch r.code {
	case C.SLC_LLM_OK:
		return res, nil
	case C.SLC_LLM_PROMPT_TOO_LONG:
		return res, &PromptTooLongError{Tokens: res.PromptTokens, Limit: int(r.context) - 1}
	case C.SLC_LLM_BAD_OPTION, C.SLC_LLM_UNSUPPORTED:
		return res, optionError("%s", reason)
	case C.SLC_LLM_CLOSED:
		return res, ErrClosed
	case C.SLC_LLM_GRAMMAR:
		return res, &GrammarLimitError{Steps: int64(r.grammar_steps), Limit: int64(r.grammar_limit)}
	}
	return res, fmt.Errorf("llm: %w: %s", ErrGenerate, reason)
}

func (h *handle) stats() Stats {
	var s C.slc_llm_stats
	C.slc_llm_model_stats(h.state, &s)
	finished := make(map[FinishReason]int64)
	for i, reason := range []FinishReason{"", FinishStop, FinishLength, FinishContext, FinishCancelled} {
		if n := int64(s.finished[i]); n > 0 {
			finished[reason] = n
		}
	}
	return Stats{
		Decodes: int64(s.decodes), Tokens: int64(s.tokens), PromptTokens: int64(s.prompt),
		ReusedTokens: int64(s.reused), CompletionTokens: int64(s.completion), Finished: finished,
		Evicted:      int64(s.evicted),
		DecodeTime:   time.Duration(s.decode_us) * time.Microsecond,
		GrammarSteps: int64(s.grammar_steps), GrammarTokens: int64(s.grammar_tokens),
		Active: int(s.active), Queued: int(s.queued), Cells: int(s.cells), PinnedTokens: int(s.pinned),
	}
}

// drainLog passes llama.cpp's lines on. Its "info" is a page per load: debug to us.
func (h *handle) drainLog(log *slog.Logger) {
	var line [1024]C.char
	for {
		level := C.slc_llm_log(h.state, &line[0], C.size_t(len(line)))
		if level == 0 {
			return
		}
		text := C.GoString(&line[0])
		to := slog.LevelDebug
		switch {
		case strings.Contains(text, "n_ctx_seq") && strings.Contains(text, "> n_ctx_train"):
			// the cells of all slots together, of which no request gets more than the context
		case strings.Contains(text, "removing memory module entries"):
			// said whenever a decode is aborted: that is a cancellation, nothing to warn of
		case level == 3:
			to = slog.LevelWarn
		case level == 4:
			to = slog.LevelError
		}
		log.Log(nil, to, text, "source", "llama.cpp") //nolint:staticcheck // slog takes a nil context
	}
}

func escapeNUL(s string) string   { return strings.ReplaceAll(s, "\x00", "\xC0\x80") }
func unescapeNUL(s string) string { return strings.ReplaceAll(s, "\xC0\x80", "\x00") }

// checkLibrary refuses a libbinding.a that was built from another slc_llm.h than this package.
func checkLibrary() error {
	if linked, want := C.slc_llm_abi(), C.slc_llm_header_abi(); linked != want {
		return fmt.Errorf("llm: %w: libbinding.a has interface %#x, this program %#x; run the llama set-up again",
			ErrUnavailable, uint32(linked), uint32(want))
	}
	return nil
}

// ISA is the instruction set that llama.cpp runs on in this process: avx2, avx512vnni or amx. It is the best one of the
// machine that $SLUICE_ISA, when it is set, allows, of those that llama.cpp was built for: the set-up takes what the
// machine has, and all of them for tests and archives. llama.cpp chooses once for a process. It is empty on a
// processor that runs none of them: Open then fails with ErrCPU.
func ISA() string { return C.GoString(C.slc_llm_isa()) }

// Instruction sets of a processor, for chooseISA.
const (
	cpuAVX2       = uint32(C.SLC_LLM_CPU_AVX2)
	cpuAVX512VNNI = uint32(C.SLC_LLM_CPU_AVX512VNNI)
	cpuAMX        = uint32(C.SLC_LLM_CPU_AMX)
)

// chooseISA is ISA on such a processor, in a build for some sets, under a limit.
func chooseISA(cpu, have uint32, limit string) string {
	c := C.CString(limit)
	defer C.free(unsafe.Pointer(c))
	return C.GoString(C.slc_llm_choose_isa(C.uint32_t(cpu), C.uint32_t(have), c))
}

// OwnOperations counts the operations of this process that Sluice's own CPU code has done instead of ggml's: attention,
// and products of quantised weights on AMX (docs/adr/0009, 0010).
func OwnOperations() (attention, products int64) {
	var a, p C.int64_t
	C.slc_llm_ran(&a, &p)
	return int64(a), int64(p)
}

// loadGPU opens a back-end, once in a process.
func loadGPU(path string) error {
	var reason [1024]C.char
	p := C.CString(path)
	defer C.free(unsafe.Pointer(p))
	if !C.slc_llm_load_gpu(p, &reason[0], C.size_t(len(reason))) {
		return fmt.Errorf("%w: %s", ErrGPU, C.GoString(&reason[0]))
	}
	if !C.slc_llm_gpu() {
		return fmt.Errorf("%w: %s has no GPU that llama.cpp offloads to", ErrGPU, path)
	}
	return nil
}

// cancelFlag is an int32 that C reads while Go may set it.
type cancelFlag struct{ p *C.int32_t }

func newCancelFlag() cancelFlag {
	p := (*C.int32_t)(C.malloc(C.size_t(unsafe.Sizeof(C.int32_t(0)))))
	*p = 0
	return cancelFlag{p}
}

func (c cancelFlag) set()  { atomic.StoreInt32((*int32)(c.p), 1) }
func (c cancelFlag) free() { C.free(unsafe.Pointer(c.p)) }
