// The cells of a KV cache that requests share, kept so that every text has its tokens in rising order. Part of
// llama.cpp's library: the set-up puts this file beside llama-kv-cache.cpp, and a patch there calls it
// (third_party/llama/patches/library).
//
// Sums of floats depend on their order, and attention sums over cells in theirs. llama.cpp fills the gaps that finished
// texts leave, so later tokens of a text may lie before earlier ones, depending on what else came and went. Here new
// tokens always go behind all others, and gaps are closed by moving cells down, which changes no order.
#include "llama-kv-cache.h"

#include <cstring>
#include <vector>

// compact makes the cells behind the last used one the next to be taken, and closes gaps when `more` tokens would not
// fit there or the gaps are a third of what attention walks over.
void llama_kv_cache::compact(uint32_t more) {
    in_order = n_stream == 1 && !v_trans && !other && v_cells_impl.use_count() == 1 && !get_has_shift();
    for (const kv_layer & l : layers) {
        for (const ggml_tensor * t : {l.k, l.v}) {
            const bool movable =
                !t || (t->data && ggml_backend_buffer_is_host(t->view_src ? t->view_src->buffer : t->buffer));
            in_order = in_order && movable;
        }
    }
    if (!in_order) {
        return; // then llama.cpp's own search for free cells is as good
    }
    auto & cells = v_cells[0];
    const uint32_t end = cells.used_max_p1(), used = cells.get_used(), gaps = end - used;
    v_heads[0] = end;
    if (gaps == 0 || (end + more <= cells.size() && gaps <= used / 2 + 256)) {
        return;
    }
    struct Run {
        uint32_t from, to, n; // cells
    };
    std::vector<Run> runs;
    std::vector<uint32_t> kept;
    for (uint32_t i = 0; i < end; i++) {
        if (cells.is_empty(i)) {
            continue;
        }
        const uint32_t to = (uint32_t) kept.size();
        kept.push_back(i);
        if (i == to) {
            continue;
        }
        if (!runs.empty() && runs.back().from + runs.back().n == i) {
            runs.back().n++;
        } else {
            runs.push_back({i, to, 1});
        }
    }
    for (const kv_layer & l : layers) {
        for (const ggml_tensor * t : {l.k, l.v}) {
            for (const Run & r : runs) {
                if (t) {
                    memmove((char *) t->data + r.to * t->nb[1], (char *) t->data + r.from * t->nb[1], r.n * t->nb[1]);
                }
            }
        }
    }
    const llama_kv_cells texts = cells.cp(kept);
    cells.reset();
    cells.set(0, texts);
    v_heads[0] = used;
}
