// The slc_llm_* functions: see llm/slc_llm.h.
#include "handle.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>

namespace {

// Between Go's two calls of a load (options, load_model) and after it (handle, error) the goroutine keeps its OS
// thread.
thread_local slc_llm_load_options next_load;
thread_local bool has_next_load = false;
thread_local void * loaded = nullptr;
// An array, not a string: what a thread that is ending owns looks like a leak to the sanitizer.
thread_local char load_error[sizeof(slc_llm_result::error)];

slc::Handle & of(void * handle) {
    return *static_cast<slc::Handle *>(handle);
}

} // namespace

namespace slc {

slc_llm_load_options take_load_options(int n_ctx, int n_batch) {
    slc_llm_load_options o{};
    if (has_next_load) {
        o = next_load;
        has_next_load = false;
        return o;
    }
    o.context = o.cells = std::max(n_ctx, 8);
    o.batch = std::max(1, std::min(n_batch > 0 ? n_batch : 512, o.cells));
    o.slots = std::min(4, o.batch);
    o.threads = (int) std::max(1u, std::thread::hardware_concurrency());
    return o;
}

void set_loaded(void * handle, const std::string & error) {
    loaded = handle;
    copy_text(error.c_str(), load_error, sizeof load_error);
}

} // namespace slc

extern "C" {

void slc_llm_next_load(const slc_llm_load_options * options) {
    next_load = *options;
    has_next_load = true;
    loaded = nullptr;
    slc::copy_text("load_model was not called", load_error, sizeof load_error);
}

void * slc_llm_loaded(char * error, size_t error_size) {
    slc::copy_text(load_error, error, error_size);
    return loaded;
}

void slc_llm_prepare(void * handle, const slc_llm_request * request) {
    slc::Handle & h = of(handle);
    h.extras = *request;
    h.prepared = true;
    h.cancelled = false;
}

void slc_llm_cancel(void * handle) {
    of(handle).cancelled = true;
    of(handle).engine->look_again();
}

void slc_llm_last(void * handle, slc_llm_result * result) {
    *result = of(handle).last;
}

int64_t slc_llm_probs(void * handle, slc_llm_prob * out, int64_t room) {
    const auto & probs = of(handle).probs;
    std::copy_n(probs.begin(), std::max<int64_t>(0, std::min(room, (int64_t) probs.size())), out);
    return (int64_t) probs.size();
}

int32_t slc_llm_piece(void * handle, int32_t token, char * out, int32_t room) {
    const llama_vocab * vocab = of(handle).engine->vocab();
    if (token < 0 || token >= llama_vocab_n_tokens(vocab)) {
        return -1;
    }
    const int32_t n = llama_token_to_piece(vocab, token, out, room, 0, true);
    return n < 0 ? -n : n;
}

int32_t slc_llm_special(void * handle, int32_t from, const char ** text, bool * user_defined, bool * end_of_turn) {
    const llama_vocab * vocab = of(handle).engine->vocab();
    for (int32_t token = std::max(0, from); token < llama_vocab_n_tokens(vocab); token++) {
        const int attr = llama_vocab_get_attr(vocab, token);
        if (attr & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN | LLAMA_TOKEN_ATTR_USER_DEFINED)) {
            *text = llama_vocab_get_text(vocab, token);
            *user_defined = attr & LLAMA_TOKEN_ATTR_USER_DEFINED;
            *end_of_turn = llama_vocab_is_eog(vocab, token);
            return token;
        }
    }
    return -1;
}

int64_t slc_llm_tokenize(void * handle, const char * text, int64_t length, bool marked, int32_t * out, int64_t room) {
    try {
        const auto tokens = of(handle).engine->tokenize(text, (size_t) length, marked);
        std::copy_n(tokens.begin(), std::max<int64_t>(0, std::min(room, (int64_t) tokens.size())), out);
        return (int64_t) tokens.size();
    } catch (const std::exception &) {
        return -1;
    }
}

int64_t slc_llm_pin(void * handle, const char * text, int64_t length, bool marked, uint64_t scope) {
    slc::Handle & h = of(handle);
    h.last = slc_llm_result{};
    h.last.code = SLC_LLM_BAD_OPTION;
    try {
        slc::Request r;
        r.prompt = h.engine->tokenize(text, (size_t) length, marked);
        const int limit = h.engine->context() - 1;
        if (r.prompt.empty() || (int) r.prompt.size() > limit) {
            const std::string why = "a text of " + std::to_string(r.prompt.size()) +
                                    " tokens cannot be pinned: 1 to " + std::to_string(limit);
            slc::copy_text(why.c_str(), h.last.error, sizeof h.last.error);
            return -1;
        }
        r.pin = true;
        r.scope = scope;
        r.cancelled = &h.cancelled;
        h.engine->submit(&r);
        for (std::string none; r.wait(none);) {
        }
        h.last = r.result;
        h.last.prompt_tokens = (int32_t) r.prompt.size();
        return r.pinned;
    } catch (const std::exception & e) {
        slc::copy_text(e.what(), h.last.error, sizeof h.last.error);
        return -1;
    }
}

void slc_llm_unpin(void * handle, int64_t pin) {
    of(handle).engine->unpin(pin);
}

int32_t slc_llm_log(void * handle, char * line, size_t line_size) {
    std::string text;
    const int level = of(handle).engine->log().take(text);
    slc::copy_text(text.c_str(), line, line_size);
    return level;
}

void slc_llm_model_stats(void * handle, slc_llm_stats * stats) {
    *stats = of(handle).engine->stats();
}

uint32_t slc_llm_abi(void) {
    return SLC_LLM_ABI;
}

bool slc_llm_gpu(void) {
    return llama_supports_gpu_offload();
}

} // extern "C"
