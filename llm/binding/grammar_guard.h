// Limits of a grammar's work for one token. llama.cpp keeps a stack for every way in which a text can be read, and an
// ambiguous grammar doubles them with every character, which would stop all other requests, since one thread decodes
// for all. A patch puts calls of grammar_step into llama.cpp's grammar (third_party/llama/patches/library). What takes
// more than a small budget goes to a thread of its own (grammar_thread.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace slc {

// Steps of a token: elements of stacks compared and candidates checked. A JSON Schema takes some thousands, one with a
// list of thousands of values millions; the maximum is about a tenth of a second.
constexpr uint64_t kGrammarSteps = 1 << 24;

// Thrown by a grammar that goes beyond them.
struct GrammarLimit : std::runtime_error {
    GrammarLimit(uint64_t steps, uint64_t limit);
    uint64_t steps, limit;
};

// Thrown when the request is cancelled meanwhile. Not a std::exception: nothing has failed.
struct GrammarCancelled {};

// Thrown when the steps go beyond the budget: another thread is to choose the token. Not a failure either.
struct GrammarBudget {};

// GrammarWork counts the calling thread's steps while it lives; one at a time. Without it, nothing is counted.
class GrammarWork {
public:
    // cancelled may be null. Steps are counted in steps, also when an exception ends the work.
    GrammarWork(const std::atomic<bool> * cancelled, uint64_t & steps, uint64_t budget = kGrammarSteps);
    ~GrammarWork();
    GrammarWork(const GrammarWork &) = delete;
    GrammarWork & operator=(const GrammarWork &) = delete;

    void step(uint64_t n);

private:
    const std::atomic<bool> * cancelled_;
    uint64_t & steps_;
    const uint64_t budget_;
};

void grammar_step(size_t steps);

} // namespace slc
