// llama.cpp logs through one process-wide function. Here a line goes to the sink of the thread that logs it: the load
// in progress, or the scheduler of one model, so that each model's owner gets its own lines.
#pragma once

#include <deque>
#include <mutex>
#include <string>

namespace slc {

class LogSink {
public:
    void add(int level, const char * text) noexcept; // text may be part of a line
    int take(std::string & line);           // level of the oldest line, 0 when there is none
    std::string errors();                   // error lines so far, joined; they stay in the sink
    void move_to(LogSink & other);          // all lines, in order
    void clear();

private:
    struct Line {
        int level;
        std::string text;
    };
    std::mutex mutex_;
    std::deque<Line> lines_;
    std::string partial_;
    int partial_level_ = 0;
};

// Routes this thread's llama.cpp lines to a sink for the scope's lifetime.
class LogScope {
public:
    explicit LogScope(LogSink * sink);
    ~LogScope();
    LogScope(const LogScope &) = delete;
    LogScope & operator=(const LogScope &) = delete;

private:
    LogSink * before_;
};

void install_log(); // idempotent

} // namespace slc
