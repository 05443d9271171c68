// Literal texts: what a chat's messages spell never becomes a control token. Go puts marks into what would
// (SLC_LLM_MARK), templates carry them along, and our patch of llama.cpp's tokenizer takes them out when it has found
// the special tokens that the template wrote.
#pragma once

#include <string>

namespace slc {

// What the calling thread's tokenizer takes out; empty: nothing.
const std::string & literal_mark();

class Unmarking {
public:
    explicit Unmarking(bool on);
    ~Unmarking();
    Unmarking(const Unmarking &) = delete;
    Unmarking & operator=(const Unmarking &) = delete;
};

} // namespace slc
