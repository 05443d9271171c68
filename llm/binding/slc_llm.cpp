// The slc_llm_* functions: see llm/slc_llm.h.
#include "handle.h"

#include <algorithm>
#include <exception>

static slc::Handle & of(void * handle) {
    return *static_cast<slc::Handle *>(handle);
}

extern "C" {

void slc_llm_prepare(void * handle, slc_llm_request * request) {
    of(handle).request = request;
    of(handle).cancelled = false;
}

void slc_llm_cancel(void * handle) {
    of(handle).cancelled = true;
    of(handle).engine->look_again();
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
    const std::string text = slc::token_text(vocab, token, true);
    std::copy_n(text.begin(), std::min((size_t) std::max(room, 0), text.size()), out);
    return (int32_t) text.size();
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
