// How many threads compute where other programs compute, too.
#pragma once

#include <algorithm>
#include <climits>
#include <cstdint>

namespace slc {

// ThreadCount finds out how many threads are the fastest. At the end of each operation all threads wait for the last
// one (llm/ggml/barrier.h), which takes milliseconds while another program has its processor. Where they wait for a
// quarter of the time, and for more than one thread adds, fewer compute; later more are tried. All times are in
// microseconds.
class ThreadCount {
  public:
    // at returns how many threads compute at a time, most at the most.
    int at(int64_t now, int most) {
        if (limit_ < most && !trial_ && now >= retry_) {
            good_ = limit_;
            limit_ += std::max(1, limit_ / 4);
            trial_ = true;
            wall_ = waited_ = 0;
        }
        return std::min(limit_, most);
    }

    // took says how long threads computed, and how long they waited in all of that.
    void took(int64_t now, int threads, int64_t wall, int64_t waited) {
        if (threads < 2) {
            return;
        }
        wall_ += wall;
        waited_ += waited / (threads - 1);
        if (wall_ < kWindow) {
            return;
        }
        const double share = (double) waited_ / (double) wall_;
        wall_ = waited_ = 0;
        const bool fewer = share > std::max(.25, .9 / threads);
        if (fewer) {
            limit_ = trial_ ? good_ : std::max(1, (int) ((1 - share) * threads + .25));
            hold_ = trial_ ? std::min(2 * hold_, kLongest) : kShortest;
            retry_ = now + hold_;
        } else if (trial_) {
            hold_ = kShortest;
        }
        trial_ = false;
    }

  private:
    static constexpr int64_t kWindow = 100'000, kShortest = 500'000, kLongest = 4'000'000;

    int limit_ = INT_MAX, good_ = INT_MAX;
    bool trial_ = false; // more than good_ are computing
    int64_t wall_ = 0, waited_ = 0; // since the last decision; waited by each of the threads but one
    int64_t hold_ = kShortest, retry_ = 0;
};

} // namespace slc
