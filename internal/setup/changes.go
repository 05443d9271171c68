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

// windowEdits let caches of sliding windows keep all tokens. Upstream's take, for new tokens, cells that the window of their text
// has left behind, and save states without them; a prompt that begins like a remembered text would then be read with holes. They
// are in the library, not in upstream's programs beside it, as are attentionEdits.
var windowEdits = []edit{
	{file: "src/llama-kv-cache.cpp", old: "if (!can_use && cells.seq_count(idx) == 1) {", new: "if (false) {"},
	{file: "src/llama-kv-cache.cpp", old: "const bool is_masked = llama_hparams::is_masked_swa(n_swa, swa_type, cells.pos_get(i), cells.seq_pos_max(seq_id));",
		new: "const bool is_masked = false;"},
}

// attentionEdits let ggml's CPU code ask third_party/llama/ggml/attention.h first.
var attentionEdits = []edit{
	after("ggml/src/ggml-cpu/ops.cpp", "#include <algorithm>\n#include <cfloat>\n#include <cmath>\n", "\n#include \"attention.h\"\n"),
	after("ggml/src/ggml-cpu/ops.cpp", "static void ggml_compute_forward_flash_attn_ext_f16(\n        const ggml_compute_params * params,\n        ggml_tensor * dst) {\n",
		"    if (slc::attention(params, dst)) {\n        return;\n    }\n"),
}

func (e *Env) attentionHeader() string {
	return filepath.Join(e.Repo, "third_party", "llama", "ggml", "attention.h")
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
