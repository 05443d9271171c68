// An empty shell, like common.h.
#pragma once

#include <map>

namespace grammar_parser {

struct parse_state {
    std::map<std::string, uint32_t> symbol_ids;
    std::vector<int> rules;
    std::vector<const llama_grammar_element *> c_rules() { return {}; }
};

inline parse_state parse(const char *) {
    return {};
}

inline void print_grammar(FILE *, const parse_state &) {}

} // namespace grammar_parser
