// Slots and pins of an Engine: what their sequences hold of the KV cache, and which prefixes requests share.
#include "engine.h"

#include <algorithm>
#include <utility>

namespace slc {

Engine::Slot * Engine::free_slot() {
    for (Slot & s : slots_) {
        if (!s.request) {
            return &s;
        }
    }
    return nullptr;
}

// Tokens at the beginning of a request's prompt whose KV could be taken from a sequence; busy: a request is extending
// it. Sequences of another scope give 0: the number can be counted and timed, and would tell how the other scope's text
// begins.
size_t Engine::reusable(const Sequence & from, bool busy, const Request & request) const {
    if (from.scope != request.asked.scope) {
        return 0;
    }
    const auto & prompt = request.prompt;
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
Engine::Slot & Engine::choose_slot(const Sequence * source, size_t prefix) {
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
    to.kv.reserve(length); // what may fail comes first
    llama_memory_seq_rm(memory, to.id, -1, -1);
    if (length > 0) {
        llama_memory_seq_cp(memory, from.id, to.id, whole_only_ ? -1 : 0, whole_only_ ? -1 : (llama_pos) length);
    }
    to.kv.assign(from.kv.begin(), from.kv.begin() + (std::ptrdiff_t) length);
    to.scope = from.scope;
}

// The sequence with the longest prefix of a request's prompt, if it is longer than prefix, which becomes its length.
// Pins come first: they can always be copied.
const Engine::Sequence * Engine::longest_prefix(const Slot * except, const Request & request, size_t & prefix) const {
    const Sequence * source = nullptr;
    const auto consider = [&](const Sequence & s, bool busy) {
        const size_t n = reusable(s, busy, request);
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
    const Sequence * source = longest_prefix(nullptr, *r, prefix);
    Slot & slot = choose_slot(source, prefix);
    slot.kv.reserve((size_t) cells_needed(*r)); // decoding must not run out of memory for it
    const bool pinned = std::any_of(pins_, pins_ + kPins, [&](const Pin & p) { return &p == source; });
    if (source && source != &slot && (!whole_only_ || pinned)) {
        copy(*source, slot, prefix);
    }
    slot.read = adopt_prefix(slot, *r);
    slot.scope = r->asked.scope;
    slot.request = r;
    slot.next = LLAMA_TOKEN_NULL;
    reserved_ += cells_needed(*r);
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
size_t Engine::adopt_prefix(Slot & slot, const Request & request) {
    roll_back(slot, std::min(reusable(slot, false, request), request.prompt.size() - 1));
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

// Requests that arrive together mostly begin alike. A slot takes over what another one has read meanwhile, and waits
// while another one is about to read what it needs as well.
void Engine::share_prefixes() {
    for (Slot & s : slots_) {
        s.waits = false;
        if (whole_only_ || !s.request || s.next != LLAMA_TOKEN_NULL) {
            continue;
        }
        const size_t max_prefix = s.request->prompt.size() - 1; // the last token is decoded in any case
        size_t prefix = s.read;
        const Sequence * source = s.read < max_prefix ? longest_prefix(&s, *s.request, prefix) : nullptr;
        if (source && std::min(prefix, max_prefix) > s.read) {
            prefix = std::min(prefix, max_prefix);
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
        if (&other == &s || !other.request || other.request->asked.scope != s.request->asked.scope ||
            other.next != LLAMA_TOKEN_NULL || other.read < s.read || (other.read == s.read && other.id > s.id)) {
            return false;
        }
        const auto & theirs = other.request->prompt;
        const size_t end = std::min(theirs.size(), prompt.size() - 1);
        return other.read < end && s.read < end && // both have this far in common, so only the rest is to be compared
               std::equal(prompt.begin(), prompt.begin() + (std::ptrdiff_t) s.read + 1, theirs.begin());
    });
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

// Forgets idle slots' histories, the oldest first, until the cells suffice for what the slots hold.
void Engine::make_room() {
    while (used() > (size_t) load_.cells) {
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

void Engine::release_pins() {
    std::lock_guard<std::mutex> lock(mutex_);
    for (Pin & p : pins_) {
        if (p.number != 0 && std::count(unpinned_.begin(), unpinned_.end(), p.number)) {
            reserved_ -= (int64_t) p.kv.size();
            llama_memory_seq_rm(llama_get_memory(ctx_), p.id, -1, -1);
            p.kv.clear();
            p.number = 0;
        }
    }
    unpinned_.clear();
}

// Copies what the slot has read to a pin. Returns why it cannot.
std::string Engine::keep_pin(const Slot & slot, Request & r) {
    Pin * p = std::find_if(pins_, pins_ + kPins, [](const Pin & p) { return p.number == 0; });
    if (p == pins_ + kPins) {
        return std::to_string(kPins) + " prompts are pinned already";
    }
    int64_t pinned = (int64_t) slot.kv.size();
    for (const Pin & other : pins_) {
        pinned += (int64_t) other.kv.size();
    }
    if (pinned + load_.context > load_.cells) {
        return "with " + std::to_string(pinned) + " tokens pinned, a request of the whole context of " +
               std::to_string(load_.context) + " tokens would never fit the cache of " +
               std::to_string(load_.cells);
    }
    copy(slot, *p, slot.kv.size());
    p->number = r.result.pin = ++last_pin_;
    reserved_ += (int64_t) p->kv.size();
    return "";
}

} // namespace slc
