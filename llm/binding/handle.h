// What upstream's *LLama points to: a share in an engine, and one request at a time.
#pragma once

#include "engine.h"

#include <atomic>
#include <memory>

namespace slc {

struct Handle {
    std::shared_ptr<Engine> engine;
    std::atomic<bool> busy{false};
    std::atomic<bool> cancelled{false};
    bool prepared = false; // slc_llm_prepare was called for the next use
    slc_llm_request extras{};
    slc_llm_result last{};
    std::vector<slc_llm_prob> probs;   // of the last predict
    std::vector<llama_token> history;  // what the last predict or eval, or a loaded state, left in a slot
    uint64_t scope = 0;                // of the history

    // The extras of this use, which they serve only once.
    bool take_extras(slc_llm_request & out) {
        out = prepared ? extras : slc_llm_request{};
        const bool had = prepared;
        prepared = false;
        return had;
    }
};

// What slc_llm_next_load set for this thread; with defaults where it did not.
slc_llm_load_options take_load_options(int n_ctx, int n_batch);
void set_loaded(void * handle, const std::string & error);

} // namespace slc
