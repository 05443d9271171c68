// The scheduler thread of an Engine: admission, batches, sampling. Slots are in slots.cpp.
#include "engine.h"

#include "ggml-cpu.h"

#include <algorithm>
#include <exception>
#include <stdexcept>

namespace slc {

void Engine::run() {
    LogScope scope(&log_);
    while (wait_for_work()) {
        run_tasks();
        admit();
        drop_cancelled();
        if (fill_batch()) {
            decode();
        }
    }
}

bool Engine::busy() const {
    return std::any_of(slots_.begin(), slots_.end(), [](const Slot & s) { return s.request; });
}

// Returns false when the engine is to end; everything that ran or waited has then been finished.
bool Engine::wait_for_work() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!busy() && queue_.empty() && tasks_.empty() && !quit_) {
        ggml_threadpool_pause(pool_); // its threads would spin for a while; the next decode resumes them
        wake_.wait(lock, [&] { return quit_ || !queue_.empty() || !tasks_.empty(); });
    }
    if (!quit_) {
        return true;
    }
    for (Request * r : queue_) {
        r->result.code = SLC_LLM_CLOSED;
        r->finish();
    }
    queue_.clear();
    for (Task * t : tasks_) { // there are none: a handle that waits for one keeps the engine alive
        t->error = std::make_exception_ptr(std::runtime_error("the model is closed"));
        t->done = true;
    }
    tasks_.clear();
    task_done_.notify_all();
    lock.unlock();
    for (Slot & s : slots_) {
        if (s.request) {
            release(s, SLC_LLM_FINISH_CANCELLED, SLC_LLM_CLOSED);
        }
    }
    return false;
}

// Tasks that cannot be done yet stay.
void Engine::run_tasks() {
    std::deque<Task *> tasks;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        tasks.swap(tasks_);
    }
    for (Task * t : tasks) {
        bool done = true;
        try {
            done = t->work();
        } catch (...) {
            t->error = std::current_exception();
        }
        std::lock_guard<std::mutex> lock(mutex_);
        if (done) {
            t->done = true;
            task_done_.notify_all();
        } else {
            tasks_.push_back(t);
        }
    }
}

// KV cells a request may come to need.
int32_t Engine::cells_needed(const Request & r) const {
    return (int32_t) std::min<int64_t>(options_.load.context, (int64_t) r.prompt.size() + r.max_tokens);
}

// In the queue's order: a request starts when a slot is free and its cells fit beside those of the running ones, so
// that a request once started never runs out of cache.
void Engine::admit() {
    for (;;) {
        Request * r;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            while (!queue_.empty() && queue_.front()->is_cancelled()) {
                queue_.front()->result.finish = SLC_LLM_FINISH_CANCELLED;
                queue_.front()->finish();
                queue_.pop_front();
            }
            if (queue_.empty() || !free_slot() || reserved_ + cells_needed(*queue_.front()) > options_.load.cells) {
                stats_.queued = (int32_t) queue_.size();
                return;
            }
            r = queue_.front();
            queue_.pop_front();
        }
        assign(r);
    }
}

void Engine::release(Slot & slot, slc_llm_finish finish, slc_llm_code code, const std::string & error) {
    Request * r = slot.request;
    slot.request = nullptr;
    slot.last_use = llama_time_us();
    reserved_ -= cells_needed(*r);
    {
        std::lock_guard<std::mutex> lock(mutex_);
        stats_.active--;
        stats_.completion += r->result.completion_tokens;
        stats_.finished[finish]++;
    }
    r->history = slot.kv;
    r->result.code = code;
    r->result.finish = finish;
    if (r->first) {
        r->result.decode_us = slot.last_use - r->first;
    }
    error.copy(r->result.error, sizeof r->result.error - 1);
    std::string rest;
    r->text.finish(rest);
    r->push(rest);
    r->finish(); // r may be gone from here
}

void Engine::drop_cancelled() {
    for (Slot & s : slots_) {
        if (s.request && s.request->is_cancelled()) {
            release(s, SLC_LLM_FINISH_CANCELLED);
        }
    }
}

void Engine::add(Slot & slot, llama_token token, bool output) {
    const int i = batch_.n_tokens++;
    batch_.token[i] = token;
    batch_.pos[i] = (llama_pos) slot.kv.size();
    batch_.n_seq_id[i] = 1;
    batch_.seq_id[i][0] = slot.id;
    batch_.logits[i] = output;
    if (output) {
        slot.output = i;
    }
    slot.kv.push_back(token);
}

// First a token of every generating slot, then prompts. Returns false when there is nothing to decode.
bool Engine::fill_batch() {
    batch_.n_tokens = 0;
    share_prefixes();
    std::vector<Slot *> reading;
    for (Slot & s : slots_) {
        s.output = -1;
        s.kv_before = s.kv.size();
        if (!s.request) {
            continue;
        }
        if (s.next != LLAMA_TOKEN_NULL) {
            add(s, s.next, true);
        } else if (!s.waits) {
            reading.push_back(&s);
        }
    }
    read_prompts(reading);
    if (batch_.n_tokens > 0) {
        make_room();
    }
    return batch_.n_tokens > 0;
}

