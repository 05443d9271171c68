#include "text.h"

#include <cstring>

#include <algorithm>

namespace slc {
namespace {

const char kReplacement[] = "\xEF\xBF\xBD"; // U+FFFD

// Length of the rune at s (Unicode 15, table 3-7), 0 when the bytes so far are a beginning only, -k when the first k
// bytes can belong to no rune (k is the maximal subpart, as the standard recommends for U+FFFD).
int rune_length(const unsigned char * s, size_t n) {
    const unsigned char lead = s[0];
    if (lead < 0x80) {
        return 1;
    }
    int need;
    unsigned char low = 0x80, high = 0xBF; // bounds of the second byte
    if (lead >= 0xC2 && lead <= 0xDF) {
        need = 2;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
        need = 3;
        low = lead == 0xE0 ? 0xA0 : 0x80;
        high = lead == 0xED ? 0x9F : 0xBF;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
        need = 4;
        low = lead == 0xF0 ? 0x90 : 0x80;
        high = lead == 0xF4 ? 0x8F : 0xBF;
    } else {
        return -1;
    }
    for (int i = 1; i < need; i++) {
        if ((size_t) i >= n) {
            return 0;
        }
        if (s[i] < low || s[i] > high) {
            return -i;
        }
        low = 0x80;
        high = 0xBF;
    }
    return need;
}

} // namespace

TextFilter::TextFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {
    stops_.erase(std::remove(stops_.begin(), stops_.end(), std::string()), stops_.end());
    for (const std::string & stop : stops_) {
        longest_ = std::max(longest_, stop.size());
    }
}

void TextFilter::settle_runes() {
    size_t at = 0;
    while (at < bytes_.size()) {
        const auto * s = reinterpret_cast<const unsigned char *>(bytes_.data()) + at;
        int n = rune_length(s, bytes_.size() - at);
        if (n > 0) {
            text_.append(bytes_, at, (size_t) n);
        } else if (n < 0) {
            text_ += kReplacement;
            n = -n;
        } else {
            break;
        }
        at += (size_t) n;
    }
    bytes_.erase(0, at);
}

// Length of the longest end of text_ that begins a stop string.
size_t TextFilter::held_back() const {
    for (size_t n = std::min(longest_ ? longest_ - 1 : 0, text_.size()); n > 0; n--) {
        for (const std::string & stop : stops_) {
            if (stop.size() > n && text_.compare(text_.size() - n, n, stop, 0, n) == 0) {
                return n;
            }
        }
    }
    return 0;
}

bool TextFilter::push(const std::string & piece, std::string & out) {
    bytes_ += piece;
    settle_runes();
    size_t cut = std::string::npos;
    for (const std::string & stop : stops_) {
        cut = std::min(cut, text_.find(stop)); // text_ holds little more than the longest stop
    }
    const size_t ready = cut != std::string::npos ? cut : text_.size() - held_back();
    out.append(text_, 0, ready);
    text_.erase(0, ready);
    if (cut == std::string::npos) {
        return false;
    }
    text_.clear();
    bytes_.clear();
    return true;
}

void TextFilter::finish(std::string & out) {
    out += text_;
    text_.clear();
    bytes_.clear();
}

bool is_utf8(const std::string & bytes, std::string & rest) {
    size_t at = 0;
    while (at < bytes.size()) {
        const int n = rune_length(reinterpret_cast<const unsigned char *>(bytes.data()) + at, bytes.size() - at);
        if (n < 0) {
            return false;
        }
        if (n == 0) {
            break;
        }
        at += (size_t) n;
    }
    rest = bytes.substr(at);
    return true;
}

std::string escape_nul(const std::string & text) {
    if (text.find('\0') == std::string::npos) {
        return text;
    }
    std::string escaped;
    for (char c : text) {
        escaped += c ? std::string(1, c) : std::string("\xC0\x80");
    }
    return escaped;
}

void copy_text(const char * text, char * out, size_t size) {
    if (size > 0) {
        const size_t n = strnlen(text, size - 1);
        memcpy(out, text, n);
        out[n] = '\0';
    }
}

} // namespace slc
