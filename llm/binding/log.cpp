#include "log.h"

#include "llama.h"

#include <cstdio>
#include <exception>

namespace slc {
namespace {

constexpr size_t kMaxLines = 512; // a sink nobody reads must not grow; the oldest lines go first

thread_local LogSink * current = nullptr;

void route(ggml_log_level level, const char * text, void *) {
    thread_local bool debugging = false; // continuations go the way of the line they continue
    debugging = level == GGML_LOG_LEVEL_CONT ? debugging : level == GGML_LOG_LEVEL_DEBUG;
    if (debugging) {
        return; // hundreds of lines for every graph
    }
    if (current) {
        current->add(level, text);
    } else if (level == GGML_LOG_LEVEL_ERROR) {
        fputs(text, stderr); // a thread of llama.cpp's own: nobody to ask, too grave to drop
    }
}

} // namespace

// Without memory a line is lost: C code that cannot be unwound may be what logs.
void LogSink::add(int level, const char * text) noexcept try {
    std::lock_guard<std::mutex> lock(mutex_);
    if (level != GGML_LOG_LEVEL_CONT) {
        partial_level_ = level;
    }
    for (const char * c = text; *c; c++) {
        if (*c != '\n') {
            partial_ += *c;
            continue;
        }
        if (!partial_.empty()) {
            lines_.push_back({partial_level_, partial_});
            partial_.clear();
        }
        if (lines_.size() > kMaxLines) {
            lines_.pop_front();
        }
    }
} catch (const std::exception &) {
    (void) level;
}

int LogSink::take(std::string & line) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (lines_.empty()) {
        return 0;
    }
    line = std::move(lines_.front().text);
    const int level = lines_.front().level;
    lines_.pop_front();
    return level > 0 ? level : GGML_LOG_LEVEL_DEBUG;
}

std::string LogSink::errors() {
    std::lock_guard<std::mutex> lock(mutex_);
    std::string all;
    for (const Line & line : lines_) {
        if (line.level == GGML_LOG_LEVEL_ERROR) {
            all += (all.empty() ? "" : "; ") + line.text;
        }
    }
    return all;
}

void LogSink::move_to(LogSink & other) {
    std::string line;
    for (int level; (level = take(line)) != 0;) {
        other.add(level, (line + '\n').c_str());
    }
}

void LogSink::clear() {
    std::lock_guard<std::mutex> lock(mutex_);
    lines_.clear();
    partial_.clear();
}

LogScope::LogScope(LogSink * sink) : before_(current) {
    current = sink;
}

LogScope::~LogScope() {
    current = before_;
}

void install_log() {
    static std::once_flag once;
    std::call_once(once, [] { llama_log_set(route, nullptr); });
}

} // namespace slc
