// Literal texts: what a chat's messages spell never becomes a control token. Go inserts marks where it would
// (SLC_LLM_MARK), templates carry them along, and our patch of llama.cpp's tokenizer removes them after it has found
// the special tokens of the template.
#pragma once

#include <string>

namespace slc {

// The mark that the calling thread's tokenizer removes; empty: none.
const std::string & literal_mark();

class Unmarking {
public:
    explicit Unmarking(bool on);
    ~Unmarking();
    Unmarking(const Unmarking &) = delete;
    Unmarking & operator=(const Unmarking &) = delete;
};

} // namespace slc
