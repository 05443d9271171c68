// One Engine per loaded model and group of handles: weights, one llama_context with a sequence per slot, and one thread
// that owns the context. Requests queue; each decode carries a token of every generating slot and chunks of the prompts
// that are still being read (continuous batching). A slot keeps its KV cache after a request, and a new request starts
// from the longest prefix that any slot or pin of its scope already has.
#pragma once

#include "grammar_thread.h"
#include "log.h"
#include "request.h"
#include "threads.h"

#include "llama.h"

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "../slc_llm.h"

namespace slc {

// Weights are shared by every engine of the same file.
struct Weights {
    llama_model * model = nullptr;
    const llama_vocab * vocab = nullptr;
    ~Weights() { llama_model_free(model); }
};

class Engine {
public:
    // Throws std::runtime_error with llama.cpp's reason.
    Engine(std::shared_ptr<Weights> weights, const slc_llm_load & load);
    ~Engine(); // ends what still runs as "closed"
    Engine(const Engine &) = delete;
    Engine & operator=(const Engine &) = delete;

    void submit(Request * request); // the request must live until it is done
    slc_llm_stats stats();
    const llama_vocab * vocab() const { return weights_->vocab; }
    int context() const { return load_.context; } // most tokens of one request
    LogSink & log() { return log_; }

    void unpin(int64_t pin); // before the next request starts

    void look_again(); // a request was cancelled

    // Special tokens in the text count as such, and those the model wants at the beginning are added. A
    // marked text's marks are taken out (literal.h). Throws.
    std::vector<llama_token> tokenize(const char * text, size_t n, bool marked) const;

private:
    struct Sequence {
        llama_seq_id id = 0;
        uint64_t scope = 0; // of the request whose tokens these are; requests of other scopes must not find them
        std::vector<llama_token> kv; // tokens whose KV this sequence holds, or will hold after the decode under way
    };
    struct Slot : Sequence {
        Request * request = nullptr;
        size_t read = 0;                   // prompt tokens in kv
        bool waits = false;                // for another slot to read what both prompts begin with
        size_t kv_before = 0;              // kv.size() before the decode under way
        llama_token next = LLAMA_TOKEN_NULL; // sampled, not decoded yet
        int output = -1;                   // index in the batch whose logits are this slot's
        int64_t last_use = 0;
        std::shared_ptr<Choice> choice;    // of the next token, while the thread of grammars makes it
    };
    struct Pin : Sequence {
        int64_t number = 0; // 0: not in use
    };
    static constexpr int kPins = 8;

    void create_context();
    void attach_lora(const char * path);
    void destroy();

    void run();
    void step();
    bool wait_for_work();
    void release_pins();
    void admit();
    void drop_cancelled();
    void share_prefixes();
    bool is_read_ahead(const Slot & slot) const;
    bool fill_batch();
    void read_prompts(std::vector<Slot *> & slots);
    void add(Slot & slot, llama_token token, bool output);
    void decode();
    int decode_batch(char * error, size_t size);
    void sample_all();
    void take_choices();
    void attempt(Slot & slot, void (Engine::*work)(Slot & slot));
    void sample(Slot & slot);
    bool choose(Slot & slot, const float * logits, llama_token & token);
    void hand_over(Slot & slot, const float * logits);
    void take_choice(Slot & slot);
    void chosen(Slot & slot, llama_token token);
    void emit(Slot & slot, llama_token token);

    void assign(Request * request);
    size_t adopt_prefix(Slot & slot, const Request & request);
    size_t reusable(const Sequence & from, bool busy, const Request & request) const;
    Slot & choose_slot(const Sequence * source, size_t prefix);
    const Sequence * longest_prefix(const Slot * except, const Request & request, size_t & prefix) const;
    void copy(const Sequence & from, Sequence & to, size_t length);
    std::string keep_pin(const Slot & slot, Request & request);
    void make_room();
    size_t used() const;
    void release(Slot & slot, slc_llm_finish finish, slc_llm_code code = SLC_LLM_OK, const char * error = "") noexcept;
    void roll_back(Slot & slot, size_t length);
    void fail_batch(slc_llm_code code, const char * error) noexcept;
    Slot * free_slot();
    bool busy() const;
    bool decoding() const;
    int32_t cells_needed(const Request & request) const;
    static bool abort_decode(void * self);

    slc_llm_load load_; // what is not a pointer to a text
    std::shared_ptr<Weights> weights_;
    llama_context * ctx_ = nullptr;
    llama_adapter_lora * lora_ = nullptr;
    ggml_threadpool * pool_ = nullptr;
    llama_batch batch_{};
    bool whole_only_ = false; // recurrent state: a sequence cannot be cut, only extended
    int threads_ = 0;
    ThreadCount thread_count_;
    LogSink log_;
    LogSink decode_log_; // lines of the decode in progress

    // The scheduler thread's own.
    std::vector<Slot> slots_;
    Pin pins_[kPins];
    int64_t last_pin_ = 0;
    std::vector<Slot *> reading_; // prompts of the batch that is being filled
    int64_t decode_us_ = 0;       // of the last decode
    uint64_t grammar_budget_ = 0; // steps of a slot's grammar after it, on this thread
    uint64_t grammar_steps_ = 0;  // of all since it
    std::unique_ptr<GrammarThread> grammars_; // made when it is first needed
    int64_t reserved_ = 0; // KV cells of pins, and the most that the running requests may need

    std::mutex mutex_; // guards what follows
    std::condition_variable wake_;
    std::deque<Request *> queue_;  // by priority, then by age
    std::vector<int64_t> unpinned_; // pins that are to be released
    slc_llm_stats stats_{};
    bool changed_ = false; // something that a step may have to do with, since the last step began
    bool quit_ = false;

    std::thread thread_; // last: it starts when everything else exists
};

// Initialises llama.cpp once. Throws std::runtime_error on a processor that lacks what it needs.
void start_backend();

// The weights of a load's file, of any kind of model. Throws std::runtime_error with llama.cpp's reason.
std::shared_ptr<Weights> load_weights(const slc_llm_load & load, LogSink & log);

// The engine for a load, made or shared. Throws std::runtime_error; lines logged meanwhile go to log.
std::shared_ptr<Engine> open_engine(const slc_llm_load & load, LogSink & log);

} // namespace slc
