// Limits of a chat template while it is parsed and rendered. llama.cpp's Jinja engine trusts its templates, but they
// come with model files: patches put calls of these functions into the engine (third_party/llama/patches/jinja).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace slc {

// Thrown when a template goes beyond its limits. Not a std::exception: the engine catches and decorates those.
struct JinjaLimit {
    const char * what;
};

// jinja_step counts work, with the bytes that an operation touches, and checks time and stack. Like the others it does
// nothing outside of a rendering.
void jinja_step(size_t bytes = 0);
// jinja_room is called before a value of this many bytes is made, jinja_charge for temporary ones, whose sum is
// limited.
void jinja_room(uint64_t bytes);
void jinja_charge(uint64_t bytes);
// jinja_find is string::find in linear time.
size_t jinja_find(const std::string & text, const std::string & part, size_t from = 0);
// jinja_search is asked before a search that may take the product of the two lengths.
void jinja_search(size_t text, size_t part);
// jinja_localtime is std::localtime for several threads.
struct ::tm * jinja_localtime(const int64_t * seconds);

// A member of each of the engine's values. It counts the values and their bytes, and lists them, so that values that
// keep each other alive can be found.
class JinjaNode {
public:
    JinjaNode() { enter(); }
    JinjaNode(const JinjaNode & other) {
        enter();
        hold(other.held_);
    }
    JinjaNode & operator=(const JinjaNode &) { return *this; }
    ~JinjaNode();
    void hold(uint64_t bytes);

private:
    friend struct JinjaBudget;
    void enter();
    void leave();
    JinjaNode * next_ = nullptr;
    JinjaNode ** link_ = nullptr; // what points to this node; null: not in the list
    uint64_t held_ = 0;
};

} // namespace slc
