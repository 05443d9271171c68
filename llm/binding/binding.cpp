// Upstream's binding.h over a current llama.cpp.
//
// Ownership, settled for the pinned version of upstream's Go code: Go makes every C string with C.CString and frees
// only load_model's path and LoRA names. So the functions below free the others: the parameters own the prompt, and
// upstream's Go code frees parameters (llama_free_params) only after a predict or eval that succeeded; after a failure,
// and always in tokenise and embeddings, they are freed here.
#include "grammar_guard.h"
#include "handle.h"

#include "binding.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>

#include <unistd.h>

namespace {

using slc::Handle;

struct Params {
    char * prompt = nullptr;
    int tokens = 0; // what Go allocated for the result: bytes in predict, tokens in tokenise
    bool ignore_eos = false;
    slc::SamplingParams sampling;
    std::vector<std::string> stops;
    std::string session;         // a file that holds a prompt's state from one run to the next
    bool session_all = false;    // with the completion
    bool session_read_only = false;
    std::string unsupported; // the first setting that cannot be honoured
    ~Params() { free(prompt); }
};

std::string take(const char * s) {
    std::string text = s ? s : "";
    free(const_cast<char *>(s));
    return text;
}

size_t prompt_length(const Params & p, const slc_llm_request & extras) {
    return extras.text_len > 0 ? (size_t) extras.text_len : strlen(p.prompt);
}

void fail(Handle & h, slc_llm_code code, const std::string & why) {
    h.last.code = code;
    h.last.error[why.copy(h.last.error, sizeof h.last.error - 1)] = '\0';
}

// Marks the handle as in use; a second user is refused instead of mixing streams.
class Lease {
public:
    explicit Lease(Handle & h) : handle_(h), owned_(!h.busy.exchange(true)) {}
    ~Lease() {
        if (owned_) {
            handle_.busy = false;
        }
    }
    bool owned() const { return owned_; }

private:
    Handle & handle_;
    bool owned_;
};

// Everything of a predict or eval up to its submission. Throws std::invalid_argument for a wrong setting.
bool build(Handle & h, Params & p, const slc_llm_request & extras, int max_tokens, slc::Request & r) {
    if (!p.unsupported.empty()) {
        fail(h, SLC_LLM_UNSUPPORTED, p.unsupported);
        return false;
    }
    slc::Engine & engine = *h.engine;
    r.prompt = engine.tokenize(p.prompt, prompt_length(p, extras), extras.marked);
    if (r.prompt.empty()) {
        const llama_token bos = llama_vocab_bos(engine.vocab());
        const llama_token first = bos != LLAMA_TOKEN_NULL ? bos : llama_vocab_eos(engine.vocab());
        if (first == LLAMA_TOKEN_NULL) {
            fail(h, SLC_LLM_BAD_OPTION, "the prompt is empty and the model has no token to begin with");
            return false;
        }
        r.prompt.push_back(first);
    }
    h.last.prompt_tokens = (int32_t) r.prompt.size();
    h.last.context = engine.context();
    const int room = engine.context() - (int) r.prompt.size();
    if (room < 1) {
        fail(h, SLC_LLM_PROMPT_TOO_LONG, "the prompt does not fit the context");
        return false;
    }
    r.max_tokens = std::min(max_tokens, engine.context());
    r.priority = extras.priority;
    r.scope = extras.scope;
    r.ignore_eos = p.ignore_eos;
    r.cancelled = &h.cancelled;
    r.text = slc::TextFilter(p.stops);
    r.shown = extras.shown ? extras.shown : "";
    r.sampler.reset(new slc::Sampler(engine.vocab(), p.sampling, r.prompt, engine.context(), &h.cancelled));
    r.result = h.last;
    return true;
}

void write_result(const std::string & text, char * result, int size) {
    if (size <= 0) {
        return;
    }
    size_t n = std::min(text.size(), (size_t) size - 1);
    while (n > 0 && n < text.size() && ((unsigned char) text[n] & 0xC0) == 0x80) {
        n--; // not within a rune
    }
    memcpy(result, text.data(), n);
    result[n] = '\0';
}

// Runs a request; h.last has the outcome. Text goes to upstream's callback on this thread: whatever the callback costs
// delays nobody else's tokens.
void run(Handle & h, Params & p, char * result, bool generate) {
    slc_llm_request extras;
    const bool ours = h.take_extras(extras);
    if (!ours) {
        h.cancelled = false;
    }
    p.sampling.seed = ours ? extras.seed : p.sampling.seed;
    p.sampling.min_p = extras.min_p;
    p.sampling.no_repeat = extras.no_repeat;
    p.sampling.alternatives = ours ? extras.alternatives : -1;
    const int limit = !generate ? 0 : !ours ? p.tokens : extras.max_tokens > 0 ? extras.max_tokens : INT32_MAX;
    if (result) {
        write_result("", result, p.tokens);
    }
    slc::Request r;
    if (!build(h, p, extras, limit, r)) {
        return;
    }
    std::vector<llama_token> saved;
    if (!p.session.empty() && access(p.session.c_str(), F_OK) == 0) {
        saved = h.engine->load(p.session, r.scope);
    }
    const std::vector<llama_token> prompt = r.prompt;
    h.engine->submit(&r);
    std::string piece, all;
    while (r.wait(piece)) {
        if (!ours) {
            all += piece;
        }
        if (!h.cancelled && !tokenCallback(&h, const_cast<char *>(slc::escape_nul(piece).c_str()))) {
            slc_llm_cancel(&h);
        }
    }
    h.last = r.result;
    h.history = std::move(r.history);
    h.scope = r.scope;
    h.probs = std::move(r.probs);
    if (!p.session.empty() && !p.session_read_only && h.last.code == SLC_LLM_OK && (p.session_all || saved != prompt)) {
        h.engine->save(p.session, h.history, p.session_all ? h.history.size() : prompt.size(), h.scope);
    }
    if (result && !ours) {
        write_result(all, result, p.tokens);
    }
}

// run with every failure turned into h.last. Returns upstream's status and frees the parameters unless Go will.
int run_guarded(Params * raw, void * state, char * result, bool generate) {
    std::unique_ptr<Params> p(raw);
    Handle & h = *static_cast<Handle *>(state);
    Lease lease(h);
    if (!lease.owned()) {
        return 1; // h.last belongs to the request that runs
    }
    h.last = slc_llm_result{};
    try {
        slc::LogScope scope(&h.engine->log());
        run(h, *p, result, generate);
    } catch (const std::invalid_argument & e) {
        fail(h, SLC_LLM_BAD_OPTION, e.what());
    } catch (const slc::GrammarLimit & e) { // before the first token
        h.last.grammar_steps = (int64_t) e.steps;
        h.last.grammar_limit = (int64_t) e.limit;
        fail(h, SLC_LLM_GRAMMAR, e.what());
    } catch (const slc::GrammarCancelled &) {
        h.last.finish = SLC_LLM_FINISH_CANCELLED;
    } catch (const std::exception & e) {
        fail(h, SLC_LLM_DECODE, e.what());
    }
    if (h.last.code != SLC_LLM_OK) {
        return 1;
    }
    p.release();
    return 0;
}

// Runs work on a handle that nobody else uses, with failures turned into h.last. Returns 0 or 1.
template <typename Work> int guarded(void * state, Work work) {
    Handle & h = *static_cast<Handle *>(state);
    Lease lease(h);
    if (!lease.owned()) {
        return 1;
    }
    h.last = slc_llm_result{};
    try {
        slc::LogScope scope(&h.engine->log());
        work(h);
    } catch (const std::exception & e) {
        fail(h, SLC_LLM_BAD_OPTION, e.what());
    }
    return h.last.code != SLC_LLM_OK;
}

// Writes an embedding to upstream's buffer of `room` floats.
void embed(Handle & h, const std::vector<llama_token> & tokens, float * out, int room) {
    const int width = h.engine->embedding_width();
    if (room < width) {
        throw std::runtime_error("an embedding has " + std::to_string(width) + " floats, there is room for " +
                                 std::to_string(room) + " (SetTokens)");
    }
    const std::vector<float> e = h.engine->embed(tokens);
    std::copy(e.begin(), e.end(), out);
}

std::vector<float> parse_split(const std::string & text) {
    std::vector<float> parts;
    for (const char * at = text.c_str(); *at;) {
        char * end;
        parts.push_back(strtof(at, &end));
        if (end == at || parts.size() > llama_max_devices()) {
            throw std::runtime_error("the tensor split \"" + text + "\" is not a list of at most " +
                                     std::to_string(llama_max_devices()) + " numbers");
        }
        at = end + strspn(end, ",/");
    }
    return parts;
}

int parse_gpu(const std::string & text) {
    char * end;
    const long n = strtol(text.c_str(), &end, 10);
    if (*end || n < 0 || n > INT32_MAX) {
        throw std::runtime_error("the main GPU \"" + text + "\" is not a number");
    }
    return (int) n;
}

void check(const slc_llm_load_options & l) {
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

void * load_model(const char * fname, int n_ctx, int, bool, bool mlock, bool, bool mmap, bool, int n_gpu, int n_batch,
                  const char * maingpu, const char * tensorsplit, bool, float rope_freq_base, float rope_freq_scale,
                  bool, const char * lora, const char *, bool) {
    slc::EngineOptions o;
    slc::LogSink log;
    try {
        const std::string gpu = take(maingpu), split = take(tensorsplit);
        o.load = slc::take_load_options(n_ctx, n_batch);
        check(o.load);
        o.path = fname;
        o.lora = lora ? lora : "";
        o.gpu_layers = n_gpu;
        o.main_gpu = parse_gpu(gpu);
        o.tensor_split = parse_split(split);
        o.mmap = mmap;
        o.mlock = mlock;
        // Upstream's Go defaults. Passed on they would override what Llama 3, Qwen2.5 or Gemma 3 say in their files.
        o.rope_base = rope_freq_base == 10000.f ? 0 : rope_freq_base;
        o.rope_scale = rope_freq_scale == 1.f ? 0 : rope_freq_scale;
        std::unique_ptr<Handle> h(new Handle);
        h->engine = slc::open_engine(o, log);
        std::string line;
        while (const int level = log.take(line)) {
            h->engine->log().add(level, (line + "\n").c_str());
        }
        slc::set_loaded(h.get(), "");
        return h.release();
    } catch (const std::exception & e) {
        slc::set_loaded(nullptr, e.what());
        return nullptr;
    }
}

void llama_binding_free_model(void * state) {
    delete static_cast<Handle *>(state);
}

void * llama_allocate_params(const char * prompt, int seed, int, int tokens, int top_k, float top_p, float temp,
                             float repeat_penalty, int repeat_last_n, bool ignore_eos, bool, int, int,
                             const char ** antiprompt, int antiprompt_count, float tfs_z, float typical_p,
                             float frequency_penalty, float presence_penalty, int mirostat, float mirostat_eta,
                             float mirostat_tau, bool, const char * logit_bias, const char * session_file,
                             bool prompt_cache_all, bool, bool, const char * maingpu, const char * tensorsplit,
                             bool prompt_cache_ro, const char * grammar, float,
                             float, float negative_prompt_scale, const char * negative_prompt, int) {
    auto * p = new Params;
    p->prompt = const_cast<char *>(prompt);
    p->tokens = tokens;
    p->ignore_eos = ignore_eos;
    for (int i = 0; i < antiprompt_count; i++) {
        p->stops.push_back(take(antiprompt[i]));
    }
    slc::SamplingParams & s = p->sampling;
    s.seed = seed < 0 ? LLAMA_DEFAULT_SEED : (uint32_t) seed;
    s.temperature = temp;
    s.top_k = top_k;
    s.top_p = top_p;
    s.typical_p = typical_p;
    s.repeat_penalty = repeat_penalty;
    s.frequency_penalty = frequency_penalty;
    s.presence_penalty = presence_penalty;
    s.penalty_last_n = repeat_last_n;
    s.mirostat = mirostat;
    s.mirostat_tau = mirostat_tau;
    s.mirostat_eta = mirostat_eta;
    s.logit_bias = take(logit_bias);
    s.grammar = take(grammar);
    p->session = take(session_file);
    p->session_all = prompt_cache_all;
    p->session_read_only = prompt_cache_ro;
    take(maingpu);     // the model decides these when it loads
    take(tensorsplit);
    take(negative_prompt);
    if (tfs_z != 1) {
        p->unsupported = "tail-free sampling no longer exists in llama.cpp: leave it at 1";
    } else if (negative_prompt_scale > 1) {
        p->unsupported = "classifier-free guidance (a negative prompt) is not supported";
    }
    return p;
}

void llama_free_params(void * params) {
    delete static_cast<Params *>(params);
}

int llama_predict(void * params, void * state, char * result, bool) {
    return run_guarded(static_cast<Params *>(params), state, result, true);
}

// Reads the text into a slot, so that a later predict finds its prefix there.
int eval(void * params, void * state, char *) {
    return run_guarded(static_cast<Params *>(params), state, nullptr, false);
}

int llama_tokenize_string(void * params, void * state, int * result) {
    std::unique_ptr<Params> p(static_cast<Params *>(params));
    Handle & h = *static_cast<Handle *>(state);
    Lease lease(h);
    if (!lease.owned()) {
        return INT32_MIN;
    }
    try {
        slc_llm_request extras;
        h.take_extras(extras);
        const auto tokens = h.engine->tokenize(p->prompt, prompt_length(*p, extras), extras.marked);
        if (tokens.size() > (size_t) std::max(0, p->tokens)) {
            return -(int) tokens.size();
        }
        std::copy(tokens.begin(), tokens.end(), result);
        return (int) tokens.size();
    } catch (const std::exception &) {
        return INT32_MIN;
    }
}

// The embedding of a text is the model's hidden state after its last token.
int get_embeddings(void * params, void * state, float * out) {
    std::unique_ptr<Params> p(static_cast<Params *>(params));
    return guarded(state, [&](Handle & h) {
        slc_llm_request extras;
        h.take_extras(extras);
        embed(h, h.engine->tokenize(p->prompt, prompt_length(*p, extras), extras.marked), out, p->tokens);
    });
}

int get_token_embeddings(void * params, void * state, int * tokens, int n, float * out) {
    std::unique_ptr<Params> p(static_cast<Params *>(params));
    const std::vector<llama_token> list(tokens, tokens + std::max(0, n));
    free(tokens);
    return guarded(state, [&](Handle & h) { embed(h, list, out, p->tokens); });
}

// Drafting needs two contexts that advance together, outside the batches that all requests share here.
int speculative_sampling(void * params, void * target, void *, char *, bool) {
    std::unique_ptr<Params> p(static_cast<Params *>(params));
    return guarded(target, [](Handle & h) {
        fail(h, SLC_LLM_UNSUPPORTED, "SpeculativeSampling is not supported: requests are batched instead");
    });
}

int load_state(void * state, char * path, char *) {
    return guarded(state, [&](Handle & h) { h.history = h.engine->load(path, h.scope); });
}

// Upstream's Go code only looks whether the file exists afterwards: slc_llm_last tells whether it is this state. What
// was there before a failure is left.
void save_state(void * state, char * path, char *) {
    guarded(state, [&](Handle & h) { h.engine->save(path, h.history, h.history.size(), h.scope); });
}

} // extern "C"
