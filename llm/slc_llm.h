// slc_llm.h: what passes between Go and libbinding.a (llm/binding).
//
// Upstream's package (github.com/go-skynet/go-llama.cpp) carries the calls: its New loads an slc_llm_load, its Eval
// runs an slc_llm_request, and its token callback has the text. Everything that a load or a request says, and its
// outcome, is in these structures. The other functions here take the handle that a load made: upstream's own state
// pointer, one per *LLama, one request at a time.
//
// The header lives beside the Go files because Go's build cache only sees edits of headers in the package's own folder.
#ifndef SLC_LLM_H
#define SLC_LLM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum slc_llm_code {
    SLC_LLM_OK = 0,
    SLC_LLM_PROMPT_TOO_LONG, // prompt_tokens and context say by how much
    SLC_LLM_BAD_OPTION,
    SLC_LLM_DECODE,          // llama.cpp failed, or produced no usable logits
    SLC_LLM_CLOSED,
    SLC_LLM_GRAMMAR,         // it takes too much work: grammar_steps and grammar_limit say how much
};

enum slc_llm_finish {
    SLC_LLM_FINISH_NONE = 0,
    SLC_LLM_FINISH_STOP,      // end-of-generation token, or a stop string
    SLC_LLM_FINISH_LENGTH,    // max_tokens
    SLC_LLM_FINISH_CONTEXT,   // the context is full
    SLC_LLM_FINISH_CANCELLED, // slc_llm_cancel, or the token callback refused
};

// Asked before each decode on the scheduler's thread; returns the number of threads granted (at least 1). What it
// granted is given back with the release function right after the decode.
typedef int32_t (*slc_llm_acquire_fn)(uintptr_t user);
typedef void (*slc_llm_release_fn)(uintptr_t user);

// A model to load. Upstream's New takes texts and small numbers only: the path that it is given is the address of this
// structure, written as strtoull reads it.
typedef struct slc_llm_load {
    const char * path;
    const char * lora;        // a LoRA adapter that every request goes through; NULL: none
    uint64_t group;           // handles share a scheduler within one group only (and weights across groups)
    int32_t gpu_layers;
    bool mapped;              // the file is mapped, not read
    int32_t context;          // most tokens of one request, prompt and completion together
    int32_t cells;            // tokens of KV cache that all slots share; at least context
    int32_t slots;            // requests decoded together
    int32_t batch;            // most tokens of one decode: the prefill chunk, hence the delay of a cancellation
    int32_t threads;          // most threads of one decode
    int32_t cancel;           // loading stops once it is non-zero, which any thread may set (atomically)
    slc_llm_acquire_fn acquire; // may be NULL: every decode uses `threads`
    slc_llm_release_fn release;
    uintptr_t user;
    void * handle;            // the outcome; NULL: error says why
    char error[1024];
} slc_llm_load;

typedef struct slc_llm_result {
    int32_t code;   // enum slc_llm_code
    int32_t finish; // enum slc_llm_finish
    int32_t prompt_tokens;
    int32_t cached_tokens;
    int32_t completion_tokens;
    int32_t context;
    int64_t queue_us;  // waiting for a slot
    int64_t prompt_us; // slot to first token
    int64_t decode_us; // first token to end
    int64_t grammar_steps, grammar_limit; // of one token
    int64_t pin;       // number of the pin that was made
    char error[512];
} slc_llm_result;

// What to make of a text, and the outcome. The structure and its texts have to live until upstream's Eval returns.
typedef struct slc_llm_request {
    const char * text;
    int64_t text_len;     // bytes of the text, which may hold NULs
    const char * grammar; // GBNF with a rule "root" that the completion must follow; NULL: none
    const char * const * stops; // generation ends before the first of these
    const char * shown;   // control tokens that are written here are text of the completion; NULL: none
    uint64_t scope;       // the text may begin with KV of requests and pins of the same scope
    bool marked;          // the text has marks (slc_llm_special)
    bool pin;             // only read the text, and keep its KV cells until slc_llm_unpin
    int32_t n_stops;
    int32_t max_tokens;   // 0: as many as the context holds
    int32_t priority;     // of the requests that wait for KV cells, the one with the highest starts first
    uint32_t seed;
    float temperature;    // 0: greedy
    int32_t top_k;        // 0: off, as in all that follow
    float top_p, min_p;
    float repeat_penalty, frequency_penalty, presence_penalty; // over the last 64 tokens
    int32_t no_repeat;    // no sequence of this many tokens comes twice in the completion
    int32_t alternatives; // log-probabilities of each token and of this many best ones; -1: of none
    slc_llm_result result;
} slc_llm_request;

