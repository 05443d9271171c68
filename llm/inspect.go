package llm

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// encoders are the architectures of llama.cpp that embed, transcribe or synthesise instead of generating text.
var encoders = map[string]bool{
	"bert": true, "nomic-bert": true, "nomic-bert-moe": true, "neo-bert": true, "jina-bert-v2": true, "jina-bert-v3": true,
	"modern-bert": true, "eurobert": true, "gemma-embedding": true, "llama-embed": true, "t5encoder": true, "t5": true,
	"clip": true, "wavtokenizer-dec": true,
}

// Inspect reads the header of a GGUF model (all of its files when it is split) and checks that it is whole and that it
// generates text; the tensors themselves are not read. It needs no llama.cpp. Errors are ErrModel with the file and the
// reason. SHA256 is left empty.
func Inspect(path string) (Info, error) {
	h, size, err := readHeader(path)
	if err != nil {
		return Info{}, err
	}
	info, err := h.info(path)
	if err != nil {
		return Info{}, modelError(path, err)
	}
	info.Bytes = size
	parts, err := splitParts(path, h)
	if err != nil {
		return Info{}, modelError(path, err)
	}
	for _, part := range parts {
		ph, size, err := readHeader(part)
		if err != nil {
			return Info{}, err
		}
		info.Bytes += size
		info.Footprint.Weights += int64(ph.bytes)
		h.join(ph)
		if ph.loose != "" {
			h.loose = ph.loose
			return Info{}, modelError(part, h.checkAsserted(info.Architecture))
		}
	}
	info.Footprint.Repacked, info.Footprint.Extra = h.copies(ISA())
	info.Parameters, info.Description = h.describe(info.Architecture)
	return info, nil
}

func modelError(path string, reason error) error {
	return fmt.Errorf("llm: %s: %w: %w", path, ErrModel, reason)
}

func readHeader(path string) (*ggufHeader, int64, error) {
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, modelError(path, fmt.Errorf("%w; `sluice models list` shows what can be pulled", fs.ErrNotExist))
	}
	if err != nil {
		return nil, 0, modelError(path, err)
	}
	if !st.Mode().IsRegular() {
		return nil, 0, modelError(path, errors.New("not a regular file"))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, modelError(path, err)
	}
	defer f.Close()
	h, err := parseGGUF(f, st.Size())
	if err != nil {
		return nil, 0, modelError(path, err)
	}
	return h, st.Size(), nil
}

func (h *ggufHeader) text(key string) string {
	s, _ := h.values[key].(string)
	return s
}

// number returns a non-negative integer value, 0 when there is none.
func (h *ggufHeader) number(key string) int { return natural(h.values[key]) }

func (h *ggufHeader) info(path string) (Info, error) {
	arch := h.text("general.architecture")
	info := Info{
		Name:           strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), // general.name is free text, often odd
		Path:           path,
		Architecture:   arch,
		ContextTrained: h.number(arch + ".context_length"),
		Embedding:      h.number(arch + ".embedding_length"),
		ChatTemplate:   h.text("tokenizer.chat_template"),
	}
	kind := h.text("general.type")
	vocab := h.arrays["tokenizer.ggml.tokens"]
	switch {
	case arch == "":
		return info, errors.New("the header names no architecture (general.architecture)")
	case kind != "" && kind != "model":
		return info, fmt.Errorf("it is of type %q, not a model", kind)
	case encoders[arch]:
		return info, fmt.Errorf("a %s model does not generate text", arch)
	case h.tensors == 0:
		return info, errors.New("it has no tensors: a vocabulary only")
	case vocab == 0:
		return info, errors.New("it has no vocabulary (tokenizer.ggml.tokens)")
	case info.ContextTrained == 0:
		return info, fmt.Errorf("the header has no %s.context_length", arch)
	case info.Embedding == 0:
		return info, fmt.Errorf("the header has no %s.embedding_length", arch)
	}
	for _, key := range []string{"tokenizer.ggml.scores", "tokenizer.ggml.token_type"} {
		// llama.cpp indexes these by token without looking.
		if n, ok := h.arrays[key]; ok && n != vocab {
			return info, fmt.Errorf("%s has %d entries for %d tokens", key, n, vocab)
		}
	}
	if err := h.checkAsserted(arch); err != nil {
		return info, err
	}
	info.Footprint = h.footprint(arch)
	return info, nil
}