// Half of the room is the oldest prompt's, so that none waits for ever, and the rest is for those with the least left
// to read, so that none waits for longer ones. Few large pieces: attention is quicker for many rows of one text than
// for a few of many, and the first answers come sooner.
void Engine::read_prompts(std::vector<Slot *> & slots) {
    if (slots.empty()) {
        return;
    }
    const auto left = [](const Slot * s) { return s->request->prompt.size() - s->read; };
    const auto read = [&](Slot & s, size_t n) {
        for (; n > 0; n--) {
            s.read++;
            add(s, s.request->prompt[s.read - 1], left(&s) == 0 && s.request->max_tokens > 0);
        }
    };
    std::sort(slots.begin(), slots.end(), [&](const Slot * a, const Slot * b) { return left(a) < left(b); });
    const auto oldest = std::min_element(slots.begin(), slots.end(), [](const Slot * a, const Slot * b) {
        return a->request->started < b->request->started;
    });
    size_t others = 0;
    for (const Slot * s : slots) {
        others += s == *oldest ? 0 : left(s);
    }
    size_t room = (size_t) (options_.load.batch - batch_.n_tokens);
    const size_t first = std::min(left(*oldest), std::max((room + 1) / 2, room - std::min(room, others)));
    room -= first;
    for (Slot * s : slots) {
        const size_t n = s == *oldest ? first : std::min(room, left(s));
        room -= s == *oldest ? 0 : n;
        read(*s, n);
    }
}

// Stops a decode whose every request has been cancelled.
bool Engine::abort_decode(void * self) {
    for (const Slot & s : static_cast<Engine *>(self)->slots_) {
        if (s.request && !s.request->is_cancelled()) {
            return false;
        }
    }
    return true;
}

void Engine::decode() {
    const auto & load = options_.load;
    const int threads = load.acquire ? std::max(1, std::min(load.acquire(load.user), load.threads)) : load.threads;
    if (threads != threads_) {
        llama_set_n_threads(ctx_, threads, threads);
        threads_ = threads;
    }
    int status;
    std::string error;
    const int64_t begun = llama_time_us();
    try {
        LogScope scope(&decode_log_);
        status = llama_decode(ctx_, batch_);
        error = "llama_decode returned " + std::to_string(status);
    } catch (const std::exception & e) {
        status = -1;
        error = e.what();
    }
    if (load.release) {
        load.release(load.user);
    }
    if (status == 2) {
        decode_log_.clear(); // llama.cpp logs an abort, which a cancelled request asked for, as three errors
    } else {
        decode_log_.move_to(log_);
    }
    {
        std::lock_guard<std::mutex> lock(mutex_);
        stats_.decodes++;
        stats_.tokens += batch_.n_tokens;
        stats_.decode_us += llama_time_us() - begun;
        stats_.cells = (int32_t) used();
        stats_.pinned = 0;
        for (const Pin & p : pins_) {
            stats_.pinned += (int32_t) p.kv.size();
        }
    }
    if (status == 0) {
        sample_all();
    } else if (status == 2) { // aborted: drop_cancelled ends the requests
        for (Slot & s : slots_) {
            roll_back(s, s.kv_before);
        }
    } else {
        fail_batch(SLC_LLM_DECODE, error + (status == 1 ? ": no room in the KV cache" : ""));
    }
}

void Engine::fail_batch(slc_llm_code code, const std::string & error) {
    for (Slot & s : slots_) {
        if (s.request) {
            roll_back(s, 0);
            release(s, SLC_LLM_FINISH_NONE, code, error);
        }
    }
}

void Engine::sample_all() {
    for (Slot & s : slots_) {
        if (!s.request) {
            continue;
        }
        Request & r = *s.request;
        if (s.output < 0) {
            if (s.read == r.prompt.size() && r.max_tokens == 0) {
                r.result.prompt_us = llama_time_us() - r.started;
                const std::string refused = r.pin ? keep_pin(s, r) : "";
                release(s, SLC_LLM_FINISH_LENGTH, refused.empty() ? SLC_LLM_OK : SLC_LLM_BAD_OPTION, refused);
            }
            continue;
        }
        const float * logits = llama_get_logits_ith(ctx_, s.output);
        llama_token token = LLAMA_TOKEN_NULL;
        try {
            token = logits ? r.sampler->sample(logits, r.probs) : LLAMA_TOKEN_NULL;
        } catch (const std::exception & e) { // of llama.cpp's grammar
            release(s, SLC_LLM_FINISH_NONE, SLC_LLM_DECODE, e.what());
            continue;
        }
        if (!r.first) {
            r.first = llama_time_us();
            r.result.prompt_us = r.first - r.started;
        }
        if (token == LLAMA_TOKEN_NULL) {
            roll_back(s, 0);
            release(s, SLC_LLM_FINISH_NONE, SLC_LLM_DECODE,
                    "no token can be chosen: the logits are not finite, or the grammar allows nothing");
        } else {
            emit(s, token);
        }
    }
}

void Engine::emit(Slot & s, llama_token token) {
    Request & r = *s.request;
    s.next = token;
    if (llama_vocab_is_eog(vocab(), token) && !r.ignore_eos) {
        release(s, SLC_LLM_FINISH_STOP);
        return;
    }
    r.result.completion_tokens++;
    char buffer[256];
    std::string piece, ready;
    const int n = llama_token_to_piece(vocab(), token, buffer, sizeof buffer, 0, false);
    if (n >= 0) {
        piece.assign(buffer, (size_t) n);
    } else {
        piece.resize((size_t) -n);
        llama_token_to_piece(vocab(), token, &piece[0], -n, 0, false);
    }
    const bool stopped = r.text.push(piece, ready);
    r.push(ready);
    if (stopped) {
        release(s, SLC_LLM_FINISH_STOP);
    } else if (r.result.completion_tokens >= r.max_tokens) {
        release(s, SLC_LLM_FINISH_LENGTH);
    } else if ((int) s.kv.size() + 1 >= options_.load.context) { // + 1: the token just made
        release(s, SLC_LLM_FINISH_CONTEXT);
    }
}

} // namespace slc
