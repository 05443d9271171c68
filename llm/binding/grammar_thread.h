// A thread of low priority that chooses tokens whose grammars take many steps, while the scheduler's thread decodes for
// the other requests.
#pragma once

#include "sampling.h"

#include "llama.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace slc {

// One token of one request. It has the sampler while the token is being chosen, so that the request may end meanwhile.
struct Choice {
    std::unique_ptr<Sampler> sampler;
    std::vector<float> logits;
    std::atomic<bool> cancelled{false};
    std::atomic<bool> done{false}; // after it, the rest is the requester's again
    llama_token token = LLAMA_TOKEN_NULL;
    std::vector<slc_llm_prob> probs;
    std::exception_ptr error; // what Sampler::sample threw
};

class GrammarThread {
public:
    // done is called on the thread after each choice that was not cancelled. Throws std::system_error without a thread.
    explicit GrammarThread(std::function<void()> done);
    ~GrammarThread(); // cancels what is left
    GrammarThread(const GrammarThread &) = delete;
    GrammarThread & operator=(const GrammarThread &) = delete;

    void add(std::shared_ptr<Choice> choice);

private:
    void run();
    std::shared_ptr<Choice> next();

    const std::function<void()> done_;
    std::mutex mutex_; // guards what follows
    std::condition_variable added_;
    std::list<std::shared_ptr<Choice>> waiting_;
    std::shared_ptr<Choice> current_;
    bool quit_ = false;

    std::thread thread_; // last: it starts when everything else exists
};

} // namespace slc
