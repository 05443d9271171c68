// A request, shared by the thread that waits for its text and the scheduler that makes it.
#pragma once

#include "sampling.h"
#include "text.h"

#include "llama.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../slc_llm.h"

namespace slc {

class Request {
public:
    Request(slc_llm_request & request, std::atomic<bool> & flag)
        : asked(request), result(request.result), cancelled(&flag) {}

    // Set by the submitter before submit, and owned by the scheduler afterwards.
    const slc_llm_request & asked;
    slc_llm_result & result;
    std::atomic<bool> * cancelled;
    std::vector<llama_token> prompt; // not empty
    int max_tokens = 0;              // tokens to generate; 0: only read the prompt
    std::unique_ptr<Sampler> sampler;
    TextFilter text{{}};
    int64_t submitted = 0, started = 0, first = 0; // llama_time_us
    std::vector<slc_llm_prob> probs; // of the completion, see slc_llm_probs

    bool is_cancelled() const { return cancelled->load(std::memory_order_relaxed); }

    // Scheduler: hands over text, or ends the request.
    void push(const std::string & piece) {
        if (piece.empty()) {
            return;
        }
        std::lock_guard<std::mutex> lock(mutex_);
        ready_ += piece;
        changed_.notify_one();
    }
    void finish() {
        // Notified under the lock: the waiter may destroy the request as soon as it can see done_.
        std::lock_guard<std::mutex> lock(mutex_);
        done_ = true;
        changed_.notify_one();
    }
    // Submitter: waits for text. False when the request is done and all text has been taken.
    bool wait(std::string & piece) {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return done_ || !ready_.empty(); });
        piece.swap(ready_);
        ready_.clear();
        return !piece.empty();
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::string ready_;
    bool done_ = false;
};

} // namespace slc
