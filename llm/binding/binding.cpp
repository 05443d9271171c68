// Upstream's binding.h over a current llama.cpp. Sluice calls New, Eval, SetTokenCallback and Free of upstream's
// package: load_model, eval and llama_binding_free_model are their C side, and what a load or a request says is in the
// structures of slc_llm.h. The functions from llama_predict on exist only so that upstream's package links: they do
// nothing and report failure.
//
// Upstream's Go code makes every C string with C.CString and frees only the path and the LoRA names of load_model, so
// the functions below free the others.
#include "grammar_guard.h"
#include "handle.h"

#include "binding.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <stdexcept>
#include <utility>

namespace {

using slc::Handle;

void free_all(std::initializer_list<const char *> texts) {
    for (const char * text : texts) {
        free(const_cast<char *>(text));
    }
}

void fail(slc_llm_result & result, slc_llm_code code, const std::string & why) {
    result.code = code;
    slc::copy_text(why.c_str(), result.error, sizeof result.error);
}

// Everything of a request up to its submission. Throws std::invalid_argument for a grammar that does not parse.
bool build(Handle & h, slc::Request & r) {
    const slc_llm_request & asked = r.asked;
    const slc::Engine & engine = *h.engine;
    r.prompt = engine.tokenize(asked.text, (size_t) asked.text_len, asked.marked);
    const int limit = engine.context() - 1, n = (int) r.prompt.size();
    if (asked.pin && (n == 0 || n > limit)) {
        fail(r.result, SLC_LLM_BAD_OPTION, "a text of " + std::to_string(n) + " tokens cannot be pinned: 1 to " +
                                               std::to_string(limit));
        return false;
    }
    if (r.prompt.empty()) {
        const llama_token bos = llama_vocab_bos(engine.vocab());
        const llama_token first = bos != LLAMA_TOKEN_NULL ? bos : llama_vocab_eos(engine.vocab());
        if (first == LLAMA_TOKEN_NULL) {
            fail(r.result, SLC_LLM_BAD_OPTION, "the prompt is empty and the model has no token to begin with");
            return false;
        }
        r.prompt.push_back(first);
    }
    r.result.prompt_tokens = (int32_t) r.prompt.size();
    r.result.context = engine.context();
    if (n > limit) {
        fail(r.result, SLC_LLM_PROMPT_TOO_LONG, "the prompt does not fit the context");
        return false;
    }
    if (!asked.pin) {
        r.max_tokens = asked.max_tokens > 0 ? std::min(asked.max_tokens, engine.context()) : engine.context();
        r.text = slc::TextFilter({asked.stops, asked.stops + asked.n_stops});
        r.sampler.reset(new slc::Sampler(engine.vocab(), asked, r.prompt, engine.context(), r.cancelled));
    }
    return true;
}

// Runs a request. Text goes to upstream's callback on this thread, so that whatever the callback costs delays nobody
// else's tokens.
void run(Handle & h, slc_llm_request & asked) {
    slc::Request r(asked, h.cancelled);
    if (!build(h, r)) {
        return;
    }
    h.engine->submit(&r);
    for (std::string piece; r.wait(piece);) {
        if (!h.cancelled && !tokenCallback(&h, const_cast<char *>(slc::escape_nul(piece).c_str()))) {
            slc_llm_cancel(&h);
        }
    }
    h.probs = std::move(r.probs);
}

void check(const slc_llm_load & l) {
    // Beyond these llama.cpp asserts, which would end the process.
    if (l.context < 2 || l.cells < l.context || l.slots < 1 || (size_t) l.slots > llama_max_parallel_sequences() ||
        l.batch < l.slots || l.batch > l.cells || l.threads < 1 || l.threads > GGML_MAX_N_THREADS) {
        throw std::runtime_error("context " + std::to_string(l.context) + ", cells " + std::to_string(l.cells) +
                                 ", slots " + std::to_string(l.slots) + ", batch " + std::to_string(l.batch) +
                                 ", threads " + std::to_string(l.threads) + " do not go together");
    }
}

} // namespace

extern "C" {

void * load_model(const char * address, int, int, bool, bool, bool, bool, bool, int, int, const char * maingpu,
                  const char * tensorsplit, bool, float, float, bool, const char *, const char *, bool) {
    free_all({maingpu, tensorsplit});
    auto * load = reinterpret_cast<slc_llm_load *>((uintptr_t) strtoull(address, nullptr, 0));
    if (!load) {
        return nullptr; // a path, and no address
    }
    slc::LogSink log;
    try {
        check(*load);
        std::unique_ptr<Handle> h(new Handle);
        h->engine = slc::open_engine(*load, log);
        log.move_to(h->engine->log());
        load->handle = h.get();
        return h.release();
    } catch (const std::exception & e) {
        slc::copy_text(e.what(), load->error, sizeof load->error);
        return nullptr;
    }
}

void llama_binding_free_model(void * state) {
    delete static_cast<Handle *>(state);
}

// Upstream's parameters of a request, none of which is used.
void * llama_allocate_params(const char * prompt, int, int, int, int, float, float, float, int, bool, bool, int, int,
                             const char ** stops, int n, float, float, float, float, int, float, float, bool,
                             const char * logit_bias, const char * session, bool, bool, bool, const char * maingpu,
                             const char * tensorsplit, bool, const char * grammar, float, float, float,
                             const char * negative_prompt, int) {
    free_all({prompt, logit_bias, session, maingpu, tensorsplit, grammar, negative_prompt});
    for (int i = 0; i < n; i++) {
        free_all({stops[i]});
    }
    return nullptr;
}

void llama_free_params(void *) {}

// Runs the request that the handle was prepared with. The text is upstream's prompt, which is freed already.
int eval(void *, void * state, char *) {
    Handle & h = *static_cast<Handle *>(state);
    slc_llm_request * asked = std::exchange(h.request, nullptr);
    if (!asked) {
        return 1;
    }
    slc_llm_result & result = asked->result;
    h.probs.clear();
    try {
        slc::LogScope scope(&h.engine->log());
        run(h, *asked);
    } catch (const std::invalid_argument & e) {
        fail(result, SLC_LLM_BAD_OPTION, e.what());
    } catch (const slc::GrammarLimit & e) { // before the first token
        result.grammar_steps = (int64_t) e.steps;
        result.grammar_limit = (int64_t) e.limit;
        fail(result, SLC_LLM_GRAMMAR, e.what());
    } catch (const slc::GrammarCancelled &) {
        result.finish = SLC_LLM_FINISH_CANCELLED;
    } catch (const std::exception & e) {
        fail(result, SLC_LLM_DECODE, e.what());
    }
    return result.code != SLC_LLM_OK;
}

int llama_predict(void *, void *, char *, bool) {
    return 1;
}

int llama_tokenize_string(void *, void *, int *) {
    return -1;
}

int get_embeddings(void *, void *, float *) {
    return 1;
}

int get_token_embeddings(void *, void *, int * tokens, int, float *) {
    free(tokens);
    return 1;
}

int speculative_sampling(void *, void *, void *, char *, bool) {
    return 1;
}

int load_state(void *, char *, char *) {
    return 1;
}

void save_state(void *, char *, char *) {}

} // extern "C"
