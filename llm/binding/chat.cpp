// slc_llm_chat: messages to a prompt, with llama.cpp's Jinja engine or one of its built-in formats. The variables of
// templates and the handling of their output follow llama.cpp's common/chat.cpp.
#define NDEBUG // the engine's headers are compiled as the engine was
#include "handle.h"
#include "jinja_budget.h"

#include "jinja/caps.h"
#include "jinja/json.h"
#include "jinja/lexer.h"
#include "jinja/parser.h"
#include "jinja/runtime.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace {

constexpr size_t kMaxSource = 1u << 20;    // bytes of a template
constexpr size_t kMaxText = 64u << 20;     // bytes of all messages, and of a prompt
constexpr size_t kMaxMessages = 1u << 16;
constexpr size_t kMaxError = 400;          // bytes
constexpr size_t kStack = size_t(512) << 20; // of address space; beyond JinjaLimits::stack it is for destructors

struct Message {
    std::string role, content;
    std::string calls, calls_text; // JSON, empty: none
    std::string call_id, name;
};

struct Rendering {
    std::string source;
    std::vector<Message> messages;
    std::string tools; // JSON, empty: none
    std::string variables; // JSON object or null, empty: none
    std::string bos, eos;
    bool open = true; // the assistant's turn
    bool parse_only = false;
    std::string prompt, error; // the outcome
};

// one_line shortens the engine's messages, which quote the source on several lines, to one bounded line.
std::string one_line(const std::string & what) {
    std::string text = what;
    const std::string mark = "\nError: ";
    const size_t at = what.rfind(mark);
    if (at != std::string::npos) {
        text = what.substr(at + mark.size());
        const size_t from = what.find("line "), to = what.find(" in source:");
        if (from < to && to < at) {
            text = what.substr(from, to - from) + ": " + text;
        }
    } else {
        const size_t snippet = what.find('\n');
        const size_t caret = snippet == std::string::npos ? snippet : what.find('\n', snippet + 1);
        text = what.substr(0, caret);
    }
    const std::string raised = "Jinja Exception: ";
    const size_t r = text.find(raised);
    if (r != std::string::npos) {
        text.erase(r, raised.size());
    }
    for (char & c : text) {
        if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) {
            c = ' ';
        }
    }
    return text.substr(0, kMaxError);
}

// unify writes all line ends as \n; the engine would do so in quadratic time.
std::string unify(const std::string & source) {
    std::string text;
    text.reserve(source.size());
    for (size_t i = 0; i < source.size(); i++) {
        if (source[i] == '\r') {
            text += '\n';
            i += i + 1 < source.size() && source[i + 1] == '\n';
        } else {
            text += source[i];
        }
    }
    return text;
}

// merge_system puts system messages in front of the next user message, for templates without a place for them.
std::vector<Message> merge_system(const std::vector<Message> & messages) {
    std::vector<Message> merged;
    std::string system;
    for (const Message & m : messages) {
        if (m.role == "system") {
            system += (system.empty() ? "" : "\n\n") + m.content;
        } else if (m.role == "user" && !system.empty()) {
            merged.push_back(m);
            merged.back().content = system + "\n\n" + m.content;
            system.clear();
        } else {
            merged.push_back(m);
        }
    }
    if (!system.empty()) {
        merged.push_back({"user", system, "", "", "", ""});
    }
    return merged;
}

jinja::value text_value(const std::string & text) {
    return jinja::mk_val<jinja::value_string>(text);
}

jinja::value json_value(const std::string & json) {
    jinja::context context("");
    jinja::global_from_json(context, common_json{{"value", common_json::parse(json)}}, false);
    return context.get_val("value");
}

jinja::value messages_value(const std::vector<Message> & messages, bool typed, bool objects) {
    auto list = jinja::mk_val<jinja::value_array>();
    for (const Message & m : messages) {
        auto message = jinja::mk_val<jinja::value_object>();
        message->insert("role", text_value(m.role));
        if (!m.calls.empty()) {
            message->insert("tool_calls", json_value(objects ? m.calls : m.calls_text));
        }
        if (!m.call_id.empty()) {
            message->insert("tool_call_id", text_value(m.call_id));
        }
        if (!m.name.empty()) {
            message->insert("name", text_value(m.name));
        }
        if (typed) {
            auto part = jinja::mk_val<jinja::value_object>();
            part->insert("type", text_value("text"));
            part->insert("text", text_value(m.content));
            auto parts = jinja::mk_val<jinja::value_array>();
            parts->push_back(jinja::value(part));
            message->insert("content", parts);
        } else {
            message->insert("content", text_value(m.content));
        }
        list->push_back(jinja::value(message));
    }
    return list;
}

