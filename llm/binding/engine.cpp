// Loading: weights, context, threads; what is shared and what is refused.
#include "engine.h"

#include "literal.h"

#include "state.h"

#include "ggml-cpu.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <stdexcept>

namespace slc {
namespace {

// Upstream's API has one entry, load_model, and promises nothing about sharing: the ref-counts can only live here.
struct Registry {
    std::mutex mutex; // held while loading, so that the same file is never loaded twice
    std::map<std::string, std::weak_ptr<Weights>> weights;
    std::map<std::string, std::weak_ptr<Engine>> engines;
};

Registry & registry() {
    static Registry * r = new Registry; // never destroyed: scheduler threads may outlive static destructors
    return *r;
}

std::runtime_error failure(const std::string & what, LogSink & log) {
    const std::string reasons = log.errors();
    return std::runtime_error(reasons.empty() ? what : what + ": " + reasons);
}

// The file itself, not its name: a file replaced under the same name is another model.
std::string identity(const std::string & path) {
    struct stat st;
    if (stat(path.c_str(), &st) != 0) {
        throw std::runtime_error("no such file: " + path);
    }
    std::string id = path;
    for (long long part : {(long long) st.st_dev, (long long) st.st_ino, (long long) st.st_size,
                           (long long) st.st_mtim.tv_sec, (long long) st.st_mtim.tv_nsec}) {
        id += '\0' + std::to_string(part);
    }
    return id;
}

std::string weights_key(const EngineOptions & o) {
    std::string key = identity(o.path);
    for (int part : {o.gpu_layers, o.main_gpu, (int) o.mmap, (int) o.mlock}) {
        key += '\0' + std::to_string(part);
    }
    for (float part : o.tensor_split) {
        key += '\0' + std::to_string(part);
    }
    return key;
}

std::string engine_key(const EngineOptions & o) {
    const auto & l = o.load;
    std::string key = weights_key(o) + '\0' + o.lora + '\0' + std::to_string(l.group);
    for (int part : {l.context, l.cells, l.slots, l.batch, l.threads}) {
        key += '\0' + std::to_string(part);
    }
    return key + '\0' + std::to_string(o.rope_base) + '\0' + std::to_string(o.rope_scale);
}

bool keep_loading(float, void * cancel) {
    return !cancel || __atomic_load_n(static_cast<const int32_t *>(cancel), __ATOMIC_RELAXED) == 0;
}

void require_generator(const llama_model * model) {
    const char * reason = nullptr;
    if (llama_vocab_type(llama_model_get_vocab(model)) == LLAMA_VOCAB_TYPE_NONE) {
        reason = "the model has no vocabulary";
    } else if (llama_model_has_encoder(model) || !llama_model_has_decoder(model)) {
        reason = "encoder models are not supported: a decoder-only language model is needed";
    } else if (llama_model_is_diffusion(model)) {
        reason = "diffusion models are not supported: a decoder-only language model is needed";
    }
    if (reason) {
        throw std::runtime_error(reason);
    }
}

std::shared_ptr<Weights> load_weights(const EngineOptions & o, LogSink & log) {
    auto mp = llama_model_default_params();
    mp.n_gpu_layers = o.gpu_layers;
    mp.main_gpu = o.main_gpu;
    ggml_backend_dev_t none = nullptr;
    if (o.gpu_layers <= 0) { // no GPU that was not asked for, even if another model has one
        mp.devices = &none;
    }
    std::vector<float> split(std::max(llama_max_devices(), o.tensor_split.size()), 0.f);
    std::copy(o.tensor_split.begin(), o.tensor_split.end(), split.begin());
    mp.tensor_split = o.tensor_split.empty() ? nullptr : split.data();
    mp.load_mode = o.mmap ? (o.mlock ? LLAMA_LOAD_MODE_MMAP_MLOCK : LLAMA_LOAD_MODE_MMAP)
                          : (o.mlock ? LLAMA_LOAD_MODE_MLOCK : LLAMA_LOAD_MODE_NONE);
    mp.progress_callback = keep_loading;
    mp.progress_callback_user_data = const_cast<int32_t *>(o.load.cancel);
    auto w = std::make_shared<Weights>();
    w->model = llama_model_load_from_file(o.path.c_str(), mp);
    if (!w->model) {
        throw keep_loading(0, mp.progress_callback_user_data) ? failure("llama.cpp cannot load it", log)
                                                              : std::runtime_error("loading was cancelled");
    }
    require_generator(w->model);
    w->vocab = llama_model_get_vocab(w->model);
    return w;
}

} // namespace

Engine::Engine(std::shared_ptr<Weights> weights, const EngineOptions & options)
    : options_(options), weights_(std::move(weights)) {
    try {
        create_context();
        attach_lora();
    } catch (...) {
        destroy();
        throw;
    }
    whole_only_ = llama_model_is_recurrent(weights_->model) || llama_model_is_hybrid(weights_->model);
    slots_.resize((size_t) options_.load.slots);
    reading_.reserve(slots_.size());
    for (size_t i = 0; i < slots_.size(); i++) {
        slots_[i].id = (llama_seq_id) i;
    }
    for (int i = 0; i < kPins; i++) {
        pins_[i].id = (llama_seq_id) slots_.size() + i;
    }
    thread_ = std::thread([this] { run(); });
}

void Engine::create_context() {
    const auto & load = options_.load;
    auto cp = llama_context_default_params();
    cp.n_ctx = (uint32_t) load.cells;
    cp.n_batch = cp.n_ubatch = (uint32_t) load.batch;
    cp.n_seq_max = (uint32_t) (load.slots + kPins);
    cp.n_outputs_max = cp.n_seq_max; // llama.cpp asserts that it is no less
    cp.n_threads = cp.n_threads_batch = threads_ = load.threads;
    cp.rope_freq_base = options_.rope_base;
    cp.rope_freq_scale = options_.rope_scale;
    cp.kv_unified = true; // a prefix can be shared only within one buffer; llama.cpp asserts otherwise
    cp.swa_full = true;   // and taken up again only if a sliding window has not dropped it
    cp.no_perf = true;
    cp.op_offload = cp.offload_kqv = options_.gpu_layers > 0;
    cp.abort_callback = abort_decode;
    cp.abort_callback_data = this;
    ctx_ = llama_init_from_model(weights_->model, cp);
    if (!ctx_) {
        throw std::runtime_error("llama.cpp cannot make a context of " + std::to_string(load.cells) + " tokens");
    }
    if (!llama_get_memory(ctx_)) {
        throw std::runtime_error("the model keeps no state between tokens: it is not a text generator");
    }
    auto tp = ggml_threadpool_params_default(load.threads);
    tp.paused = true;
    tp.poll = 1; // some ms: one that sleeps would wake up after the next decode has begun. Idle ones are paused
    pool_ = ggml_threadpool_new(&tp);
    if (!pool_) {
        throw std::runtime_error("cannot start " + std::to_string(load.threads) + " threads");
    }
    llama_attach_threadpool(ctx_, pool_, nullptr);
    batch_ = llama_batch_init(load.batch, 0, 1);
}

void Engine::attach_lora() {
    if (options_.lora.empty()) {
        return;
    }
    lora_ = llama_adapter_lora_init(weights_->model, options_.lora.c_str());
    float scale = 1;
    if (!lora_ || llama_set_adapters_lora(ctx_, &lora_, 1, &scale) != 0) {
        throw std::runtime_error("cannot use the LoRA adapter " + options_.lora);
    }
}

Engine::~Engine() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        quit_ = true;
    }
    wake_.notify_one();
    thread_.join();
    grammars_.reset(); // its thread calls look_again
    destroy();
}

