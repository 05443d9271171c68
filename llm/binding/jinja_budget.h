// The other side of jinja_guard.h: what starts a rendering and sets its limits.
#pragma once

#include "jinja_guard.h"

namespace slc {

struct JinjaLimits {
    size_t stack = 64u << 20;       // bytes; destructors, which cannot fail, may need more than this
    int64_t cpu_ns = 0;             // of the thread
    uint64_t values = 0;            // at a time
    uint64_t held = 0;              // bytes of text and lists that values hold at a time
    uint64_t made = 0;              // bytes of text that is made and soon forgotten, all together
};

// JinjaBudget is what the calling thread may use while it lives. Values must not outlive it.
struct JinjaBudget {
    explicit JinjaBudget(const JinjaLimits & limits);
    ~JinjaBudget();
    JinjaBudget(const JinjaBudget &) = delete;
    JinjaBudget & operator=(const JinjaBudget &) = delete;

    void step(size_t bytes = 0);
    void charge(uint64_t bytes);
    void room(uint64_t bytes);
    JinjaNode * take(); // removes a value from the list; null: the list is empty

private:
    friend class JinjaNode;
    JinjaLimits limits_;
    uintptr_t floor_;
    int64_t deadline_;
    uint64_t steps_ = 0, values_ = 0, held_ = 0, made_ = 0;
    JinjaNode * nodes_ = nullptr;
};

} // namespace slc
