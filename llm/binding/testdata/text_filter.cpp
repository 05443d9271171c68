// Runs TextFilter for llm/text_test.go. Input, in lines of hex: the stop strings, then
// the pieces. Output, in hex: a line per piece, then what finish gives; a piece that completed a stop string ends with
// "!".
#include "../text.h"

#include <iostream>
#include <string>
#include <vector>

static std::string unhex(const std::string & s) {
    std::string out;
    for (size_t i = 0; i + 1 < s.size(); i += 2) {
        out += (char) std::stoi(s.substr(i, 2), nullptr, 16);
    }
    return out;
}

static std::string hex(const std::string & s) {
    static const char digits[] = "0123456789abcdef";
    std::string out;
    for (unsigned char c : s) {
        out += digits[c >> 4];
        out += digits[c & 15];
    }
    return out;
}

static std::vector<std::string> read_list() {
    std::string line;
    std::getline(std::cin, line);
    std::vector<std::string> list((size_t) std::stoi(line));
    for (std::string & s : list) {
        std::getline(std::cin, line);
        s = unhex(line);
    }
    return list;
}

int main() {
    while (std::cin.peek() != EOF) {
        slc::TextFilter filter(read_list());
        bool stopped = false;
        for (const std::string & piece : read_list()) {
            std::string out;
            stopped = !stopped && filter.push(piece, out);
            std::cout << hex(out) << (stopped ? "!" : "") << "\n";
            if (stopped) {
                break;
            }
        }
        std::string rest;
        if (!stopped) {
            filter.finish(rest);
        }
        std::cout << hex(rest) << "\n" << hex(slc::escape_nul(rest)) << "\n.\n";
    }
}
