#include "state.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>

#include <unistd.h>

namespace slc {
namespace {

constexpr char kMagic[8] = {'S', 'L', 'C', 'K', 'V', '0', '0', '1'};

struct Header {
    char magic[8];
    uint64_t model, tokens, bytes;
};

// FNV-1a over words of 8 bytes: it finds damage, not forgery.
class Sum {
public:
    void add(const void * data, size_t n) {
        const auto * p = static_cast<const uint8_t *>(data);
        for (; n >= 8; p += 8, n -= 8) {
            uint64_t word;
            memcpy(&word, p, 8);
            step(word);
        }
        for (; n > 0; p++, n--) {
            step(*p);
        }
    }
    uint64_t value() const { return sum_; }

private:
    void step(uint64_t word) {
        sum_ = (sum_ ^ word) * 0x100000001b3u;
        sum_ ^= sum_ >> 29; // words, unlike bytes, need their high bits mixed in
    }
    uint64_t sum_ = 0xcbf29ce484222325u;
};

struct Close {
    void operator()(FILE * f) const { fclose(f); }
};
using File = std::unique_ptr<FILE, Close>;

std::runtime_error failure(const std::string & path, const std::string & why) {
    return std::runtime_error(path + ": " + why);
}

File open(const std::string & path, const char * mode) {
    File f(fopen(path.c_str(), mode));
    if (!f) {
        throw failure(path, strerror(errno));
    }
    return f;
}

bool write_all(FILE * f, const void * data, size_t n) {
    return n == 0 || fwrite(data, 1, n, f) == n;
}

bool read_all(FILE * f, void * data, size_t n) {
    return n == 0 || fread(data, 1, n, f) == n;
}

uint64_t size_of(FILE * f, const std::string & path) {
    if (fseeko(f, 0, SEEK_END) != 0) {
        throw failure(path, strerror(errno));
    }
    const off_t size = ftello(f);
    rewind(f);
    return size < 0 ? 0 : (uint64_t) size;
}

uint64_t checksum(const Header & h, const SavedSequence & s) {
    Sum sum;
    sum.add(&h, sizeof h);
    sum.add(s.tokens.data(), s.tokens.size() * sizeof s.tokens[0]);
    sum.add(s.data.data(), s.data.size());
    return sum.value();
}

} // namespace

void write_saved(const std::string & path, uint64_t model, const SavedSequence & s) {
    const std::string part = path + ".part";
    Header h{};
    memcpy(h.magic, kMagic, sizeof kMagic);
    h.model = model;
    h.tokens = s.tokens.size();
    h.bytes = s.data.size();
    const uint64_t sum = checksum(h, s);
    File f = open(part, "wb");
    bool ok = write_all(f.get(), &h, sizeof h) &&
              write_all(f.get(), s.tokens.data(), s.tokens.size() * sizeof s.tokens[0]) &&
              write_all(f.get(), s.data.data(), s.data.size()) && write_all(f.get(), &sum, sizeof sum) &&
              fflush(f.get()) == 0 && fsync(fileno(f.get())) == 0;
    f.reset();
    if (!ok || rename(part.c_str(), path.c_str()) != 0) {
        const std::string why = strerror(errno);
        unlink(part.c_str());
        throw failure(path, "the state cannot be written: " + why);
    }
}

SavedSequence read_saved(const std::string & path, uint64_t model, size_t max_tokens) {
    File f = open(path, "rb");
    const uint64_t size = size_of(f.get(), path);
    Header h;
    if (!read_all(f.get(), &h, sizeof h) || memcmp(h.magic, kMagic, sizeof kMagic) != 0) {
        throw failure(path, "it is not a saved state");
    }
    if (h.tokens > size || h.bytes > size ||
        size != sizeof h + h.tokens * sizeof(llama_token) + h.bytes + sizeof(uint64_t)) {
        throw failure(path, "the saved state is cut or damaged: it has " + std::to_string(size) + " bytes");
    }
    if (h.model != model) {
        throw failure(path, "the state was saved with another model");
    }
    if (h.tokens == 0 || h.tokens > max_tokens) {
        throw failure(path, "the state has " + std::to_string(h.tokens) + " tokens, this model's context at most " +
                                std::to_string(max_tokens));
    }
    SavedSequence s;
    s.tokens.resize(h.tokens);
    s.data.resize(h.bytes);
    uint64_t sum;
    if (!read_all(f.get(), s.tokens.data(), h.tokens * sizeof(llama_token)) ||
        !read_all(f.get(), s.data.data(), h.bytes) || !read_all(f.get(), &sum, sizeof sum) || sum != checksum(h, s)) {
        throw failure(path, "the saved state is damaged");
    }
    return s;
}

uint64_t fingerprint(const std::string & path) {
    constexpr uint64_t kPieces = 64;
    File f = open(path, "rb");
    const uint64_t size = size_of(f.get(), path);
    Sum sum;
    sum.add(&size, sizeof size);
    std::vector<uint8_t> piece(4096);
    for (uint64_t i = 0; i < kPieces; i++) {
        if (fseeko(f.get(), (off_t) (size / kPieces * i), SEEK_SET) != 0) {
            throw failure(path, strerror(errno));
        }
        sum.add(piece.data(), fread(piece.data(), 1, piece.size(), f.get()));
    }
    return sum.value();
}

} // namespace slc
