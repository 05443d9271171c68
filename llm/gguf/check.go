package gguf

import "fmt"

// encoders are the architectures of llama.cpp that embed, transcribe or synthesise instead of generating text: whether
// they give vectors of texts here.
var encoders = map[string]bool{
	"bert": true, "nomic-bert": true, "nomic-bert-moe": true, "neo-bert": true, "jina-bert-v2": true,
	"jina-bert-v3": true, "modern-bert": true, "eurobert": true, "gemma-embedding": true, "llama-embed": true,
	"t5encoder": false, "t5": false, "clip": false, "wavtokenizer-dec": false,
}

// unrotated are the architectures with attention that never call ggml's rope.
var unrotated = map[string]bool{
	"gpt2": true, "gptj": true, "mpt": true, "refact": true, "bloom": true, "jais": true, "jamba": true,
	"nemotron_h": true, "nemotron_h_moe": true, "kimi-linear": true, "kimi-k3": true,
}

// headWidth returns the number of elements of a head's keys, the largest where layers differ; 0 without attention.
func (h *header) headWidth(arch string) int {
	prefix := arch + ".attention."
	width := max(h.number(prefix+"key_length"), h.number(prefix+"key_length_swa"), h.number(prefix+"key_length_mla"))
	for il := range min(h.number(arch+".block_count"), maxLayers) {
		if heads := h.layer(prefix+"head_count", il, 0); heads > 0 {
			width = max(width, h.layer(prefix+"key_length", il, h.number(arch+".embedding_length")/heads))
		}
	}
	return width
}

// checkRope refuses widths on which ggml's rope would assert or loop for ever: it skips the rotated elements of a head
// by adding their number.
func (h *header) checkRope(arch string) error {
	width := h.headWidth(arch)
	for _, key := range []string{"dimension_count", "dimension_count_swa"} {
		key = arch + ".rope." + key
		rotated := h.number(key)
		if _, set := h.values[key]; !set || width == 0 {
			continue
		}
		if rotated == 0 && (unrotated[arch] || h.values[arch+".rope.scaling.finetuned"] == false) {
			continue
		}
		if rotated < 2 || rotated > width || rotated%2 != 0 {
			return fmt.Errorf("%s is %d, not an even number between 2 and the %d of a head", key, rotated, width)
		}
	}
	return nil
}

// checkAsserted refuses what llama.cpp's llama_model::load_hparams, or ggml's rope, would abort on.
func (h *header) checkAsserted(arch string) error {
	layers, drafts := h.number(arch+".block_count"), h.number(arch+".nextn_predict_layers")
	scaling, scaled := h.values[arch+".rope.scaling.type"]
	for _, key := range []string{"layer_norm_rms_epsilon", "layer_norm_epsilon", "group_norm_epsilon"} {
		key = arch + ".attention." + key
		if v, ok := h.values[key].(float64); ok && !(v >= 0 && v <= 1) {
			return fmt.Errorf("%s is %v, not between 0 and 1", key, v)
		}
	}
	switch {
	case layers < 1 || layers > maxLayers:
		return fmt.Errorf("%s.block_count is %d, not between 1 and %d", arch, layers, maxLayers)
	case drafts > layers:
		return fmt.Errorf("%s.nextn_predict_layers is %d, more than the %d layers", arch, drafts, layers)
	case scaled && scaling != "none" && scaling != "linear" && scaling != "yarn" && scaling != "longrope":
		return fmt.Errorf("%s.rope.scaling.type is %v, which llama.cpp does not know", arch, scaling)
	case h.loose != "":
		return fmt.Errorf("its experts are in tensors of their own (%s), as files from before April 2024 have them; "+
			"llama.cpp does not read these any more: take a newer conversion of the model", h.loose)
	}
	if err := h.checkRope(arch); err != nil {
		return err
	}
	return h.checkExperts(arch)
}

func (h *header) checkExperts(arch string) error {
	experts, used := h.number(arch+".expert_count"), 0
	for il := range h.number(arch + ".block_count") {
		used = max(used, h.layer(arch+".expert_used_count", il, 0))
	}
	groups, usedGroups := h.number(arch+".expert_group_count"), h.number(arch+".expert_group_used_count")
	switch {
	case experts > maxExperts || used > experts || experts > 0 && used == 0:
		return fmt.Errorf("%d of %d experts are used (%s.expert_used_count, expert_count); llama.cpp takes at most %d",
			used, experts, arch, maxExperts)
	case experts > 0 && groups >= experts, groups > 1 &&
		(experts%groups != 0 || usedGroups < 1 || usedGroups >= groups):
		return fmt.Errorf("%d of %d groups of %d experts are used (%s.expert_group_count): they do not go together",
			usedGroups, groups, experts, arch)
	}
	return nil
}
