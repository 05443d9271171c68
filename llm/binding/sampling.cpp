#include "sampling.h"

#include "text.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace slc {
namespace {

constexpr int kPenaltyTokens = 64;    // over which penalties look back
constexpr size_t kMaxSelected = 1024; // beyond it, selecting costs as much as taking all

bool before(const llama_token_data & a, const llama_token_data & b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// The largest of n values, ignoring NaN; -inf without any other.
float maximum(const float * values, int n) {
    float top = -std::numeric_limits<float>::infinity();
    int i = 0;
#if defined(__SSE__)
    // max_ps gives its second operand where the first is NaN.
    __m128 best[4];
    std::fill(best, best + 4, _mm_set1_ps(top));
    for (; i + 16 <= n; i += 16) {
        for (int lane = 0; lane < 4; lane++) {
            best[lane] = _mm_max_ps(_mm_loadu_ps(values + i + 4 * lane), best[lane]);
        }
    }
    float lanes[4];
    _mm_storeu_ps(lanes, _mm_max_ps(_mm_max_ps(best[0], best[1]), _mm_max_ps(best[2], best[3])));
    top = *std::max_element(lanes, lanes + 4);
#endif
    for (; i < n; i++) {
        top = values[i] > top ? values[i] : top;
    }
    return top;
}

} // namespace

std::string token_text(const llama_vocab * vocab, llama_token token, bool show_control) {
    std::string text(256, '\0');
    int n = llama_token_to_piece(vocab, token, &text[0], (int32_t) text.size(), 0, show_control);
    if (n < 0) {
        text.resize((size_t) -n);
        n = llama_token_to_piece(vocab, token, &text[0], (int32_t) text.size(), 0, show_control);
    }
    text.resize((size_t) std::max(0, n));
    return text;
}

int argmax(const float * values, int n) {
    constexpr int kBlock = 1024; // so that only one is searched a second time
    float top = -std::numeric_limits<float>::infinity();
    int block = 0;
    for (int i = 0; i < n; i += kBlock) {
        const float m = maximum(values + i, std::min(kBlock, n - i));
        if (m > top) {
            top = m;
            block = i;
        }
    }
    const float * end = values + std::min(n, block + kBlock);
    const float * at = std::find(values + block, end, top);
    return at == end ? 0 : (int) (at - values);
}

bool has_nan(const float * values, int n) {
    int i = 0;
#if defined(__SSE__)
    __m128 unordered = _mm_setzero_ps();
    for (; i + 16 <= n; i += 16) {
        const __m128 a = _mm_cmpunord_ps(_mm_loadu_ps(values + i), _mm_loadu_ps(values + i + 4));
        const __m128 b = _mm_cmpunord_ps(_mm_loadu_ps(values + i + 8), _mm_loadu_ps(values + i + 12));
        unordered = _mm_or_ps(unordered, _mm_or_ps(a, b));
    }
    if (_mm_movemask_ps(unordered) != 0) {
        return true;
    }
#endif
    return std::any_of(values + i, values + n, [](float v) { return v != v; });
}

void top_k_logits(const float * logits, int n, size_t k, std::vector<llama_token_data> & out) {
    const size_t room = 2 * k + 64;
    out.clear();
    float floor = -std::numeric_limits<float>::infinity();
    for (int i = 0; i < n; i++) {
        if (!(logits[i] > floor)) {
            continue; // ids rise, so an equal logit loses its tie
        }
        out.push_back({i, logits[i], 0.f});
        if (out.size() == room) {
            std::nth_element(out.begin(), out.begin() + (k - 1), out.end(), before);
            out.resize(k);
            floor = out[k - 1].logit;
        }
    }
    if (out.size() > k) {
        std::nth_element(out.begin(), out.begin() + (k - 1), out.end(), before);
        out.resize(k);
    }
}

Sampler::Sampler(const llama_vocab * vocab, const slc_llm_request & p, const std::vector<llama_token> & prompt,
                 int n_ctx, const std::atomic<bool> * cancelled)
    : vocab_(vocab), n_vocab_(llama_vocab_n_tokens(vocab)), no_repeat_(p.no_repeat), alternatives_(p.alternatives) {
    auto cp = llama_sampler_chain_default_params();
    cp.no_perf = true;
    chain_.reset(llama_sampler_chain_init(cp));
    if (p.grammar) {
        const GrammarWork work(cancelled, steps_);
        grammar_.reset(llama_sampler_init_grammar(vocab, p.grammar, "root"));
        if (!grammar_) {
            throw std::invalid_argument("the grammar does not parse, or has no rule \"root\"");
        }
    }
    const int last_n = std::min(kPenaltyTokens, n_ctx);
    const bool repeats = p.repeat_penalty > 0 && p.repeat_penalty != 1;
    const bool penalised = repeats || p.frequency_penalty != 0 || p.presence_penalty != 0;
    const bool only_lowered =
        (!repeats || p.repeat_penalty > 1) && p.frequency_penalty >= 0 && p.presence_penalty >= 0;
    const bool greedy = p.temperature <= 0;
    if (penalised) {
        add_penalties(p, prompt, last_n);
    }
    add_selection(p);

    plain_greedy_ = greedy && !penalised;
    const int k = greedy ? 1 : p.top_k;
    if (k > 0 && (!penalised || only_lowered)) {
        // Penalties lower at most last_n tokens, so the k best afterwards are among the k + last_n best before.
        const size_t needed = (size_t) k + (penalised ? (size_t) last_n : 0);
        needed_ = needed <= kMaxSelected && needed < (size_t) n_vocab_ ? needed : 0;
    }
}

void Sampler::add_penalties(const slc_llm_request & p, const std::vector<llama_token> & prompt, int last_n) {
    auto * s = llama_sampler_init_penalties(n_vocab_, last_n, p.repeat_penalty > 0 ? p.repeat_penalty : 1,
                                            p.frequency_penalty, p.presence_penalty);
    for (size_t i = prompt.size() - std::min(prompt.size(), (size_t) last_n); i < prompt.size(); i++) {
        llama_sampler_accept(s, prompt[i]);
    }
    add(s);
}

void Sampler::add_selection(const slc_llm_request & p) {
    if (p.temperature <= 0) {
        add(llama_sampler_init_greedy());
        return;
    }
    add(llama_sampler_init_top_k(p.top_k)); // llama.cpp's own default order from here
    if (p.top_p > 0 && p.top_p < 1) {
        add(llama_sampler_init_top_p(p.top_p, 1));
    }
    if (p.min_p > 0) {
        add(llama_sampler_init_min_p(p.min_p, 1));
    }
    add(llama_sampler_init_temp(p.temperature));
    add(llama_sampler_init_dist(p.seed));
}

void Sampler::take_all(const float * logits) {
    candidates_.resize((size_t) n_vocab_);
    for (int i = 0; i < n_vocab_; i++) {
        candidates_[(size_t) i] = {i, logits[i], 0.f};
    }
}

// Each pick advances the chain's random numbers, so a repeated call uses the picks of the first one.
llama_token Sampler::pick(llama_token_data_array & a) {
    if (picked_ == picks_.size()) {
        llama_sampler_apply(chain_.get(), &a);
        const bool ok = a.selected >= 0 && (size_t) a.selected < a.size && std::isfinite(a.data[a.selected].logit);
        picks_.push_back(ok ? a.data[a.selected].id : LLAMA_TOKEN_NULL);
    }
    return picks_[picked_++];
}

llama_token Sampler::sample(const float * logits, std::vector<slc_llm_prob> & probs,
                            const std::atomic<bool> * cancelled, uint64_t budget) {
    if (has_nan(logits, n_vocab_)) {
        throw std::runtime_error("the model gave a logit that is not a number: its weights are damaged");
    }
    const GrammarWork work(cancelled, steps_, budget);
    picked_ = 0;
    const int top = argmax(logits, n_vocab_);
    const float * allowed = without_repeats(logits);
    llama_token id = choose(allowed, allowed == logits ? top : argmax(allowed, n_vocab_));
    if (id == LLAMA_TOKEN_NULL && allowed != logits) {
        id = choose(logits, top); // the grammar asks for a repetition, or everything would be one
    }
    if (id == LLAMA_TOKEN_NULL) {
        return id;
    }
    if (grammar_) {
        llama_sampler_accept(grammar_.get(), id); // nothing throws after this
        std::string rest;
        if (keeps_utf8(id, rest)) {
            rune_ = rest;
        }
    }
    picks_.clear();
    if (!plain_greedy_) {
        llama_sampler_accept(chain_.get(), id);
    }
    if (no_repeat_ > 0) {
        completion_.push_back(id);
    }
    if (alternatives_ >= 0 && !llama_vocab_is_eog(vocab_, id)) {
        add_log_probs(logits, id, probs);
    }
    return id;
}

llama_token Sampler::choose(const float * logits, int top) {
    llama_token id;
    if (!std::isfinite(logits[top])) {
        return LLAMA_TOKEN_NULL; // the samplers would assert
    }
    if (plain_greedy_) {
        id = top;
    } else {
        if (needed_) {
            top_k_logits(logits, n_vocab_, needed_, candidates_);
        } else {
            take_all(logits);
        }
        llama_token_data_array a{candidates_.data(), candidates_.size(), -1, false};
        id = pick(a);
    }
    if (grammar_ && id != LLAMA_TOKEN_NULL) {
        // Checking one token is cheap, checking the vocabulary is not: only a refused token pays for it.
        llama_token_data one{id, 1.f, 0.f};
        llama_token_data_array a{&one, 1, -1, false};
        llama_sampler_apply(grammar_.get(), &a);
        std::string rest;
        if (std::isinf(one.logit) || !keeps_utf8(id, rest)) {
            id = resample(logits);
        }
    }
    return id;
}

// without_repeats forbids what would complete a sequence that the completion has already; ends of generation never.
const float * Sampler::without_repeats(const float * logits) {
    const size_t n = (size_t) std::max(no_repeat_, 0), length = completion_.size();
    if (n == 0 || length < n) {
        return logits;
    }
    const llama_token * at = completion_.data();
    bool any = false;
    for (size_t i = 0; i + n <= length; i++) {
        const llama_token next = at[i + n - 1];
        if (!std::equal(at + i, at + i + n - 1, at + length - (n - 1)) || llama_vocab_is_eog(vocab_, next)) {
            continue;
        }
        if (!any) {
            masked_.assign(logits, logits + n_vocab_);
            any = true;
        }
        masked_[(size_t) next] = -std::numeric_limits<float>::infinity();
    }
    return any ? masked_.data() : logits;
}

void Sampler::add_log_probs(const float * logits, llama_token id, std::vector<slc_llm_prob> & probs) {
    const float top = logits[argmax(logits, n_vocab_)];
    double sum = 0;
    for (int i = 0; i < n_vocab_; i++) {
        sum += std::exp(logits[i] - top);
    }
    const float base = top + (float) std::log(sum);
    probs.push_back({id, logits[id] - base});
    if (alternatives_ == 0) {
        return;
    }
    const size_t k = std::min((size_t) alternatives_, (size_t) n_vocab_ - 1);
    top_k_logits(logits, n_vocab_, k, candidates_);
    std::sort(candidates_.begin(), candidates_.end(), before);
    for (const auto & c : candidates_) {
        probs.push_back({c.id, c.logit - base});
    }
    for (size_t i = candidates_.size(); i < (size_t) alternatives_; i++) {
        probs.push_back({LLAMA_TOKEN_NULL, -std::numeric_limits<float>::infinity()}); // a tiny vocabulary
    }
}

// llama.cpp's grammar accepts invalid UTF-8 as a character, where the text would show U+FFFD.
bool Sampler::keeps_utf8(llama_token id, std::string & rest) const {
    if (llama_vocab_is_eog(vocab_, id)) {
        return rune_.empty();
    }
    return is_utf8(rune_ + token_text(vocab_, id, false), rest);
}

// best_allowed is the largest of the `among` largest logits that the grammar allows.
llama_token Sampler::best_allowed(const float * logits, size_t among) {
    top_k_logits(logits, n_vocab_, among, candidates_);
    std::sort(candidates_.begin(), candidates_.end(), before);
    llama_token_data_array a{candidates_.data(), candidates_.size(), -1, true};
    llama_sampler_apply(grammar_.get(), &a);
    std::string rest;
    for (const llama_token_data & t : candidates_) {
        if (std::isfinite(t.logit) && keeps_utf8(t.id, rest)) {
            return t.id;
        }
    }
    return LLAMA_TOKEN_NULL;
}

llama_token Sampler::resample(const float * logits) {
    if (plain_greedy_) { // mostly one of the first
        for (const size_t among : {size_t(32), kMaxSelected}) {
            const llama_token id = among < (size_t) n_vocab_ ? best_allowed(logits, among) : LLAMA_TOKEN_NULL;
            if (id != LLAMA_TOKEN_NULL) {
                return id;
            }
        }
    }
    take_all(logits);
    llama_token_data_array a{candidates_.data(), candidates_.size(), -1, false};
    llama_sampler_apply(grammar_.get(), &a);
    // Only what the grammar allows goes on: a softmax over nothing but -inf would assert.
    std::string rest;
    auto * end = std::remove_if(a.data, a.data + a.size, [&](const llama_token_data & t) {
        return std::isinf(t.logit) || !keeps_utf8(t.id, rest);
    });
    a.size = (size_t) (end - a.data);
    return a.size ? pick(a) : LLAMA_TOKEN_NULL;
}

} // namespace slc
