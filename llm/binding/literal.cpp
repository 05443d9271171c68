#include "literal.h"

#include "../slc_llm.h"

namespace slc {
namespace {

thread_local bool unmarking = false;

} // namespace

const std::string & literal_mark() {
    static const std::string mark(SLC_LLM_MARK), none;
    return unmarking ? mark : none;
}

Unmarking::Unmarking(bool on) {
    unmarking = on;
}

Unmarking::~Unmarking() {
    unmarking = false;
}

} // namespace slc
