// The file of a saved sequence: its tokens and llama.cpp's KV data.
#pragma once

#include "llama.h"

#include <cstdint>
#include <string>
#include <vector>

namespace slc {

struct SavedSequence {
    std::vector<llama_token> tokens;
    std::vector<uint8_t> data;
};

// write_saved replaces path as a whole, or not at all. model identifies the weights. Both throw std::runtime_error.
void write_saved(const std::string & path, uint64_t model, const SavedSequence & s);
// read_saved refuses a file that is cut, changed, of another format, or of another model, and one of more than
// `max_tokens` tokens.
SavedSequence read_saved(const std::string & path, uint64_t model, size_t max_tokens);

// fingerprint tells models apart by samples of the file: 64 pieces of 4 KiB and its size.
uint64_t fingerprint(const std::string & path);

} // namespace slc
