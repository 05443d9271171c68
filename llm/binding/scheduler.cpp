// The scheduler thread of an Engine: admission, batches, sampling. Slots are in slots.cpp.
#include "engine.h"
#include "grammar_guard.h"

#include "ggml-cpu.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>

namespace slc {

void Engine::run() {
    LogScope scope(&log_);
    while (wait_for_work()) {
        try {
            step();
        } catch (const std::exception & e) { // no memory, mostly
            fail_batch(SLC_LLM_DECODE, e.what());
            look_again();
        }
    }
}

void Engine::step() {
    release_pins();
    admit();
    drop_cancelled();
    take_choices();
    if (fill_batch()) {
        decode();
    }
}

bool Engine::busy() const {
    return std::any_of(slots_.begin(), slots_.end(), [](const Slot & s) { return s.request; });
}

// Whether a slot has something to decode; slots whose next token is being chosen have nothing.
bool Engine::decoding() const {
    return std::any_of(slots_.begin(), slots_.end(), [](const Slot & s) { return s.request && !s.choice; });
}

// Returns false when the engine is to end; everything that ran or waited has then been finished.
bool Engine::wait_for_work() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!decoding() && !changed_ && !quit_) {
        ggml_threadpool_pause(pool_); // its threads would spin for a while; the next decode resumes them
        wake_.wait(lock, [&] { return quit_ || changed_; });
    }
    changed_ = false;
    if (!quit_) {
        return true;
    }
    for (Request * r : queue_) {
        r->result.code = SLC_LLM_CLOSED;
        r->finish();
    }
    queue_.clear();
    lock.unlock();
    for (Slot & s : slots_) {
        if (s.request) {
            release(s, SLC_LLM_FINISH_CANCELLED, SLC_LLM_CLOSED);
        }
    }
    return false;
}

// KV cells a request may come to need.
int32_t Engine::cells_needed(const Request & r) const {
    return (int32_t) std::min<int64_t>(load_.context, (int64_t) r.prompt.size() + r.max_tokens);
}

// In the queue's order: a request starts when a slot is free and its cells fit beside the running requests' cells, so
// that it never runs out of cache.
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
            if (queue_.empty() || !free_slot() || reserved_ + cells_needed(*queue_.front()) > load_.cells) {
                stats_.queued = (int32_t) queue_.size();
                return;
            }
            r = queue_.front();
            queue_.pop_front();
        }
        try {
            assign(r);
        } catch (const std::exception & e) { // before it changed anything
            r->result.code = SLC_LLM_DECODE;
            copy_text(e.what(), r->result.error, sizeof r->result.error);
            r->finish();
        }
    }
}

void Engine::release(Slot & slot, slc_llm_finish finish, slc_llm_code code, const char * error) noexcept {
    Request * r = slot.request;
    slot.request = nullptr;
    if (slot.choice) {
        slot.choice->cancelled = true;
        slot.choice.reset();
    }
    slot.last_use = llama_time_us();
    reserved_ -= cells_needed(*r);
    {
        std::lock_guard<std::mutex> lock(mutex_);
        changed_ = true; // there is room
        stats_.active--;
        stats_.completion += r->result.completion_tokens;
        stats_.finished[finish]++;
    }
    r->result.code = code;
    r->result.finish = finish;
    if (r->first) {
        r->result.decode_us = slot.last_use - r->first;
    }
    try {
        std::string rest;
        r->text.finish(rest);
        r->push(rest);
    } catch (const std::exception & e) { // the text would end too early
        r->result.code = code == SLC_LLM_OK ? SLC_LLM_DECODE : code;
        error = code == SLC_LLM_OK ? e.what() : error;
    }
    copy_text(error, r->result.error, sizeof r->result.error);
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
    slot.kv.push_back(token); // there is room, see assign
    const int i = batch_.n_tokens++;
    batch_.token[i] = token;
    batch_.pos[i] = (llama_pos) slot.kv.size() - 1;
    batch_.n_seq_id[i] = 1;
    batch_.seq_id[i][0] = slot.id;
    batch_.logits[i] = output;
    if (output) {
        slot.output = i;
    }
}

