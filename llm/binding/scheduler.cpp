// The scheduler thread of an Engine: admission, slots and prefixes, batches, sampling.
#include "engine.h"

#include "ggml-cpu.h"

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

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
    answered_.notify_all();
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
            answered_.notify_all();
        } else {
            tasks_.push_back(t);
        }
    }
}

// KV cells a request may come to need.
int32_t Engine::need(const Request & r) const {
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
            if (queue_.empty() || !free_slot() || reserved_ + need(*queue_.front()) > options_.load.cells) {
                stats_.queued = (int32_t) queue_.size();
                return;
            }
            r = queue_.front();
            queue_.pop_front();
        }
        assign(r);
    }
}

Engine::Slot * Engine::free_slot() {
    for (Slot & s : slots_) {
        if (!s.request) {
            return &s;
        }
    }
    return nullptr;
}

// Tokens at the beginning of prompt whose KV could be taken from a sequence; busy: a request is extending it.
size_t Engine::reusable(const Sequence & from, bool busy, const std::vector<llama_token> & prompt) const {
    const size_t n = std::min(from.kv.size(), prompt.size());
    const auto end = std::mismatch(from.kv.begin(), from.kv.begin() + (std::ptrdiff_t) n, prompt.begin()).first;
    const size_t same = (size_t) (end - from.kv.begin());
    if (whole_only_) {
        return !busy && same == from.kv.size() && same < prompt.size() ? same : 0;
    }
    return same;
}

// A free slot for a request whose best prefix lies in source. The source itself, when little of its own would be lost;
// otherwise the one with the least to lose, so that long histories survive short questions.
Engine::Slot & Engine::choose(const Sequence * source, size_t prefix) {
    Slot * best = nullptr;
    for (Slot & s : slots_) {
        if (s.request) {
            continue;
        }
        if (&s == source && (whole_only_ || 2 * prefix >= s.kv.size())) {
            return s;
        }
        const auto loss = [](const Slot & t) { return std::make_pair(!t.kv.empty(), t.last_use); };
        if (!best || loss(s) < loss(*best)) {
            best = &s;
        }
    }
    return *best;
}

// Makes `to` the first `length` tokens of `from`; a recurrent state only goes whole.
void Engine::copy(const Sequence & from, Sequence & to, size_t length) {
    auto * memory = llama_get_memory(ctx_);
    llama_memory_seq_rm(memory, to.id, -1, -1);
    if (length > 0) {
        llama_memory_seq_cp(memory, from.id, to.id, whole_only_ ? -1 : 0, whole_only_ ? -1 : (llama_pos) length);
    }
    to.kv.assign(from.kv.begin(), from.kv.begin() + (std::ptrdiff_t) length);
}

// The sequence with the longest prefix of a prompt, if it is longer than prefix, which becomes its length. Pins come first: they
// can always be copied.
const Engine::Sequence * Engine::longest(const Slot * except, const std::vector<llama_token> & prompt, size_t & prefix) const {
    const Sequence * source = nullptr;
    const auto consider = [&](const Sequence & s, bool busy) {
        const size_t n = reusable(s, busy, prompt);
        if (n > prefix) {
            source = &s;
            prefix = n;
        }
    };
    for (const Pin & p : pins_) {
        consider(p, false);
    }
    for (const Slot & s : slots_) {
        if (&s != except) {
            consider(s, s.request);
        }
    }
    return source;
}

void Engine::assign(Request * r) {
    size_t prefix = 0;
    const Sequence * source = longest(nullptr, r->prompt, prefix);
    Slot & slot = choose(source, prefix);
    const bool pinned = std::any_of(pins_, pins_ + kPins, [&](const Pin & p) { return &p == source; });
    if (source && source != &slot && (!whole_only_ || pinned)) {
        copy(*source, slot, prefix);
    }
    slot.read = adopt_prefix(slot, r->prompt);
    slot.request = r;
    slot.next = LLAMA_TOKEN_NULL;
    reserved_ += need(*r);
    r->started = llama_time_us();
    r->result.queue_us = r->started - r->submitted;
    r->result.cached_tokens = (int32_t) slot.read;
    std::lock_guard<std::mutex> lock(mutex_);
    stats_.reused += (int64_t) slot.read;
    stats_.prompt += (int64_t) r->prompt.size();
    stats_.active++;
}

// Cuts the slot's KV to what it has in common with the prompt and returns the length. At least one token of the prompt
// stays to be decoded: its logits are needed.
size_t Engine::adopt_prefix(Slot & slot, const std::vector<llama_token> & prompt) {
    roll_back(slot, std::min(reusable(slot, false, prompt), prompt.size() - 1));
    // Of a recurrent state only the last position is known.
    if (!whole_only_ && !slot.kv.empty() && llama_memory_seq_pos_min(llama_get_memory(ctx_), slot.id) > 0) {
        roll_back(slot, 0); // a sliding window has dropped the beginning
    }
    return slot.kv.size();
}

