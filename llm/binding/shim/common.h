// Makes upstream's binding.cpp inert. `go build` compiles every .cpp of the module, so that file has to compile; its
// API is the llama.cpp of 2023, which is gone. This header declares just enough of that API, as empty shells, and
// renames what binding.cpp defines (here and in llama.h), so that load_model, llama_predict and the others come from
// our libbinding.a. Nothing of it is ever called.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

// binding.cpp is not ours to mend.
#pragma GCC diagnostic ignored "-Wformat"
#pragma GCC diagnostic ignored "-Wformat-extra-args"

// Types of the old API, under names that cannot meet the current one's.
#define llama_context inert_context
#define llama_model inert_model
#define llama_grammar inert_grammar
#define llama_grammar_element inert_grammar_element
#define llama_context_params inert_context_params
#define llama_token_data inert_token_data
#define llama_token_data_array inert_token_data_array
#define llama_binding_state inert_binding_state
#define gpt_params inert_gpt_params

#define LLAMA_DEFAULT_SEED 0xFFFFFFFF
#define LLAMA_MAX_DEVICES 16
#define GGML_ASSERT(x) ((void) (x))
#define LOG(...) ((void) 0)
#define LOG_TEE(...) ((void) 0)

typedef int llama_token;
enum { LLAMA_VOCAB_TYPE_SPM };

struct llama_context {};
struct llama_model {};
struct llama_grammar {};
struct llama_grammar_element {};
struct llama_context_params {};

struct llama_token_data {
    llama_token id;
    float logit, p;
};

struct llama_token_data_array {
    llama_token_data * data;
    size_t size;
    bool sorted;
};

struct llama_binding_state {
    llama_context * ctx;
    llama_model * model;
};

struct gpt_params {
    uint32_t seed;
    int n_threads, n_predict, n_ctx, n_batch, n_keep, n_draft, n_gpu_layers, main_gpu, repeat_last_n, top_k, mirostat;
    float tensor_split[LLAMA_MAX_DEVICES];
    float top_p, temp, tfs_z, typical_p, repeat_penalty, frequency_penalty, presence_penalty, mirostat_tau,
        mirostat_eta;
    float cfg_scale, rope_freq_base, rope_freq_scale;
    std::string prompt, path_prompt_cache, grammar, cfg_negative_prompt;
    std::vector<std::string> antiprompt;
    std::unordered_map<llama_token, float> logit_bias;
    bool memory_f16, use_mmap, use_mlock, prompt_cache_all, prompt_cache_ro, ignore_eos, penalize_nl, interactive;
};

// llama_tokenize was overloaded: once to a vector, once to a count.
struct inert_tokens : std::vector<llama_token> {
    operator int() const { return 0; }
};

#define INERT(type, name)                     \
    template <class... Args>                  \
    static inline type name(Args &&...) {     \
        return type();                        \
    }
#define INERT_VOID(name)                      \
    template <class... Args>                  \
    static inline void name(Args &&...) {}

typedef float * inert_floats;
typedef llama_grammar * inert_grammar_ptr;
typedef llama_context * inert_context_ptr;
typedef void * inert_ptr;

INERT(std::string, llama_token_to_piece)
INERT(inert_tokens, llama_tokenize)
INERT(int, llama_eval)
INERT(int, llama_n_vocab)
INERT(int, llama_n_ctx)
INERT(int, llama_n_embd)
INERT(int, llama_vocab_type)
INERT(llama_token, llama_token_eos)
INERT(llama_token, llama_token_bos)
INERT(llama_token, llama_token_nl)
INERT(llama_token, llama_sample_token)
INERT(llama_token, llama_sample_token_binding)
INERT(llama_token, llama_sample_token_greedy)
INERT(llama_token, llama_sample_token_mirostat)
INERT(llama_token, llama_sample_token_mirostat_v2)
INERT(size_t, llama_get_state_size)
INERT(size_t, llama_set_state_data)
INERT(size_t, llama_copy_state_data)
INERT(bool, llama_save_session_file)
INERT(bool, llama_load_session_file)
INERT(int64_t, ggml_time_us)
INERT(inert_floats, llama_get_logits)
INERT(inert_floats, llama_get_embeddings)
INERT(inert_grammar_ptr, llama_grammar_init)
INERT(inert_grammar_ptr, llama_grammar_copy)
INERT(inert_context_ptr, llama_new_context_with_model)
INERT(llama_context_params, llama_context_params_from_gpt_params)
INERT(inert_ptr, load_binding_model)
INERT_VOID(llama_sample_temperature)
INERT_VOID(llama_sample_top_k)
INERT_VOID(llama_sample_top_p)
INERT_VOID(llama_sample_typical)
INERT_VOID(llama_sample_tail_free)
INERT_VOID(llama_sample_grammar)
INERT_VOID(llama_sample_softmax)
INERT_VOID(llama_sample_repetition_penalty)
INERT_VOID(llama_sample_frequency_and_presence_penalties)
INERT_VOID(llama_sample_classifier_free_guidance)
INERT_VOID(llama_print_timings)
INERT_VOID(llama_reset_timings)
INERT_VOID(llama_set_rng_seed)
INERT_VOID(llama_free)
INERT_VOID(llama_backend_free)
INERT_VOID(llama_grammar_free)
INERT_VOID(llama_grammar_accept_token)