// First a token of every generating slot, then prompts. Returns false when there is nothing to decode.
bool Engine::fill_batch() {
    batch_.n_tokens = 0;
    share_prefixes();
    reading_.clear();
    for (Slot & s : slots_) {
        s.output = -1;
        s.kv_before = s.kv.size();
        if (!s.request || s.choice) {
            continue;
        }
        if (s.next != LLAMA_TOKEN_NULL) {
            add(s, s.next, true);
        } else if (!s.waits) {
            reading_.push_back(&s);
        }
    }
    read_prompts(reading_);
    if (batch_.n_tokens > 0) {
        make_room();
    }
    return batch_.n_tokens > 0;
}

// Half of the room goes to the oldest prompt, so that none waits for ever, the rest to prompts with the least left to
// read, so that none waits for longer ones. Pieces are few and large: attention is quicker for many rows of one text
// than for a few rows of many, and the first answers come sooner.
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
    size_t room = (size_t) (load_.batch - batch_.n_tokens);
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

// Returns llama_decode's status, with why in error.
int Engine::decode_batch(char * error, size_t size) {
    const int most = load_.acquire ? std::max(1, std::min(load_.acquire(load_.user), load_.threads)) : load_.threads;
    struct Release {
        const slc_llm_load & load;
        ~Release() {
            if (load.release) {
                load.release(load.user);
            }
        }
    } release{load_};
    const int64_t begun = llama_time_us(), waited = slc_llm_time_waited();
    const int threads = thread_count_.at(begun, most);
    if (threads != threads_) {
        llama_set_n_threads(ctx_, threads, threads);
        threads_ = threads;
    }
    try {
        LogScope scope(&decode_log_);
        const int status = llama_decode(ctx_, batch_);
        const int64_t now = llama_time_us();
        thread_count_.took(now, threads, now - begun, slc_llm_time_waited() - waited);
        snprintf(error, size, "llama_decode returned %d%s", status, status == 1 ? ": no room in the KV cache" : "");
        return status;
    } catch (const std::exception & e) {
        copy_text(e.what(), error, size);
        return -1;
    }
}

void Engine::decode() {
    char error[256];
    const int64_t begun = llama_time_us();
    const int status = decode_batch(error, sizeof error);
    decode_us_ = llama_time_us() - begun;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        stats_.decodes++;
        stats_.tokens += batch_.n_tokens;
        stats_.decode_us += decode_us_;
        stats_.cells = (int32_t) used();
        stats_.pinned = 0;
        for (const Pin & p : pins_) {
            stats_.pinned += (int32_t) p.kv.size();
        }
    }
    if (status == 2) {
        decode_log_.clear(); // llama.cpp logs the abort of a cancelled request as three errors
    } else {
        decode_log_.move_to(log_);
    }
    if (status == 0) {
        sample_all();
    } else if (status == 2) { // aborted: drop_cancelled ends the requests
        for (Slot & s : slots_) {
            roll_back(s, s.kv_before);
        }
    } else {
        fail_batch(SLC_LLM_DECODE, error);
    }
}

void Engine::fail_batch(slc_llm_code code, const char * error) noexcept {
    for (Slot & s : slots_) {
        if (s.request) {
            roll_back(s, 0);
            release(s, SLC_LLM_FINISH_NONE, code, error);
        }
    }
}

// Grammars share a budget of a twentieth to a tenth of the last decode on this thread, since no request is decoded
// meanwhile, but each may take as much as an ordinary JSON Schema needs. What takes longer goes to another thread.
void Engine::sample_all() {
    constexpr uint64_t kStepsPerMicrosecond = 8, kMinSteps = 1 << 12;
    const auto constrained = std::count_if(slots_.begin(), slots_.end(), [](const Slot & s) {
        return s.request && s.output >= 0 && s.request->sampler->has_grammar();
    });
    const uint64_t all = (uint64_t) decode_us_ * kStepsPerMicrosecond;
    grammar_budget_ = std::max(kMinSteps, all / (uint64_t) std::max<int64_t>(1, constrained));
    grammar_steps_ = 0;
    for (Slot & s : slots_) {
        if (s.request && !s.choice) {
            attempt(s, &Engine::sample);
        }
    }
    if (grammar_steps_ > 0) {
        std::lock_guard<std::mutex> lock(mutex_);
        stats_.grammar_steps += (int64_t) grammar_steps_;
    }
}

// Takes what the thread of grammars has finished.
void Engine::take_choices() {
    for (Slot & s : slots_) {
        if (s.choice && s.choice->done) {
            attempt(s, &Engine::take_choice);
        }
    }
}