std::string render(const Rendering & r) {
    jinja::lexer lexer;
    const jinja::lexer_result lexed = lexer.tokenize(unify(r.source));
    jinja::program program = jinja::parse_from_tokens(lexed);
    if (r.parse_only) {
        return "";
    }
    const jinja::caps caps = jinja::caps_get(program);
    const bool typed = caps.supports_typed_content && !caps.supports_string_content;

    jinja::context context(lexed.source);
    const common_json variables = common_json::parse(r.variables.empty() ? "null" : r.variables);
    if (variables.is_object()) {
        jinja::global_from_json(context, variables, false);
    }
    context.set_val("messages",
                    messages_value(caps.supports_system_role ? r.messages : merge_system(r.messages), typed,
                                   caps.supports_object_arguments));
    context.set_val("bos_token", text_value(r.bos));
    context.set_val("eos_token", text_value(r.eos));
    context.set_val("add_generation_prompt", jinja::mk_val<jinja::value_bool>(r.open));
    context.set_val("documents", jinja::mk_val<jinja::value_none>()); // as Hugging Face's transformers has it
    context.set_val("tools", r.tools.empty() ? jinja::mk_val<jinja::value_none>() : json_value(r.tools));
    jinja::runtime runtime(context);
    const jinja::value results = runtime.execute(program);
    return jinja::runtime::gather_string_parts(results)->as_string().str();
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
// break_cycles frees values that keep each other alive ({% set ns.x = ns %}): their references would leak.
void break_cycles(slc::JinjaBudget & budget) {
    while (slc::JinjaNode * node = budget.take()) {
        auto * v = reinterpret_cast<jinja::value_t *>(reinterpret_cast<char *>(node) - offsetof(jinja::value_t, node));
        const auto array = std::move(v->val_arr);
        const auto object = std::move(v->val_obj);
        const auto function = std::move(v->val_func);
        decltype(jinja::value_object_t::unordered) members;
        jinja::value bound;
        if (auto * o = dynamic_cast<jinja::value_object_t *>(v)) {
            members.swap(o->unordered);
        } else if (auto * f = dynamic_cast<jinja::value_func_t *>(v)) {
            bound.swap(f->arg0);
        } else if (auto * k = dynamic_cast<jinja::value_kwarg_t *>(v)) {
            bound.swap(k->val);
        }
    }
}
#pragma GCC diagnostic pop

slc::JinjaLimits limits_of(const Rendering & r) {
    uint64_t bytes = r.source.size(), json = r.tools.size();
    for (const Message & m : r.messages) {
        bytes += m.content.size();
        json += m.calls.size() + m.calls_text.size();
    }
    bytes += json;
    slc::JinjaLimits limits;
    limits.cpu_ns = 1000000000 + int64_t(1000000 * r.messages.size() + 100 * bytes);
    limits.values = 300000 + 8 * r.messages.size() + json;
    limits.held = (uint64_t(256) << 20) + 16 * bytes;
    limits.made = (uint64_t(1) << 30) + 64 * bytes;
    return limits;
}

void * render_thread(void * arg) {
    auto & r = *static_cast<Rendering *>(arg);
    slc::JinjaBudget budget(limits_of(r));
    try {
        r.prompt = render(r);
    } catch (const slc::JinjaLimit & limit) {
        r.error = limit.what;
    } catch (const std::bad_alloc &) {
        r.error = "out of memory";
    } catch (const std::exception & e) {
        r.error = one_line(e.what());
    }
    if (!r.error.empty()) {
        r.prompt.clear();
    }
    break_cycles(budget);
    return nullptr;
}

// run renders on a thread with a large stack: templates nest, and their values are freed recursively.
void run(Rendering & r) {
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_t thread;
    int rc = pthread_attr_setstacksize(&attr, kStack);
    if (rc == 0) {
        rc = pthread_create(&thread, &attr, render_thread, &r);
    }
    pthread_attr_destroy(&attr);
    if (rc != 0) {
        throw std::runtime_error(std::string("no thread to render it: ") + strerror(rc));
    }
    pthread_join(thread, nullptr);
    if (!r.error.empty()) {
        throw std::runtime_error(r.error);
    }
}

// built_in formats with one of llama.cpp's built-in templates.
std::string built_in(const char * name, const Rendering & r) {
    std::vector<const char *> names((size_t) llama_chat_builtin_templates(nullptr, 0));
    llama_chat_builtin_templates(names.data(), names.size());
    if (std::none_of(names.begin(), names.end(), [&](const char * known) { return strcmp(known, name) == 0; })) {
        throw std::runtime_error("llama.cpp has none of this name: " + one_line(name).substr(0, 80));
    }
    if (r.parse_only) {
        return "";
    }
    std::vector<llama_chat_message> chat;
    for (const Message & m : r.messages) {
        chat.push_back({m.role.c_str(), m.content.c_str()});
    }
    std::string text;
    for (int32_t need = 0;;) {
        text.resize((size_t) need);
        const int32_t n =
            llama_chat_apply_template(name, chat.data(), chat.size(), r.open, text.empty() ? nullptr : &text[0], need);
        if (n < 0) {
            throw std::runtime_error("llama.cpp cannot format these messages");
        }
        if (n <= need) {
            text.resize((size_t) n);
            return text;
        }
        need = n;
    }
}

// without_tokenizers drops the tokens that the tokenizer adds by itself.
std::string without_tokenizers(std::string text, const llama_vocab * vocab, const Rendering & r) {
    if (llama_vocab_get_add_bos(vocab) && !r.bos.empty() && text.compare(0, r.bos.size(), r.bos) == 0) {
        text.erase(0, r.bos.size());
    }
    if (llama_vocab_get_add_eos(vocab) && !r.eos.empty() && text.size() >= r.eos.size() &&
        text.compare(text.size() - r.eos.size(), r.eos.size(), r.eos) == 0) {
        text.erase(text.size() - r.eos.size());
    }
    return text;
}

std::string chat(const llama_vocab * vocab, const char * tmpl, Rendering & r) {
    r.source = tmpl;
    if (r.source.size() > kMaxSource) {
        throw std::runtime_error("it has " + std::to_string(r.source.size()) + " bytes, more than " +
                                 std::to_string(kMaxSource));
    }
    size_t bytes = r.tools.size();
    for (const Message & m : r.messages) {
        bytes += m.content.size() + m.calls.size();
    }
    if (r.messages.size() > kMaxMessages || bytes > kMaxText) {
        throw std::runtime_error(std::to_string(r.messages.size()) + " messages of " + std::to_string(bytes) +
                                 " bytes are more than " + std::to_string(kMaxMessages) + " or more than " +
                                 std::to_string(kMaxText) + " bytes");
    }
    if (vocab) {
        const llama_token bos = llama_vocab_bos(vocab), eos = llama_vocab_eos(vocab);
        r.bos = bos == LLAMA_TOKEN_NULL ? "" : slc::token_text(vocab, bos, true);
        r.eos = eos == LLAMA_TOKEN_NULL ? "" : slc::token_text(vocab, eos, true);
    }
    std::string text;
    if (r.source.find('{') == std::string::npos) {
        text = built_in(tmpl, r);
    } else {
        run(r);
        text = std::move(r.prompt);
    }
    if (text.size() > kMaxText) {
        throw std::runtime_error("it makes " + std::to_string(text.size()) + " bytes, more than " +
                                 std::to_string(kMaxText));
    }
    return vocab ? without_tokenizers(std::move(text), vocab, r) : text;
}

} // namespace

