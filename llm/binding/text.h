// From token pieces to text that may be shown: whole UTF-8 runes only, and nothing that may still become a stop string.
#pragma once

#include <string>
#include <vector>

namespace slc {

class TextFilter {
public:
    explicit TextFilter(std::vector<std::string> stops);

    // Takes a piece, appends to out what is settled. Returns true when a stop string is complete; the text before it
    // has then been appended, the stop string and what follows it are dropped.
    bool push(const std::string & piece, std::string & out);
    // Appends what was held back: no stop string can complete any more. The beginning of a rune is dropped; its end was
    // to come with a token that is never made.
    void finish(std::string & out);

private:
    void settle_runes(); // malformed bytes become U+FFFD
    size_t held_back() const;

    std::vector<std::string> stops_;
    size_t longest_ = 0;
    std::string bytes_; // not yet known to be whole runes
    std::string text_;  // whole runes, not yet given out
};

// Whether the bytes are whole runes of UTF-8, but for the beginning of one at the end, which goes to rest.
bool is_utf8(const std::string & bytes, std::string & rest);

// A C string cannot hold NUL. It travels as the overlong pair C0 80, which no valid UTF-8 contains.
std::string escape_nul(const std::string & text);

// Copies text to out, of which size bytes may be written, cut to fit and NUL-terminated.
void copy_text(const char * text, char * out, size_t size);

} // namespace slc
