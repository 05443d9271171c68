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

// ownEdits are for the library, not for upstream's programs beside it: third_party/llama/ggml/attention.h, and caches of
// sliding windows that keep all tokens. Upstream's take, for new tokens, cells that the window of their text has left behind, and
// save states without them; a prompt that begins like a remembered text would then be read with holes.
func ownEdits() []edit {
	const ops, cache = "ggml/src/ggml-cpu/ops.cpp", "src/llama-kv-cache.cpp"
	return []edit{
		after(ops, "#include <algorithm>\n#include <cfloat>\n#include <cmath>\n", "\n#include \"attention.h\"\n"),
		after(ops, "static void ggml_compute_forward_flash_attn_ext_f16(\n        const ggml_compute_params * params,\n        ggml_tensor * dst) {\n",
			"    if (slc::attention(params, dst)) {\n        return;\n    }\n"),
		{file: cache, old: "if (!can_use && cells.seq_count(idx) == 1) {", new: "if (false) {"},
		{file: cache, old: "const bool is_masked = llama_hparams::is_masked_swa(n_swa, swa_type, cells.pos_get(i), cells.seq_pos_max(seq_id));",
			new: "const bool is_masked = false;"},
	}
}

// ownChanges changes an extracted tree for the library.
func (e *Env) ownChanges(src string) error {
	if err := editFiles(src, ownEdits()); err != nil {
		return err
	}
	return copyInto(filepath.Join(src, "ggml", "src", "ggml-cpu"), e.attentionHeader())
}

func (e *Env) attentionHeader() string {
	return filepath.Join(e.Repo, "third_party", "llama", "ggml", "attention.h")
}

// ownInputs are those of the library's recipes.
func ownInputs(ctx context.Context, e *Env) ([]string, error) {
	in, err := llamaInputs(ctx, e)
	if err != nil {
		return nil, err
	}
	for _, c := range ownEdits() {
		in = append(in, c.file, c.old, c.new)
	}
	header, err := fetch.HashFile(e.attentionHeader())
	return append(in, header), err
}