void Engine::destroy() {
    if (batch_.token) {
        llama_batch_free(batch_);
    }
    llama_free(embedder_);
    if (ctx_) {
        llama_detach_threadpool(ctx_);
        llama_free(ctx_);
    }
    if (lora_) {
        llama_adapter_lora_free(lora_);
    }
    if (pool_) {
        ggml_threadpool_free(pool_);
    }
}

void Engine::submit(Request * request) {
    request->submitted = llama_time_us();
    std::lock_guard<std::mutex> lock(mutex_);
    const auto later =
        std::find_if(queue_.begin(), queue_.end(), [&](const Request * r) { return r->priority < request->priority; });
    queue_.insert(later, request);
    stats_.queued = (int32_t) queue_.size();
    changed_ = true;
    wake_.notify_one();
}

void Engine::look_again() {
    std::lock_guard<std::mutex> lock(mutex_);
    changed_ = true;
    wake_.notify_one();
}

slc_llm_stats Engine::stats() {
    std::lock_guard<std::mutex> lock(mutex_);
    return stats_;
}

std::vector<llama_token> Engine::tokenize(const char * text, size_t n, bool marked) const {
    if (n > INT32_MAX / 2) {
        throw std::runtime_error("a text of " + std::to_string(n) + " bytes is too long to tokenise");
    }
    const Unmarking unmarking(marked);
    std::vector<llama_token> tokens(n / 2 + 16);
    int32_t k = llama_tokenize(vocab(), text, (int32_t) n, tokens.data(), (int32_t) tokens.size(), true, true);
    if (k < 0 && k != INT32_MIN) {
        tokens.resize((size_t) -k);
        k = llama_tokenize(vocab(), text, (int32_t) n, tokens.data(), (int32_t) tokens.size(), true, true);
    }
    if (k < 0) {
        throw std::runtime_error("llama.cpp cannot tokenise the text");
    }
    tokens.resize((size_t) k);
    return tokens;
}

