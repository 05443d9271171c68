#include "grammar_guard.h"

#include <string>

namespace slc {

namespace {

thread_local GrammarWork * work = nullptr; // of the token that this thread chooses

} // namespace

GrammarLimit::GrammarLimit(uint64_t steps, uint64_t limit)
    : std::runtime_error("the grammar took " + std::to_string(steps) + " steps for one token, the maximum is " +
                         std::to_string(limit)),
      steps(steps), limit(limit) {}

GrammarWork::GrammarWork(const std::atomic<bool> * cancelled, uint64_t limit) : cancelled_(cancelled), limit_(limit) {
    work = this;
}

GrammarWork::~GrammarWork() {
    work = nullptr;
}

void GrammarWork::step(uint64_t n) {
    steps_ += n;
    if (steps_ > limit_) {
        throw GrammarLimit(steps_, limit_);
    }
    if (cancelled_ && cancelled_->load(std::memory_order_relaxed)) {
        throw GrammarCancelled{};
    }
}

void grammar_step(size_t steps) {
    if (work) {
        work->step(steps);
    }
}

} // namespace slc
