#include "grammar_thread.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

namespace slc {
namespace {

// Below the process's other threads: about a tenth of a core that decoding threads want as well; all of one that nobody
// wants.
constexpr int kNice = 10;

} // namespace

GrammarThread::GrammarThread(std::function<void()> done) : done_(std::move(done)), thread_([this] { run(); }) {}

GrammarThread::~GrammarThread() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        quit_ = true;
        if (current_) {
            current_->cancelled = true;
        }
    }
    added_.notify_one();
    thread_.join();
}

void GrammarThread::add(std::shared_ptr<Choice> choice) {
    std::lock_guard<std::mutex> lock(mutex_);
    waiting_.push_back(std::move(choice));
    added_.notify_one();
}

// The one with the fewest steps the last time goes first: a request that is nearly within its budget does not wait for
// ambiguous ones. Null at the end.
std::shared_ptr<Choice> GrammarThread::next() {
    std::unique_lock<std::mutex> lock(mutex_);
    current_.reset();
    added_.wait(lock, [&] { return quit_ || !waiting_.empty(); });
    if (quit_) {
        return nullptr;
    }
    const auto first = std::min_element(waiting_.begin(), waiting_.end(), [](const auto & a, const auto & b) {
        return a->sampler->grammar_steps() < b->sampler->grammar_steps();
    });
    current_ = std::move(*first);
    waiting_.erase(first);
    return current_;
}

void GrammarThread::run() {
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + kNice); // of this thread alone, on Linux
    while (const std::shared_ptr<Choice> c = next()) {
        try {
            c->token = c->sampler->sample(c->logits.data(), c->probs, &c->cancelled);
        } catch (...) {
            c->error = std::current_exception();
        }
        if (!c->cancelled) {
            c->done = true;
            done_();
        }
    }
}

} // namespace slc
