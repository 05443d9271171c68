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
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"runtime/cgo"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	llama "github.com/go-skynet/go-llama.cpp"
)

// Available reports whether this program can run models.
const Available = true

// stamp holds the digest of the linked libbinding.a. Go does not hash static archives; this file makes it link and test
// again when the archive changes.
//
//go:embed all:stamp
var stamp embed.FS

// NativeDigest returns the digest of the libbinding.a that set-up assembled last before this build; empty when unknown.
func NativeDigest() string {
	b, _ := stamp.ReadFile("stamp/native.digest")
	return strings.TrimSpace(string(b))
}

// groups numbers models, so that each has its own scheduler in the library.
var groups atomic.Uint64

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

// newLoad returns what a model is loaded with, in memory of C.
func (m *Model) newLoad(mem *cMemory) *C.slc_llm_load {
	o := m.opts
	l := &allocate[C.slc_llm_load](mem, 1)[0]
	*l = C.slc_llm_load{
		path:       mem.text(m.info.Path),
		lora:       mem.orNull(o.LoRA),
		group:      C.uint64_t(groups.Add(1)),
		gpu_layers: C.int32_t(o.GPULayers),
		mapped:     C.bool(m.mapped),
		context:    C.int32_t(o.ContextSize),
		cells:      C.int32_t(o.CacheTokens),
		slots:      C.int32_t(o.Slots),
		batch:      C.int32_t(o.BatchSize),
		threads:    C.int32_t(o.Threads),
	}
	if m.user != 0 {
		l.user = C.uintptr_t(m.user)
		l.acquire = C.slc_llm_acquire_fn(C.slcLLMAcquire)
		l.release = C.slc_llm_release_fn(C.slcLLMRelease)
	}
	return l
}

// openHandles makes n handles, which share the weights and a scheduler. When ctx ends, it stops with an error.
func (m *Model) openHandles(ctx context.Context, n int) error {
	var mem cMemory
	defer mem.free()
	l := m.newLoad(&mem)
	release := cancelWith(ctx, (*int32)(&l.cancel))
	defer release()
	C.slc_llm_abort_quietly()
	for range n {
		up, err := llama.New(strconv.FormatUint(uint64(uintptr(unsafe.Pointer(l))), 10))
		if err != nil { // upstream's says nothing
			return errors.New(C.GoString(&l.error[0]))
		}
		m.all = append(m.all, &handle{llama: up, state: l.handle})
	}
	return nil
}

func (h *handle) free() { h.llama.Free() }

// prepare sets what the next run does, and clears an earlier cancellation.
func (h *handle) prepare(c *call) { C.slc_llm_prepare(h.state, c.c) }

// run does what was prepared. push gets the text, and returns false to end it.
func (h *handle) run(c *call, push func(piece string) bool) (Result, error) {
	h.llama.SetTokenCallback(push)
	defer h.llama.SetTokenCallback(nil)
	_ = h.llama.Eval("") // fails without a reason, which is in the outcome
	return c.outcome()
}

// tokenize returns the tokens of a text as a prompt. Any number of goroutines may call it.
func (h *handle) tokenize(text string, marked bool) ([]int32, error) {
	return tokenized(text, func(c *C.char, ids []int32) C.int64_t {
		return C.slc_llm_tokenize(h.state, c, C.int64_t(len(text)), C.bool(marked), (*C.int32_t)(&ids[0]),
			C.int64_t(len(ids)))
	})
}

// tokenized calls a tokenizer, which returns how many tokens a text has, with enough room for them.
func tokenized(text string, tokenize func(text *C.char, ids []int32) C.int64_t) ([]int32, error) {
	c := C.CString(text)
	defer C.free(unsafe.Pointer(c))
	ids := make([]int32, len(text)/2+16)
	for {
		n := tokenize(c, ids)
		switch {
		case n < 0:
			return nil, fmt.Errorf("llm: %w: a text of %d bytes cannot be tokenised", ErrGenerate, len(text))
		case int(n) <= len(ids):
			return ids[:n:n], nil
		}
		ids = make([]int32, n)
	}
}