// slc_llm_prepare sets what the next Eval of the handle runs, and clears an earlier cancellation.
void slc_llm_prepare(void * handle, slc_llm_request * request);
// slc_llm_cancel ends the handle's request at the next batch boundary, or within the batch when nobody else shares it.
// Any thread may call it while the handle lives.
void slc_llm_cancel(void * handle);

typedef struct slc_llm_prob {
    int32_t token;
    float logprob; // natural logarithm, at temperature 1 and before penalties, grammar and truncation
} slc_llm_prob;
// slc_llm_probs copies what the last request's alternatives asked for, at most `room` entries: per token of the
// completion the token itself, then the best ones in order. Returns how many there are.
int64_t slc_llm_probs(void * handle, slc_llm_prob * out, int64_t room);
// slc_llm_piece copies the bytes that a token adds to a text, at most `room`, and returns how many there are, -1 for a
// token beyond the vocabulary.
int32_t slc_llm_piece(void * handle, int32_t token, char * out, int32_t room);

// slc_llm_tokenize copies the tokens of a text as a prompt, at most `room`, and returns how many there are, -1 when it
// cannot be tokenised. Any number of threads may call it at the same time, whatever else the handle does.
int64_t slc_llm_tokenize(void * handle, const char * text, int64_t length, bool marked, int32_t * out, int64_t room);

void slc_llm_unpin(void * handle, int64_t pin);

// slc_llm_special returns the next token, from this one on, that the tokenizer finds written out in a text, with its
// text, which lives as long as the handle; -1 at the end. A text that must not become the token gets the mark U+FDD0
// within it; the tokenizer removes the marks of a text that is `marked`.
int32_t slc_llm_special(void * handle, int32_t from, const char ** text, bool * user_defined, bool * end_of_turn);
#define SLC_LLM_MARK "\xEF\xB7\x90"

typedef struct slc_llm_turn {
    const char * role, * content;
    const char * calls;        // JSON array of OpenAI's tool calls, their arguments objects; NULL: none
    const char * calls_text;   // the same with arguments as JSON text, which some templates want
    const char * call_id, * name; // of a tool's turn; NULL: none
} slc_llm_turn;

typedef struct slc_llm_chat_request {
    const char * tmpl;
    const slc_llm_turn * turns;
    size_t n;
    const char * tools; // JSON array of OpenAI's tools; NULL: none
    const char * variables; // JSON object of more variables for the template, or null; NULL: none
    bool open;          // the assistant's turn
    bool parse_only;
} slc_llm_chat_request;

// slc_llm_chat renders messages with a chat template: Jinja source or, without any '{', the name of one of llama.cpp's
// built-in templates. The handle's vocabulary gives bos_token and eos_token, which are left out of the text where the
// tokenizer adds them itself; a null handle has neither. Returns the length and a malloc'ed, NUL-terminated *out, or -1
// with the reason in error.
int64_t slc_llm_chat(void * handle, const slc_llm_chat_request * request, char ** out, char * error,
                     size_t error_size);

// slc_llm_log takes the oldest line that llama.cpp logged for the handle's model. Returns its level (1 debug, 2 info,
// 3 warning, 4 error), or 0 when there is none.
int32_t slc_llm_log(void * handle, char * line, size_t line_size);

