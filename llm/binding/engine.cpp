// Loading: weights, context, threads; what is shared and what is refused.
#include "engine.h"

#include "literal.h"

#include "ggml-cpu.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <stdexcept>

namespace slc {
namespace {

// Every handle is loaded by a call of its own, so the models that they share are found here.
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

std::string weights_key(const slc_llm_load & l) {
    return identity(l.path) + '\0' + std::to_string(l.gpu_layers) + '\0' + std::to_string(l.mapped);
}

std::string engine_key(const slc_llm_load & l) {
    std::string key = weights_key(l) + '\0' + (l.lora ? l.lora : "") + '\0' + std::to_string(l.group);
    for (int part : {l.context, l.cells, l.slots, l.batch, l.threads}) {
        key += '\0' + std::to_string(part);
    }
    return key;
}

bool keep_loading(float, void * cancel) {
    return __atomic_load_n(static_cast<const int32_t *>(cancel), __ATOMIC_RELAXED) == 0;
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

} // namespace

void start_backend() {
    if (!*slc_llm_isa()) {
        throw std::runtime_error("this processor lacks AVX2, FMA, F16C or BMI2, which llama.cpp needs here");
    }
    install_log();
    static const bool started = (llama_backend_init(), true);
    (void) started;
}

std::shared_ptr<Weights> load_weights(const slc_llm_load & l, LogSink & log) {
    auto mp = llama_model_default_params();
    mp.n_gpu_layers = l.gpu_layers;
    ggml_backend_dev_t none = nullptr;
    if (l.gpu_layers <= 0) { // no GPU that was not asked for, even if another model has one
        mp.devices = &none;
    }
    mp.load_mode = l.mapped ? LLAMA_LOAD_MODE_MMAP : LLAMA_LOAD_MODE_NONE;
    mp.progress_callback = keep_loading;
    mp.progress_callback_user_data = const_cast<int32_t *>(&l.cancel);
    auto w = std::make_shared<Weights>();
    w->model = llama_model_load_from_file(l.path, mp);
    if (!w->model) {
        throw keep_loading(0, mp.progress_callback_user_data) ? failure("llama.cpp cannot load it", log)
                                                              : std::runtime_error("loading was cancelled");
    }
    w->vocab = llama_model_get_vocab(w->model);
    return w;
}

Engine::Engine(std::shared_ptr<Weights> weights, const slc_llm_load & load)
    : load_(load), weights_(std::move(weights)) {
    load_.path = load_.lora = nullptr;
    try {
        create_context();
        attach_lora(load.lora);
    } catch (...) {
        destroy();
        throw;
    }
    whole_only_ = llama_model_is_recurrent(weights_->model) || llama_model_is_hybrid(weights_->model);
    slots_.resize((size_t) load_.slots);
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
    auto cp = llama_context_default_params();
    cp.n_ctx = (uint32_t) load_.cells;
    cp.n_batch = cp.n_ubatch = (uint32_t) load_.batch;
    cp.n_seq_max = (uint32_t) (load_.slots + kPins);
    cp.n_outputs_max = cp.n_seq_max; // llama.cpp asserts that it is no less
    cp.n_threads = cp.n_threads_batch = threads_ = load_.threads;
    cp.kv_unified = true; // a prefix can be shared only within one buffer; llama.cpp asserts otherwise
    cp.swa_full = true;   // and taken up again only if a sliding window has not dropped it
    cp.no_perf = true;
    cp.op_offload = cp.offload_kqv = load_.gpu_layers > 0;
    cp.abort_callback = abort_decode;
    cp.abort_callback_data = this;
    ctx_ = llama_init_from_model(weights_->model, cp);
    if (!ctx_) {
        throw std::runtime_error("llama.cpp cannot make a context of " + std::to_string(load_.cells) + " tokens");
    }
    if (!llama_get_memory(ctx_)) {
        throw std::runtime_error("the model keeps no state between tokens: it is not a text generator");
    }
    auto tp = ggml_threadpool_params_default(load_.threads);
    tp.paused = true;
    tp.poll = 1; // some ms: one that sleeps would wake up after the next decode has begun. Idle ones are paused
    pool_ = ggml_threadpool_new(&tp);
    if (!pool_) {
        throw std::runtime_error("cannot start " + std::to_string(load_.threads) + " threads");
    }
    llama_attach_threadpool(ctx_, pool_, nullptr);
    batch_ = llama_batch_init(load_.batch, 0, 1);
}

void Engine::attach_lora(const char * path) {
    if (!path) {
        return;
    }
    lora_ = llama_adapter_lora_init(weights_->model, path);
    float scale = 1;
    if (!lora_ || llama_set_adapters_lora(ctx_, &lora_, 1, &scale) != 0) {
        throw std::runtime_error(std::string("cannot use the LoRA adapter ") + path);
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
    const auto later = std::find_if(queue_.begin(), queue_.end(), [&](const Request * r) {
        return r->asked.priority < request->asked.priority;
    });
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

void Engine::unpin(int64_t pin) {
    std::lock_guard<std::mutex> lock(mutex_);
    unpinned_.push_back(pin);
    changed_ = true;
    wake_.notify_one();
}

std::shared_ptr<Engine> open_engine(const slc_llm_load & load, LogSink & log) {
    start_backend();
    LogScope scope(&log);
    Registry & r = registry();
    std::lock_guard<std::mutex> lock(r.mutex);
    const std::string key = engine_key(load);
    if (auto engine = r.engines[key].lock()) {
        return engine;
    }
    auto weights = r.weights[weights_key(load)].lock();
    if (!weights) {
        weights = load_weights(load, log);
        require_generator(weights->model);
        r.weights[weights_key(load)] = weights;
    }
    std::shared_ptr<Engine> engine;
    try {
        engine = std::make_shared<Engine>(weights, load);
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