// logProbs returns the log-probabilities of the last run, which was to keep so many alternatives.
func (h *handle) logProbs(alternatives int) []TokenLogProb {
	n := C.slc_llm_probs(h.state, nil, 0)
	if n == 0 {
		return nil
	}
	probs := make([]C.slc_llm_prob, n)
	C.slc_llm_probs(h.state, &probs[0], n)
	list := make([]TokenLogProb, 0, int(n)/(1+alternatives))
	for group := range slices.Chunk(probs, 1+alternatives) {
		token := h.logProb(group[0])
		for _, p := range group[1:] {
			if p.token >= 0 {
				token.Top = append(token.Top, h.logProb(p))
			}
		}
		list = append(list, token)
	}
	return list
}

func (h *handle) logProb(p C.slc_llm_prob) TokenLogProb {
	text, _ := h.piece(int32(p.token)) // the vocabulary has it
	return TokenLogProb{Token: int32(p.token), Text: text, LogProb: float64(p.logprob)}
}

// piece returns what a token adds to a text; false for a token beyond the vocabulary.
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

func (h *handle) unpin(number int64) { C.slc_llm_unpin(h.state, C.int64_t(number)) }

func (h *handle) cancel() { C.slc_llm_cancel(h.state) }

func (h *handle) stats() Stats {
	var s C.slc_llm_stats
	C.slc_llm_model_stats(h.state, &s)
	finished := make(map[FinishReason]int64)
	for i, reason := range finishReasons {
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
			// n_ctx_seq counts the cells of all slots; no request gets more than the context
		case strings.Contains(text, "removing memory module entries"):
			// logged whenever a cancellation aborts a decode
		case strings.Contains(text, "control-looking token"):
			// every file of Qwen2.5 has one; it is taken for a control token
		case strings.Contains(text, "using full-size SWA cache"):
			// as every model with sliding windows is opened, to keep the prefixes of requests
		case level == 3:
			to = slog.LevelWarn
		case level == 4:
			to = slog.LevelError
		}
		log.Log(nil, to, text, "source", "llama.cpp") //nolint:staticcheck // slog takes a nil context
	}
}

// checkLibrary refuses a libbinding.a that was built from another slc_llm.h than this package.
func checkLibrary() error {
	if linked, want := C.slc_llm_abi(), C.slc_llm_header_abi(); linked != want {
		return fmt.Errorf("llm: %w: libbinding.a has interface %#x, this program %#x; run the llama set-up again",
			ErrUnavailable, uint32(linked), uint32(want))
	}
	return nil
}

// ISA returns the instruction set that llama.cpp runs on in this process: avx2, avxvnni, avx512vnni or amx; on arm64
// neon, dotprod or i8mm. It is the best one that the machine has, that $SLUICE_ISA allows when it is set, and that
// llama.cpp was built for: the set-up builds the machine's, and all of them for tests and archives. llama.cpp chooses
// once for a process. It is empty on a processor without any of them: Open then fails with ErrCPU.
func ISA() string { return C.GoString(C.slc_llm_isa()) }

// Instruction sets of a processor, for chooseISA.
const (
	cpuAVX2       = uint32(C.SLC_LLM_CPU_AVX2)
	cpuAVXVNNI    = uint32(C.SLC_LLM_CPU_AVXVNNI)
	cpuAVX512VNNI = uint32(C.SLC_LLM_CPU_AVX512VNNI)
	cpuAMX        = uint32(C.SLC_LLM_CPU_AMX)
)

// chooseISA returns what ISA would on a processor with the sets cpu, in a build for the sets have, under a limit.
func chooseISA(cpu, have uint32, limit string) string {
	c := C.CString(limit)
	defer C.free(unsafe.Pointer(c))
	return C.GoString(C.slc_llm_choose_isa(C.uint32_t(cpu), C.uint32_t(have), c))
}

// OwnOperations counts the operations of this process that Sluice's own CPU code did instead of ggml's: attention, and
// products of quantised weights on AMX (docs/adr/0011-ggml.md).
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