typedef struct slc_llm_stats {
    int64_t decodes;       // calls of llama_decode
    int64_t tokens;        // tokens decoded
    int64_t reused;        // prompt tokens taken from the KV cache
    int64_t prompt;        // prompt tokens of requests that started
    int64_t completion;    // tokens generated
    int64_t finished[5];   // requests by enum slc_llm_finish; NONE: failed
    int64_t evicted;       // idle histories forgotten to make room
    int64_t decode_us;     // in llama_decode
    int64_t grammar_steps; // of grammars, on the thread that decodes
    int64_t grammar_tokens; // given to the thread of grammars, because they take more steps
    int32_t active;        // slots in use
    int32_t queued;        // requests waiting
    int32_t cells;         // KV cells in use; what slots share counts once per slot
    int32_t pinned;        // KV cells that pins hold
} slc_llm_stats;
void slc_llm_model_stats(void * handle, slc_llm_stats * stats);

// An encoder gives a vector for each text: a load as above, of which group, cells and lora are not used, and batch is
// the most tokens and slots the most texts of one decode. pooling is llama.cpp's enum llama_pooling_type (mean 1,
// cls 2, last 3), or -1 for what the file says. Returns NULL, with the reason in error, where it cannot be loaded.
void * slc_llm_encoder_open(slc_llm_load * load, int32_t pooling, int32_t * dim);
void slc_llm_encoder_free(void * encoder);
// slc_llm_encoder_tokenize copies the tokens of a text with the ones that the model puts around it, at most `room`, and
// returns how many there are, at least one; -1 when it cannot be tokenised. Control tokens that the text spells are
// ordinary text. Any number of threads may call it at the same time.
int64_t slc_llm_encoder_tokenize(void * encoder, const char * text, int64_t length, int32_t * out, int64_t room);
// slc_llm_encode writes n vectors of dim floats for texts whose tokens lie one after the other. One thread at a time.
// It stops once cancel is non-zero. Returns an enum slc_llm_code, with the reason in error.
int32_t slc_llm_encode(void * encoder, const int32_t * tokens, const int32_t * lengths, int32_t n, int32_t threads,
                       const int32_t * cancel, float * out, char * error, size_t error_size);

// slc_llm_abi identifies the layout of the structures above, so that a library built from another header is refused
// instead of read wrongly.
#define SLC_LLM_ABI \
    ((uint32_t) (10u << 28 ^ sizeof(slc_llm_stats) << 20 ^ sizeof(slc_llm_request) << 10 ^ sizeof(slc_llm_load)))
uint32_t slc_llm_abi(void);

// slc_llm_isa returns the instruction set of ggml's CPU code in this process: "avx2", "avxvnni", "avx512vnni" or
// "amx", on arm64 "neon", "dotprod" or "i8mm", the best one that the machine has, SLUICE_ISA allows and this library
// was built for; "" on a machine without any of them.
const char * slc_llm_isa(void);

// slc_llm_choose_isa returns what slc_llm_isa would on a processor with the sets cpu, in a library built for the sets
// have, with a limit, which may be NULL.
enum slc_llm_cpu {
    SLC_LLM_CPU_AVX2 = 1, // with FMA, F16C and BMI2
    SLC_LLM_CPU_AVX512VNNI = 2,
    SLC_LLM_CPU_AMX = 4,
    SLC_LLM_CPU_AVXVNNI = 8,
    // on arm64
    SLC_LLM_CPU_NEON = 1,
    SLC_LLM_CPU_DOTPROD = 2,
    SLC_LLM_CPU_I8MM = 4,
};
const char * slc_llm_choose_isa(uint32_t cpu, uint32_t have, const char * limit);

// slc_llm_ran counts the operations that llm/ggml did instead of ggml since the process began.
void slc_llm_ran(int64_t * attention, int64_t * products);

// slc_llm_time_waited returns how long threads have waited for each other, those of all models, in microseconds,
// without short waits (llm/ggml/barrier.h).
int64_t slc_llm_time_waited(void);

// slc_llm_load_gpu opens a library with ggml's back-end for GPUs, once and for the life of the process. It returns
// false, with the reason in error, where the file is missing, is not a back-end, or finds no GPU.
bool slc_llm_load_gpu(const char * path, char * error, size_t error_size);

// slc_llm_gpu reports whether llama.cpp can offload layers: a back-end is there that has a GPU.
bool slc_llm_gpu(void);

#ifdef __cplusplus
}
#endif
#endif
