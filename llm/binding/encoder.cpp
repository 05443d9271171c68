// Vectors of texts: see slc_llm_encode in llm/slc_llm.h. A decode has whole texts only, each as a sequence of its own,
// and nothing of it stays in memory for the next one.
#include "engine.h"
#include "text.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <stdexcept>

namespace slc {
namespace {

class Encoder {
public:
    Encoder(const slc_llm_load & load, int32_t pooling, LogSink & log) : batch_size_(load.batch), slots_(load.slots) {
        LogScope scope(&log);
        weights_ = load_weights(load, log);
        if (llama_vocab_type(weights_->vocab) == LLAMA_VOCAB_TYPE_NONE) {
            throw std::runtime_error("the model has no vocabulary");
        }
        if (llama_model_has_encoder(weights_->model) && llama_model_has_decoder(weights_->model)) {
            throw std::runtime_error("models of an encoder and a decoder are not supported");
        }
        auto cp = llama_context_default_params();
        cp.n_ctx = cp.n_batch = cp.n_ubatch = (uint32_t) load.batch; // a text is never cut between two computations
        cp.n_seq_max = (uint32_t) load.slots;
        cp.n_outputs_max = (uint32_t) load.batch; // of a model with attention both ways, every token is an output
        cp.n_threads = cp.n_threads_batch = load.threads;
        cp.embeddings = true;
        cp.pooling_type = (enum llama_pooling_type) pooling;
        cp.kv_unified = true;
        cp.swa_full = true;
        cp.no_perf = true;
        cp.op_offload = cp.offload_kqv = false;
        cp.abort_callback = stopped;
        cp.abort_callback_data = this;
        ctx_ = llama_init_from_model(weights_->model, cp);
        if (!ctx_) {
            throw std::runtime_error("llama.cpp cannot make a context of " + std::to_string(load.batch) + " tokens");
        }
        batch_ = llama_batch_init(load.batch, 0, 1);
    }
    ~Encoder() {
        if (batch_.token) {
            llama_batch_free(batch_);
        }
        if (ctx_) {
            llama_free(ctx_);
        }
    }
    Encoder(const Encoder &) = delete;
    Encoder & operator=(const Encoder &) = delete;

    int dim() const { return llama_model_n_embd_out(weights_->model); }
    const llama_vocab * vocab() const { return weights_->vocab; }

    // Throws std::runtime_error. False: it was stopped.
    bool encode(const int32_t * tokens, const int32_t * lengths, int n, int most, const int32_t * cancel, float * out) {
        fill(tokens, lengths, n);
        cancel_ = cancel;
        const int64_t begun = llama_time_us(), waited = slc_llm_time_waited();
        const int threads = thread_count_.at(begun, most);
        llama_set_n_threads(ctx_, threads, threads);
        if (llama_memory_t memory = llama_get_memory(ctx_)) {
            llama_memory_clear(memory, false);
        }
        LogSink log;
        LogScope scope(&log);
        const int status = llama_decode(ctx_, batch_);
        const int64_t now = llama_time_us();
        thread_count_.took(now, threads, now - begun, slc_llm_time_waited() - waited);
        if (status == 2) {
            return false;
        }
        if (status != 0) {
            throw std::runtime_error("llama_decode returned " + std::to_string(status) + " " + log.errors());
        }
        for (int i = 0; i < n; i++, out += dim()) {
            const float * v = llama_get_embeddings_seq(ctx_, i);
            if (!v || !std::all_of(v, v + dim(), [](float x) { return std::isfinite(x); })) {
                throw std::runtime_error("the vector of a text is not finite: the weights are damaged");
            }
            std::copy_n(v, dim(), out);
        }
        return true;
    }

private:
    // llama.cpp asserts on what does not fit.
    void fill(const int32_t * tokens, const int32_t * lengths, int n) {
        int total = 0;
        for (int i = 0; i < n; i++) {
            if (lengths[i] < 1 || lengths[i] > batch_size_ - total) {
                throw std::runtime_error("the texts do not fit " + std::to_string(batch_size_) + " tokens");
            }
            total += lengths[i];
        }
        if (n < 1 || n > slots_) {
            throw std::runtime_error(std::to_string(n) + " texts are not between 1 and " + std::to_string(slots_));
        }
        batch_.n_tokens = total;
        for (int i = 0, at = 0; i < n; i++) {
            for (int pos = 0; pos < lengths[i]; pos++, at++) {
                batch_.token[at] = tokens[at];
                batch_.pos[at] = pos;
                batch_.n_seq_id[at] = 1;
                batch_.seq_id[at][0] = i;
                batch_.logits[at] = true;
            }
        }
    }
    static bool stopped(void * self) {
        const int32_t * cancel = static_cast<Encoder *>(self)->cancel_;
        return cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED) != 0;
    }

    int batch_size_, slots_;
    std::shared_ptr<Weights> weights_;
    llama_context * ctx_ = nullptr;
    llama_batch batch_{};
    const int32_t * cancel_ = nullptr;
    ThreadCount thread_count_;
};

Encoder & of(void * encoder) {
    return *static_cast<Encoder *>(encoder);
}

} // namespace
} // namespace slc

extern "C" {

void * slc_llm_encoder_open(slc_llm_load * load, int32_t pooling, int32_t * dim) {
    try {
        if (load->batch < 1 || load->slots < 1 || (size_t) load->slots > llama_max_parallel_sequences() ||
            load->threads < 1 || load->threads > GGML_MAX_N_THREADS) {
            throw std::runtime_error("batch, slots or threads are out of range");
        }
        slc::start_backend();
        slc::LogSink log;
        auto * e = new slc::Encoder(*load, pooling, log);
        *dim = e->dim();
        return e;
    } catch (const std::exception & e) {
        slc::copy_text(e.what(), load->error, sizeof load->error);
        return nullptr;
    }
}

void slc_llm_encoder_free(void * encoder) {
    delete &slc::of(encoder);
}

int64_t slc_llm_encoder_tokenize(void * encoder, const char * text, int64_t length, int32_t * out, int64_t room) {
    try {
        const llama_vocab * vocab = slc::of(encoder).vocab();
        if (length > INT32_MAX / 2) {
            return -1;
        }
        const int32_t size = (int32_t) std::min<int64_t>(room, INT32_MAX);
        const int32_t n = llama_tokenize(vocab, text, (int32_t) length, out, size, true, false);
        if (n == INT32_MIN) {
            return -1;
        }
        if (n == 0) { // an empty text of a model that puts no token around one
            const llama_token eos = llama_vocab_eos(vocab);
            const llama_token one = eos != LLAMA_TOKEN_NULL ? eos : llama_vocab_bos(vocab);
            if (one == LLAMA_TOKEN_NULL) {
                return -1;
            }
            if (room > 0) {
                out[0] = one;
            }
            return 1;
        }
        return n < 0 ? -(int64_t) n : n;
    } catch (const std::exception &) {
        return -1;
    }
}

int32_t slc_llm_encode(void * encoder, const int32_t * tokens, const int32_t * lengths, int32_t n, int32_t threads,
                       const int32_t * cancel, float * out, char * error, size_t error_size) {
    try {
        return slc::of(encoder).encode(tokens, lengths, n, threads, cancel, out) ? SLC_LLM_OK : SLC_LLM_CLOSED;
    } catch (const std::exception & e) {
        slc::copy_text(e.what(), error, error_size);
        return SLC_LLM_DECODE;
    }
}

} // extern "C"
