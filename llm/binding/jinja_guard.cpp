#include "jinja_guard.h"
#include "jinja_budget.h"

#include <cstring>
#include <ctime>

namespace slc {

namespace {

thread_local JinjaBudget * budget = nullptr; // of the rendering that this thread does

// Between two looks at the clock, which is a system call.
constexpr uint64_t kSteps = 64;
constexpr uint64_t kStepBytes = 4096; // count as another step

int64_t cpu_now() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return int64_t(t.tv_sec) * 1000000000 + t.tv_nsec;
}

uintptr_t stack_now() {
    return reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
}

} // namespace

JinjaBudget::JinjaBudget(const JinjaLimits & limits)
    : limits_(limits), floor_(stack_now() - limits.stack), deadline_(cpu_now() + limits.cpu_ns) {
    budget = this;
}

JinjaBudget::~JinjaBudget() {
    budget = nullptr;
}

void JinjaBudget::step(size_t bytes) {
    if (stack_now() < floor_) {
        throw JinjaLimit{"it is nested too deeply"};
    }
    steps_ += 1 + bytes / kStepBytes;
    if (steps_ < kSteps) {
        return;
    }
    steps_ = 0;
    if (cpu_now() > deadline_) {
        steps_ = kSteps; // thrown again should the engine catch it
        throw JinjaLimit{"it takes too long"};
    }
}

void JinjaBudget::charge(uint64_t bytes) {
    made_ += bytes < limits_.made ? bytes : limits_.made;
    if (made_ >= limits_.made) {
        throw JinjaLimit{"it makes too much text"};
    }
    step(bytes);
}

void JinjaBudget::room(uint64_t bytes) {
    if (bytes > limits_.held || held_ > limits_.held - bytes) {
        throw JinjaLimit{"it makes too much text"};
    }
    step();
}

JinjaNode * JinjaBudget::take() {
    JinjaNode * node = nodes_;
    if (node) {
        node->leave();
    }
    return node;
}

void JinjaNode::enter() {
    if (!budget) {
        return;
    }
    budget->step();
    if (budget->values_ >= budget->limits_.values) {
        throw JinjaLimit{"it makes too many values"};
    }
    budget->values_++;
    next_ = budget->nodes_;
    if (next_) {
        next_->link_ = &next_;
    }
    link_ = &budget->nodes_;
    budget->nodes_ = this;
}

void JinjaNode::leave() {
    if (!link_) {
        return;
    }
    *link_ = next_;
    if (next_) {
        next_->link_ = link_;
    }
    link_ = nullptr;
    if (budget) {
        budget->values_--;
        budget->held_ -= held_;
    }
    held_ = 0;
}

JinjaNode::~JinjaNode() {
    leave();
}

void JinjaNode::hold(uint64_t bytes) {
    if (!link_ || !budget || bytes == 0) {
        return;
    }
    budget->room(bytes);
    budget->held_ += bytes;
    held_ += bytes;
}

void jinja_step(size_t bytes) {
    if (budget) {
        budget->step(bytes);
    }
}

void jinja_room(uint64_t bytes) {
    if (budget) {
        budget->room(bytes);
    }
}

void jinja_charge(uint64_t bytes) {
    if (budget) {
        budget->charge(bytes);
    }
}

size_t jinja_find(const std::string & text, const std::string & part, size_t from) {
    if (from > text.size()) {
        return std::string::npos;
    }
    const void * at = memmem(text.data() + from, text.size() - from, part.data(), part.size());
    jinja_step(text.size() - from);
    return at ? size_t(static_cast<const char *>(at) - text.data()) : std::string::npos;
}

void jinja_search(size_t text, size_t part) {
    if (part > 1 && text > (size_t(1) << 32) / part) {
        throw JinjaLimit{"it searches for too long a text"};
    }
    jinja_step(text);
}

struct ::tm * jinja_localtime(const int64_t * seconds) {
    thread_local struct ::tm local;
    const time_t t = static_cast<time_t>(*seconds);
    return localtime_r(&t, &local);
}

} // namespace slc