// headWidth is the number of elements of a head's keys, the largest where layers differ; 0 if there is no attention.
func (h *ggufHeader) headWidth(arch string) int {
	prefix := arch + ".attention."
	width := max(h.number(prefix+"key_length"), h.number(prefix+"key_length_swa"), h.number(prefix+"key_length_mla"))
	for il := range min(h.number(arch+".block_count"), maxLayers) {
		if heads := h.layer(prefix+"head_count", il, 0); heads > 0 {
			width = max(width, h.layer(prefix+"key_length", il, h.number(arch+".embedding_length")/heads))
		}
	}
	return width
}

// checkAsserted refuses what llama.cpp's llama_model::load_hparams, or ggml's rope, would end the process for.
func (h *ggufHeader) checkAsserted(arch string) error {
	layers, drafts := h.number(arch+".block_count"), h.number(arch+".nextn_predict_layers")
	scaling, scaled := h.values[arch+".rope.scaling.type"]
	rotated := max(h.number(arch+".rope.dimension_count"), h.number(arch+".rope.dimension_count_swa"))
	width := h.headWidth(arch)
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
	case width > 0 && (rotated > width || rotated%2 != 0):
		return fmt.Errorf("%s.rope.dimension_count is %d, not an even number of at most the %d of a head", arch, rotated, width)
	case h.loose != "":
		return fmt.Errorf("its experts are in tensors of their own (%s), as files from before April 2024 have them; "+
			"llama.cpp does not read these any more: take a newer conversion of the model", h.loose)
	}
	return h.checkExperts(arch)
}

func (h *ggufHeader) checkExperts(arch string) error {
	experts, used := h.number(arch+".expert_count"), 0
	for il := range h.number(arch + ".block_count") {
		used = max(used, h.layer(arch+".expert_used_count", il, 0))
	}
	groups, usedGroups := h.number(arch+".expert_group_count"), h.number(arch+".expert_group_used_count")
	switch {
	case experts > maxExperts || used > experts || experts > 0 && used == 0:
		return fmt.Errorf("%d of %d experts are used (%s.expert_used_count, expert_count); llama.cpp takes at most %d", used, experts, arch, maxExperts)
	case experts > 0 && groups >= experts, groups > 1 && (experts%groups != 0 || usedGroups < 1 || usedGroups >= groups):
		return fmt.Errorf("%d of %d groups of %d experts are used (%s.expert_group_count): they do not go together", usedGroups, groups, experts, arch)
	}
	return nil
}

// join adds another file's tensors.
func (h *ggufHeader) join(part *ggufHeader) {
	for typ, n := range part.elements {
		h.elements[typ] += n
	}
	for typ, n := range part.matrices {
		h.matrices[typ] += n
	}
	if part.tokens.bytes > 0 {
		h.tokens.typ, h.tokens.bytes = part.tokens.typ, part.tokens.bytes
	}
	h.tokens.output = h.tokens.output || part.tokens.output
}

// describe counts parameters and names the type most of them have.
func (h *ggufHeader) describe(arch string) (parameters int64, description string) {
	var most uint64
	quant := ""
	for typ, n := range h.elements {
		parameters += int64(n)
		if n > most || n == most && typ < quant {
			most, quant = n, typ
		}
	}
	count := fmt.Sprintf("%.1f M", float64(parameters)/1e6)
	if parameters >= 1e9 {
		count = fmt.Sprintf("%.2f B", float64(parameters)/1e9)
	}
	return parameters, fmt.Sprintf("%s, %s parameters, %s", arch, count, quant)
}

var splitName = regexp.MustCompile(`^(.*)-00001-of-(\d{5})\.gguf$`)

// splitParts returns the other files of a model that is split into several, by llama.cpp's naming.
func splitParts(path string, h *ggufHeader) ([]string, error) {
	n := h.number("split.count")
	if n <= 1 {
		return nil, nil
	}
	m := splitName.FindStringSubmatch(path)
	if m == nil || m[2] != fmt.Sprintf("%05d", n) {
		return nil, fmt.Errorf("a part of a model split into %d files: open the first, named …-00001-of-%05d.gguf", n, n)
	}
	var parts []string
	for i := 2; i <= n; i++ {
		parts = append(parts, fmt.Sprintf("%s-%05d-of-%05d.gguf", m[1], i, n))
	}
	return parts, nil
}

func fileSHA256(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