void Engine::run_on_scheduler(std::function<bool()> work) {
    Task task{std::move(work), false, nullptr};
    std::unique_lock<std::mutex> lock(mutex_);
    tasks_.push_back(&task);
    changed_ = true;
    wake_.notify_one();
    task_done_.wait(lock, [&] { return task.done; });
    if (task.error) {
        std::rethrow_exception(task.error);
    }
}

void Engine::save(const std::string & path, const std::vector<llama_token> & history, size_t keep, uint64_t scope) {
    SavedSequence s;
    run_on_scheduler([&] {
        const Slot * from = nullptr;
        for (const Slot & slot : slots_) {
            const bool holds =
                slot.scope == scope && slot.kv.size() >= history.size() &&
                std::equal(history.begin(), history.end(), slot.kv.begin());
            if (!history.empty() && holds && !slot.request && (!whole_only_ || slot.kv.size() == history.size())) {
                from = &slot;
            }
        }
        if (!from) {
            throw std::runtime_error(
                "there is no state to save: nothing was read yet, or other requests have taken its place");
        }
        const size_t length = whole_only_ ? history.size() : std::min(keep, history.size());
        Pin * spare = std::find_if(pins_, pins_ + kPins, [](const Pin & p) { return p.number < 0; });
        const bool part = length < from->kv.size();
        if (part && spare == pins_ + kPins) {
            throw std::runtime_error("the state cannot be saved while " + std::to_string(kPins) +
                                     " prompts are pinned");
        }
        if (part) {
            copy(*from, *spare, length);
        }
        const llama_seq_id id = part ? spare->id : from->id;
        s.tokens.assign(history.begin(), history.begin() + (std::ptrdiff_t) length);
        s.data.resize(llama_state_seq_get_size(ctx_, id));
        const size_t n = llama_state_seq_get_data(ctx_, s.data.data(), s.data.size(), id);
        if (part) {
            copy(*from, *spare, 0);
        }
        if (n == 0 || n > s.data.size()) {
            throw std::runtime_error("llama.cpp cannot save the state");
        }
        s.data.resize(n);
        return true;
    });
    write_saved(path, fingerprint(options_.path), s);
}

std::vector<llama_token> Engine::load(const std::string & path, uint64_t scope) {
    const SavedSequence s = read_saved(path, fingerprint(options_.path), (size_t) options_.load.context);
    const int32_t vocabulary = llama_vocab_n_tokens(vocab());
    if (std::any_of(s.tokens.begin(), s.tokens.end(), [&](llama_token t) { return t < 0 || t >= vocabulary; })) {
        throw std::runtime_error(path + ": the state has tokens beyond the vocabulary");
    }
    run_on_scheduler([&] {
        if (!free_slot() || reserved_ + (int64_t) s.tokens.size() > options_.load.cells) {
            if (!busy()) {
                throw std::runtime_error(path + ": the state does not fit beside what is pinned");
            }
            return false;
        }
        Slot & slot = choose_slot(nullptr, 0);
        roll_back(slot, 0);
        make_room(s.tokens.size());
        if (llama_state_seq_set_data(ctx_, s.data.data(), s.data.size(), slot.id) != s.data.size()) {
            llama_memory_seq_rm(llama_get_memory(ctx_), slot.id, -1, -1);
            throw std::runtime_error(path + ": llama.cpp cannot read the state");
        }
        slot.kv = s.tokens;
        slot.scope = scope;
        slot.last_use = llama_time_us();
        return true;
    });
    return s.tokens;
}

