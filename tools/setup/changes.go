package setup

import (
	"context"
	"path/filepath"

	"github.com/sluice-rag/sluice/internal/fetch"
)

// What the set-up changes in llama.cpp's sources. Each edit names the text that it replaces, so that another version of llama.cpp
// stops the build instead of being changed elsewhere.

// ggmlEdits mend what gcc 12 makes of _tile_loadconfig: it takes the operand for 8 bytes instead of 64, leaves out the stores
// of the rest (GCC bug 114098), and the processor refuses the configuration.
var ggmlEdits = []edit{{
	file: "ggml/src/ggml-cpu/amx/mmq.cpp", old: "    _tile_loadconfig(&tc);\n", new: "    asm volatile(\"ldtilecfg %0\" :: \"m\"(tc));\n",
}}

// cacheEdits are of the caches of keys and values. They are in the library, not in upstream's programs beside it, as are cpuEdits.
//   - Caches of sliding windows keep all tokens. Upstream's take, for new tokens, cells that the window of their text has left behind,
//     and save states without them; a prompt that begins like a remembered text would then be read with holes.
//   - Texts keep their tokens in rising order of cells: llm/ggml/compact.cpp says why.
var cacheEdits = []edit{
	{file: "src/llama-kv-cache.cpp", old: "if (!can_use && cells.seq_count(idx) == 1) {", new: "if (false) {"},
	{file: "src/llama-kv-cache.cpp", old: "const bool is_masked = llama_hparams::is_masked_swa(n_swa, swa_type, cells.pos_get(i), cells.seq_pos_max(seq_id));",
		new: "const bool is_masked = false;"},

	after("src/CMakeLists.txt", " llama-kv-cache.cpp\n", " compact.cpp\n"),
	after("src/llama-kv-cache.h", "    slot_info find_slot(const llama_ubatch & ubatch, bool cont) const;\n",
		"\n    void compact(uint32_t more);\n    bool in_order = false; // compact() was asked and can move cells\n"),
	{file: "src/llama-kv-cache.cpp", old: "if (head_cur > cells.get_used() + 2*n_tokens) {", new: "if (!in_order && head_cur > cells.get_used() + 2*n_tokens) {"},
	{file: "src/llama-kv-cache.cpp", old: "            sinfo = find_slot(ubatch, false);\n",
		new: "            if (in_order) {\n                compact(cell_count);\n            }\n            sinfo = find_slot(ubatch, false);\n"},
	before("src/llama-kv-cache.cpp", "        auto sinfos = prepare(ubatches);\n", "        compact(balloc.get_n_tokens());\n"),
	before("src/llama-kv-cache-iswa.cpp", "    // first try simple split\n",
		"    kv_base->compact(balloc.get_n_tokens());\n    kv_swa->compact(balloc.get_n_tokens());\n"),
	before("src/llama-memory-hybrid.cpp", "        auto heads_attn = mem_attn->prepare(ubatches);\n", "        mem_attn->compact(balloc.get_n_tokens());\n"),
	before("src/llama-memory-hybrid-iswa.cpp", "        auto sinfos_base = mem_attn->get_base()->prepare(ubatches);\n",
		"        mem_attn->get_base()->compact(balloc.get_n_tokens());\n        mem_attn->get_swa()->compact(balloc.get_n_tokens());\n"),
}

// cpuEdits let ggml's CPU code ask attention.h and matmul.h of llm/ggml first; ask the system for AMX once instead of
// twice an operation; quantise rows of 256 with vectors; and fetch weights early for a product of one row, which waits for
// nothing but these.
var cpuEdits = []edit{
	after("ops.cpp", "#include <algorithm>\n#include <cfloat>\n#include <cmath>\n", "\n#include \"attention.h\"\n"),
	after("ops.cpp", "static void ggml_compute_forward_flash_attn_ext_f16(\n        const ggml_compute_params * params,\n        ggml_tensor * dst) {\n",
		"    if (slc::attention(params, dst)) {\n        return;\n    }\n"),
	{file: "amx/amx.cpp", old: "    if (!ggml_amx_init()) {\n        return nullptr;\n    }\n\n    return &ggml_backend_buffer_type_amx;",
		new: "    static const bool ready = ggml_amx_init();\n    return ready ? &ggml_backend_buffer_type_amx : nullptr;"},
	{file: "amx/mmq.cpp", times: 7, old: "            const char * b_ptr = B + PACKED_INDEX(col, i, KB, TILE_SIZE);\n",
		new: "            const char * b_ptr = B + PACKED_INDEX(col, i, KB, TILE_SIZE);\n" +
			"            for (int p = 0; p < TILE_SIZE; p += 64) {\n                _mm_prefetch(b_ptr + 4 * TILE_SIZE + p, _MM_HINT_T0);\n            }\n"},
	{file: "amx/mmq.cpp", old: "    if (done) {\n        return;\n    }\n\n    alignas(64) tile_config_t tc", new: "    alignas(64) tile_config_t tc"}, // ours may be loaded
	{file: "amx/mmq.cpp", old: "// quantize A from float to `vec_dot_type`\n", new: "} // namespace\n#include \"quantize.h\"\nnamespace {\n\n"},
	{file: "amx/mmq.cpp", old: "    quantize_row_q8_K_ref(x, (block_q8_K *)vy, k);\n", new: "    slc::quantize(x, (block_q8_K *)vy, k);\n"},
	before("amx/mmq.cpp", "size_t ggml_backend_amx_desired_wsize(const", "#include \"matmul.h\"\n\n"),
	{file: "amx/mmq.cpp", old: "        desired_wsize = n_batch * M * row_size_A;\n    });",
		new: "        desired_wsize = n_batch * M * row_size_A + slc::workspace<type>(M, dst->ne[0], K / blck_size, n_batch);\n    });"},
	before("amx/mmq.cpp", "    // pointer to work space, used convert A from float to quantized type\n",
		"    bool done = false;\n    GGML_DISPATCH_QTYPES(TYPE, [&] { done = slc::matmul<type>(params, dst, K / blck_size); });\n    if (done) {\n        return;\n    }\n\n"),
}

func (e *Env) compactSource() string {
	return filepath.Join(e.Repo, "llm", "ggml", "compact.cpp")
}

// cpuHeaders are our files in ggml's CPU code.
func (e *Env) cpuHeaders() []string {
	dir := filepath.Join(e.Repo, "llm", "ggml")
	return []string{filepath.Join(dir, "attention.h"), filepath.Join(dir, "matmul.h"), filepath.Join(dir, "quantize.h")}
}

// inputsWith are those of llama.cpp with edits and files.
func inputsWith(ctx context.Context, e *Env, edits []edit, files ...string) ([]string, error) {
	in, err := llamaInputs(ctx, e)
	if err != nil {
		return nil, err
	}
	for _, c := range edits {
		in = append(in, c.file, c.old, c.new)
	}
	for _, f := range files {
		sum, err := fetch.HashFile(f)
		if err != nil {
			return nil, err
		}
		in = append(in, sum)
	}
	return in, nil
}
