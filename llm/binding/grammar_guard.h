// What a grammar may cost while one token is chosen. llama.cpp keeps a stack for every way in which a text can be read,
// and an ambiguous grammar doubles them with every character: beside such a request all others would stand still, since
// one thread decodes for all. A patch puts calls of grammar_step into llama.cpp's grammar
// (third_party/llama/patches/library).
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

// GrammarWork counts the calling thread's steps while it lives; one at a time. Without it, nothing is counted.
class GrammarWork {
public:
    explicit GrammarWork(const std::atomic<bool> * cancelled, uint64_t limit = kGrammarSteps);
    ~GrammarWork();
    GrammarWork(const GrammarWork &) = delete;
    GrammarWork & operator=(const GrammarWork &) = delete;

    void step(uint64_t n);

private:
    const std::atomic<bool> * cancelled_; // may be null
    const uint64_t limit_;
    uint64_t steps_ = 0;
};

void grammar_step(size_t steps);

} // namespace slc
