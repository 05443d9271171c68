// What upstream's *LLama points to: a share in an engine, and one request at a time.
#pragma once

#include "engine.h"

#include <atomic>
#include <memory>

namespace slc {

struct Handle {
    std::shared_ptr<Engine> engine;
    std::atomic<bool> cancelled{false};
    slc_llm_request * request = nullptr; // what the next eval runs
    std::vector<slc_llm_prob> probs;     // of the last one
};

} // namespace slc