void Engine::attempt(Slot & s, void (Engine::*work)(Slot &)) {
    Request & r = *s.request;
    try {
        (this->*work)(s);
    } catch (const GrammarCancelled &) {
        release(s, SLC_LLM_FINISH_CANCELLED);
    } catch (const GrammarLimit & e) {
        r.result.grammar_steps = (int64_t) e.steps;
        r.result.grammar_limit = (int64_t) e.limit;
        release(s, SLC_LLM_FINISH_NONE, SLC_LLM_GRAMMAR, e.what());
    } catch (const std::exception & e) { // of llama.cpp's grammar, or no memory
        roll_back(s, 0);
        release(s, SLC_LLM_FINISH_NONE, SLC_LLM_DECODE, e.what());
    }
}

// Chooses a slot's token, unless its grammar takes more than the budget or did so the last time: then another thread
// chooses it.
bool Engine::choose(Slot & s, const float * logits, llama_token & token) {
    Request & r = *s.request;
    if (r.sampler->grammar_steps() <= grammar_budget_) {
        struct Count {
            Engine & engine;
            const Sampler & sampler;
            ~Count() { engine.grammar_steps_ += sampler.grammar_steps(); }
        } count{*this, *r.sampler};
        try {
            token = r.sampler->sample(logits, r.probs, r.cancelled, grammar_budget_);
            return true;
        } catch (const GrammarBudget &) {
        }
    }
    hand_over(s, logits);
    return false;
}

void Engine::hand_over(Slot & s, const float * logits) {
    if (!grammars_) {
        grammars_.reset(new GrammarThread([this] { look_again(); }));
    }
    auto choice = std::make_shared<Choice>();
    choice->logits.assign(logits, logits + llama_vocab_n_tokens(vocab()));
    choice->sampler = std::move(s.request->sampler);
    s.choice = choice;
    s.next = LLAMA_TOKEN_NULL;
    grammars_->add(std::move(choice));
    std::lock_guard<std::mutex> lock(mutex_);
    stats_.grammar_tokens++;
}

void Engine::take_choice(Slot & s) {
    const std::shared_ptr<Choice> choice = std::move(s.choice);
    Request & r = *s.request;
    r.sampler = std::move(choice->sampler);
    if (choice->error) {
        std::rethrow_exception(choice->error);
    }
    r.probs.insert(r.probs.end(), choice->probs.begin(), choice->probs.end());
    chosen(s, choice->token);
}

// Handles the result of a decode for a slot.
void Engine::sample(Slot & s) {
    Request & r = *s.request;
    if (s.output < 0) {
        if (s.read == r.prompt.size() && r.max_tokens == 0) {
            r.result.prompt_us = llama_time_us() - r.started;
            const std::string refused = keep_pin(s, r);
            release(s, SLC_LLM_FINISH_LENGTH, refused.empty() ? SLC_LLM_OK : SLC_LLM_BAD_OPTION, refused.c_str());
        }
        return;
    }
    const float * logits = llama_get_logits_ith(ctx_, s.output);
    llama_token token = LLAMA_TOKEN_NULL;
    if (!logits || choose(s, logits, token)) {
        chosen(s, token);
    }
}

void Engine::chosen(Slot & s, llama_token token) {
    Request & r = *s.request;
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

void Engine::emit(Slot & s, llama_token token) {
    Request & r = *s.request;
    s.next = token;
    if (llama_vocab_is_eog(vocab(), token)) {
        release(s, SLC_LLM_FINISH_STOP);
        return;
    }
    r.result.completion_tokens++;
    const char * shown = r.asked.shown;
    const bool show = shown && llama_vocab_is_control(vocab(), token) &&
                      strstr(shown, llama_vocab_get_text(vocab(), token));
    std::string ready;
    const bool stopped = r.text.push(token_text(vocab(), token, show), ready);
    r.push(ready);
    if (stopped) {
        release(s, SLC_LLM_FINISH_STOP);
    } else if (r.result.completion_tokens >= r.max_tokens) {
        release(s, SLC_LLM_FINISH_LENGTH);
    } else if ((int) s.kv.size() + 1 >= load_.context) { // + 1: the token just made
        release(s, SLC_LLM_FINISH_CONTEXT);
    }
}

} // namespace slc