void Engine::unpin(int64_t number) {
    run_on_scheduler([&] {
        for (Pin & p : pins_) {
            if (p.number == number && number >= 0) {
                reserved_ -= (int64_t) p.kv.size();
                llama_memory_seq_rm(llama_get_memory(ctx_), p.id, -1, -1);
                p.kv.clear();
                p.number = -1;
            }
        }
        return true;
    });
}

std::vector<float> Engine::embed(const std::vector<llama_token> & tokens) {
    const auto & load = options_.load;
    const int32_t vocabulary = llama_vocab_n_tokens(vocab());
    if (tokens.empty() || (int) tokens.size() > load.context) {
        throw std::runtime_error(std::to_string(tokens.size()) + " tokens to embed are not between 1 and " +
                                 std::to_string(load.context));
    }
    for (const llama_token t : tokens) {
        if (t < 0 || t >= vocabulary) {
            throw std::runtime_error("token " + std::to_string(t) + " is beyond the vocabulary of " +
                                     std::to_string(vocabulary));
        }
    }
    std::lock_guard<std::mutex> lock(embedding_);
    if (!embedder_) {
        auto cp = llama_context_default_params();
        cp.op_offload = cp.offload_kqv = options_.gpu_layers > 0;
        cp.n_ctx = (uint32_t) load.context;
        cp.n_batch = cp.n_ubatch = (uint32_t) std::min(load.batch, load.context);
        cp.n_seq_max = 1;
        cp.n_threads = cp.n_threads_batch = load.threads;
        cp.rope_freq_base = options_.rope_base;
        cp.rope_freq_scale = options_.rope_scale;
        cp.embeddings = true;
        cp.pooling_type = LLAMA_POOLING_TYPE_NONE;
        cp.no_perf = true;
        if (!(embedder_ = llama_init_from_model(weights_->model, cp))) {
            throw std::runtime_error("llama.cpp cannot make a context of " + std::to_string(load.context) +
                                     " tokens for embeddings");
        }
    }
    const int threads = load.acquire ? std::max(1, std::min(load.acquire(load.user), load.threads)) : load.threads;
    struct Release {
        const slc_llm_load_options & load;
        ~Release() {
            if (load.release) {
                load.release(load.user);
            }
        }
    } release{load};
    llama_set_n_threads(embedder_, threads, threads);
    llama_memory_clear(llama_get_memory(embedder_), true);
    std::vector<llama_token> rest(tokens);
    const size_t batch = llama_n_batch(embedder_);
    for (size_t at = 0; at < rest.size(); at += batch) {
        const size_t n = std::min(batch, rest.size() - at);
        if (llama_decode(embedder_, llama_batch_get_one(rest.data() + at, (int32_t) n)) != 0) {
            throw std::runtime_error("llama.cpp cannot embed the text");
        }
    }
    const float * last = llama_get_embeddings_ith(embedder_, -1);
    if (!last) {
        throw std::runtime_error("the model gives no embeddings");
    }
    return std::vector<float>(last, last + embedding_width());
}

std::shared_ptr<Engine> open_engine(const EngineOptions & options, LogSink & log) {
    if (!*slc_llm_isa()) {
        throw std::runtime_error("this processor lacks AVX2, FMA, F16C or BMI2, which llama.cpp needs here");
    }
    install_log();
    LogScope scope(&log);
    Registry & r = registry();
    std::lock_guard<std::mutex> lock(r.mutex);
    static const bool started = (llama_backend_init(), true);
    (void) started;
    const std::string key = engine_key(options);
    if (auto engine = r.engines[key].lock()) {
        return engine;
    }
    auto weights = r.weights[weights_key(options)].lock();
    if (!weights) {
        weights = load_weights(options, log);
        r.weights[weights_key(options)] = weights;
    }
    std::shared_ptr<Engine> engine;
    try {
        engine = std::make_shared<Engine>(weights, options);
    } catch (const std::exception & e) {
        throw failure(e.what(), log);
    }
    r.engines[key] = engine;
    const auto drop_expired = [](auto & map) {
        for (auto it = map.begin(); it != map.end();) {
            it = it->second.expired() ? map.erase(it) : std::next(it);
        }
    };
    drop_expired(r.weights);
    drop_expired(r.engines);
    return engine;
}

} // namespace slc
