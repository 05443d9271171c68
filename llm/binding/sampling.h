// From logits to a token: llama.cpp's samplers, fed with as few candidates as the settings allow.
#pragma once

#include "grammar_guard.h"

#include "llama.h"

#include "../slc_llm.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace slc {

class Sampler {
public:
    // Throws std::invalid_argument for a grammar that does not parse, and what a GrammarWork throws. The penalties see
    // the prompt's last tokens, as in llama-server. cancelled is looked at while the grammar's beginning is computed.
    Sampler(const llama_vocab * vocab, const slc_llm_request & asked, const std::vector<llama_token> & prompt,
            int n_ctx, const std::atomic<bool> * cancelled);

    // Picks a token and remembers it. Returns LLAMA_TOKEN_NULL when no token has a finite logit (broken weights) or the
    // grammar allows none. Log-probabilities, where asked for, are appended to probs. Throws std::runtime_error when a
    // logit is not a number, and what a GrammarWork with this flag and budget throws: after a GrammarBudget, a call
    // with the same logits gives the same token.
    llama_token sample(const float * logits, std::vector<slc_llm_prob> & probs, const std::atomic<bool> * cancelled,
                       uint64_t budget = kGrammarSteps);
    bool has_grammar() const { return grammar_ != nullptr; }
    uint64_t grammar_steps() const { return steps_; } // of the last call

private:
    struct Free {
        void operator()(llama_sampler * s) const { llama_sampler_free(s); }
    };
    using Owned = std::unique_ptr<llama_sampler, Free>;

    void add(llama_sampler * s) { llama_sampler_chain_add(chain_.get(), s); }
    void add_penalties(const slc_llm_request & p, const std::vector<llama_token> & prompt, int last_n);
    void add_selection(const slc_llm_request & p);
    llama_token choose(const float * logits, int top);
    const float * without_repeats(const float * logits);
    void add_log_probs(const float * logits, llama_token id, std::vector<slc_llm_prob> & probs);
    bool keeps_utf8(llama_token id, std::string & rest) const;
    llama_token pick(llama_token_data_array & candidates);
    llama_token resample(const float * logits);
    llama_token best_allowed(const float * logits, size_t among);
    void take_all(const float * logits);

    const llama_vocab * vocab_;
    int n_vocab_;
    Owned chain_, grammar_;
    uint64_t steps_ = 0;
    std::vector<llama_token> picks_; // of this call and of earlier calls for the same token
    size_t picked_ = 0;              // how many of them this call has used
    std::string rune_; // with a grammar: the unfinished rune at the end of the text
    bool plain_greedy_ = false; // the largest logit wins: no candidates needed
    size_t needed_ = 0;         // how many of the largest logits decide; 0: all
    std::vector<llama_token_data> candidates_;
    int no_repeat_, alternatives_;
    std::vector<llama_token> completion_; // only with no_repeat_
    std::vector<float> masked_;
};

// The bytes that a token adds to a text. A control token adds some only where it is to be shown.
std::string token_text(const llama_vocab * vocab, llama_token token, bool show_control);
// Index of the largest of n > 0 values; the first among equals. NaN never wins against a number.
int argmax(const float * values, int n);
bool has_nan(const float * values, int n);
// The k largest logits (k < n), in no order, ties to the lower id.
void top_k_logits(const float * logits, int n, size_t k, std::vector<llama_token_data> & out);

} // namespace slc
