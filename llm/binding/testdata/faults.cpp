// Runs an Engine whose scheduler thread is refused one allocation after the other, for llm/faults_test.go: whatever
// cannot be had ends a request, and the next one is served. Arguments: a model, and how many allocations to try. Prints
// how many of the requests failed.
#include "../engine.h"

#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

std::atomic<long> countdown{-1}; // of allocations on the scheduler's thread until one fails; negative: none does
std::atomic<pthread_t> main_thread{};
std::atomic<long> refused{0};

bool refuse() {
    if (countdown.load(std::memory_order_relaxed) < 0 || pthread_equal(pthread_self(), main_thread.load())) {
        return false;
    }
    if (countdown.fetch_sub(1) == 0) {
        refused++;
        return true;
    }
    return false;
}

} // namespace

void * operator new(size_t n) {
    void * p = refuse() ? nullptr : malloc(n ? n : 1);
    if (!p) {
        throw std::bad_alloc();
    }
    return p;
}
void operator delete(void * p) noexcept {
    free(p);
}
void operator delete(void * p, size_t) noexcept {
    free(p);
}

// Upstream's callback, which its Go code defines; handles are not used here.
extern "C" unsigned char tokenCallback(void *, char *) {
    return 1;
}

int main(int argc, char ** argv) {
    if (argc != 3) {
        return 2;
    }
    main_thread = pthread_self();
    slc_llm_load o{};
    o.path = argv[1];
    o.mapped = true;
    o.context = o.cells = 256;
    o.slots = 2;
    o.batch = 32;
    o.threads = 1;
    slc::LogSink log;
    auto engine = slc::open_engine(o, log);
    std::atomic<bool> cancelled{false};
    long failed = 0;
    const auto run = [&](const char * grammar) {
        slc_llm_request asked{};
        asked.grammar = grammar;
        asked.temperature = 1;
        asked.alternatives = 2;
        slc::Request r(asked, cancelled);
        const std::string prompt = "hello " + std::to_string(failed) + " there is a pump and a valve in the house";
        r.prompt = engine->tokenize(prompt.data(), prompt.size(), false);
        r.max_tokens = 6;
        r.sampler.reset(new slc::Sampler(engine->vocab(), asked, r.prompt, 256, &cancelled));
        engine->submit(&r);
        std::string text;
        for (std::string piece; r.wait(piece);) {
            text += piece;
        }
        return r.result.code;
    };
    const long tries = atol(argv[2]);
    for (long n = 0; n < tries; n++) {
        countdown = n;
        const int code = run(n % 2 ? "root ::= [a-z ]+" : nullptr);
        failed += code != SLC_LLM_OK;
        countdown = -1;
        if (run(nullptr) != SLC_LLM_OK) {
            printf("after allocation %ld: the next request fails\n", n);
            return 1;
        }
    }
    printf("%ld of %ld refused, %ld failed\n", refused.load(), tries, failed);
    return refused > 0 && failed > 0 ? 0 : 1;
}