void Engine::roll_back(Slot & slot, size_t length) {
    if (length == slot.kv.size()) {
        return;
    }
    auto * memory = llama_get_memory(ctx_);
    if (length == 0 || !llama_memory_seq_rm(memory, slot.id, (llama_pos) length, -1)) {
        llama_memory_seq_rm(memory, slot.id, -1, -1);
        length = 0;
    }
    slot.kv.resize(length);
}

void Engine::release(Slot & slot, slc_llm_finish finish, slc_llm_code code, const std::string & error) {
    Request * r = slot.request;
    slot.request = nullptr;
    slot.last_use = llama_time_us();
    reserved_ -= need(*r);
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

// Requests that arrive together mostly begin alike. A slot takes over what another one has read meanwhile, and waits while
// another one is about to read what it needs as well.
void Engine::share_prefixes() {
    for (Slot & s : slots_) {
        s.waits = false;
        if (whole_only_ || !s.request || s.next != LLAMA_TOKEN_NULL) {
            continue;
        }
        const size_t most = s.request->prompt.size() - 1; // the last token is decoded in any case
        size_t prefix = s.read;
        const Sequence * source = s.read < most ? longest(&s, s.request->prompt, prefix) : nullptr;
        if (source && std::min(prefix, most) > s.read) {
            prefix = std::min(prefix, most);
            copy(*source, s, prefix);
            s.request->result.cached_tokens += (int32_t) (prefix - s.read);
            std::lock_guard<std::mutex> lock(mutex_);
            stats_.reused += (int64_t) (prefix - s.read);
            s.read = prefix;
        }
        s.waits = is_read_ahead(s);
    }
}

// Whether a slot that is further, or as far and before this one, still reads tokens that this one needs too.
bool Engine::is_read_ahead(const Slot & s) const {
    const auto & prompt = s.request->prompt;
    return std::any_of(slots_.begin(), slots_.end(), [&](const Slot & other) {
        if (&other == &s || !other.request || other.next != LLAMA_TOKEN_NULL || other.read < s.read ||
            (other.read == s.read && other.id > s.id)) {
            return false;
        }
        const auto & theirs = other.request->prompt;
        const size_t end = std::min(theirs.size(), prompt.size() - 1);
        return other.read < end && s.read < end && // both have this far in common, so only the rest is to be compared
               std::equal(prompt.begin(), prompt.begin() + (std::ptrdiff_t) s.read + 1, theirs.begin());
    });
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

// Half of the room is the oldest prompt's, so that none waits for ever, and the rest is for those with the least left to
// read, so that none waits for longer ones. Few large pieces: attention is quicker for many rows of one text than for a few of
// many, and the first answers come sooner.
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

// Shared prefixes are counted once per slot: too much, never too little.
size_t Engine::used() const {
    size_t n = 0;
    for (const Slot & s : slots_) {
        n += s.kv.size();
    }
    for (const Pin & p : pins_) {
        n += p.kv.size();
    }
    return n;
}

// Forgets idle slots' histories, the oldest first, until the cells suffice for what the slots hold and `more`.
void Engine::make_room(size_t more) {
    while (used() + more > (size_t) options_.load.cells) {
        Slot * oldest = nullptr;
        for (Slot & s : slots_) {
            if (!s.request && !s.kv.empty() && (!oldest || s.last_use < oldest->last_use)) {
                oldest = &s;
            }
        }
        if (!oldest) {
            return;
        }
        roll_back(*oldest, 0);
        std::lock_guard<std::mutex> lock(mutex_);
        stats_.evicted++;
    }
}

// Copies what the slot has read to a pin. Returns why it cannot.
std::string Engine::keep_pin(const Slot & slot, Request & r) {
    Pin * p = std::find_if(pins_, pins_ + kPins, [](const Pin & p) { return p.number < 0; });
    if (p == pins_ + kPins) {
        return std::to_string(kPins) + " prompts are pinned already";
    }
    int64_t pinned = (int64_t) slot.kv.size();
    for (const Pin & other : pins_) {
        pinned += (int64_t) other.kv.size();
    }
    if (pinned + options_.load.context > options_.load.cells) {
        return "with " + std::to_string(pinned) + " tokens pinned, a request of the whole context of " +
               std::to_string(options_.load.context) + " tokens would never fit the cache of " + std::to_string(options_.load.cells);
    }
    copy(slot, *p, slot.kv.size());
    p->number = r.pinned = ++last_pin_;
    reserved_ += (int64_t) p->kv.size();
    return "";
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
