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

GrammarWork::GrammarWork(const std::atomic<bool> * cancelled, uint64_t & steps, uint64_t budget)
    : cancelled_(cancelled), steps_(steps), budget_(budget) {
    steps_ = 0;
    work = this;
}

GrammarWork::~GrammarWork() {
    work = nullptr;
}

void GrammarWork::step(uint64_t n) {
    if (steps_ + n > kGrammarSteps) {
        steps_ += n;
        throw GrammarLimit(steps_, kGrammarSteps);
    }
    if (steps_ + n > budget_) {
        throw GrammarBudget{};
    }
    steps_ += n;
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