extern "C" int64_t slc_llm_chat(void * handle, const slc_llm_chat_request * request, char ** out, char * error,
                                size_t error_size) {
    const auto fail = [&](const char * what) {
        slc::copy_text(what, error, error_size);
        return int64_t(-1);
    };
    const auto text_of = [](const char * text) { return std::string(text ? text : ""); };
    try {
        Rendering r;
        r.parse_only = request->parse_only;
        r.open = request->open;
        r.tools = text_of(request->tools);
        r.variables = text_of(request->variables);
        for (size_t i = 0; i < request->n; i++) {
            const slc_llm_turn & t = request->turns[i];
            r.messages.push_back({text_of(t.role), text_of(t.content), text_of(t.calls), text_of(t.calls_text),
                                  text_of(t.call_id), text_of(t.name)});
        }
        const llama_vocab * vocab = handle ? static_cast<slc::Handle *>(handle)->engine->vocab() : nullptr;
        const std::string text = chat(vocab, request->tmpl, r);
        *out = static_cast<char *>(malloc(text.size() + 1));
        if (!*out) {
            return fail("out of memory");
        }
        memcpy(*out, text.c_str(), text.size() + 1);
        return (int64_t) text.size();
    } catch (const std::exception & e) {
        return fail(e.what());
    }
}
