package gguf

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Inspect reads the header of a GGUF model (all of its files when it is split) and checks that it is whole and that it
// generates text; the tensors themselves are not read. isa is the instruction set that llama.cpp will run on (llm.ISA):
// it decides which weights are copied; empty when it is not known. Errors are ErrModel with the file and the reason.
func Inspect(path, isa string) (Model, error) { return inspect(path, isa, false) }

// InspectEncoder is Inspect for a model that gives vectors of texts: one of llama.cpp's encoders, or a generator.
func InspectEncoder(path, isa string) (Model, error) { return inspect(path, isa, true) }

func inspect(path, isa string, encode bool) (Model, error) {
	h, size, err := readHeader(path)
	if err != nil {
		return Model{}, err
	}
	m, err := h.model(path, encode)
	if err != nil {
		return Model{}, modelError(path, err)
	}
	m.Bytes = size
	parts, err := splitParts(path, h)
	if err != nil {
		return Model{}, modelError(path, err)
	}
	for _, part := range parts {
		ph, size, err := readHeader(part)
		if err != nil {
			return Model{}, err
		}
		m.Bytes += size
		m.Footprint.Weights += int64(ph.bytes)
		h.join(ph)
		if ph.loose != "" {
			h.loose = ph.loose
			return Model{}, modelError(part, h.checkAsserted(m.Architecture))
		}
	}
	m.Types = h.matrixTypes()
	m.Footprint.Repacked, m.Footprint.Extra = h.copies(isa)
	m.Parameters, m.Description = h.describe(m.Architecture)
	return m, nil
}

func modelError(path string, reason error) error {
	return fmt.Errorf("gguf: %s: %w: %w", path, ErrModel, reason)
}

func readHeader(path string) (h *header, size int64, err error) {
	defer func() {
		if err != nil {
			err = modelError(path, err)
		}
	}()
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, fmt.Errorf("%w; `sluice models list` shows what can be pulled", fs.ErrNotExist)
	case err != nil:
		return nil, 0, err
	case !st.Mode().IsRegular():
		return nil, 0, errors.New("not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	h, err = parse(f, st.Size())
	return h, st.Size(), err
}

func (h *header) model(path string, encode bool) (Model, error) {
	arch := h.text("general.architecture")
	m := Model{
		// general.name is free text, often odd
		Name:           strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)),
		Path:           path,
		Architecture:   arch,
		ContextTrained: h.number(arch + ".context_length"),
		Embedding:      h.number(arch + ".embedding_length"),
		ChatTemplate:   h.text("tokenizer.chat_template"),
		ToolTemplate:   h.text("tokenizer.chat_template.tool_use"),
		Pooling:        h.number(arch + ".pooling_type"),
	}
	kind := h.text("general.type")
	vocab := h.arrays[tokensKey]
	vectors, encoder := encoders[arch]
	switch {
	case arch == "":
		return m, errors.New("the header names no architecture (general.architecture)")
	case kind != "" && kind != "model":
		return m, fmt.Errorf("it is of type %.80q, not a model", kind)
	case encode && encoder && !vectors:
		return m, fmt.Errorf("a %s model does not give vectors of texts", arch)
	case !encode && encoder:
		return m, fmt.Errorf("a %s model does not generate text", arch)
	case h.tensors == 0:
		return m, errors.New("it has no tensors: a vocabulary only")
	case vocab == 0:
		return m, errors.New("it has no vocabulary (tokenizer.ggml.tokens)")
	case m.ContextTrained == 0:
		return m, fmt.Errorf("the header has no %s.context_length", arch)
	case m.Embedding == 0:
		return m, fmt.Errorf("the header has no %s.embedding_length", arch)
	}
	for _, key := range []string{"tokenizer.ggml.scores", "tokenizer.ggml.token_type"} {
		// llama.cpp indexes these by token without looking.
		if n, ok := h.arrays[key]; ok && n != vocab {
			return m, fmt.Errorf("%s has %d entries for %d tokens", key, n, vocab)
		}
	}
	if err := h.checkAsserted(arch); err != nil {
		return m, err
	}
	m.Footprint = h.footprint(arch)
	return m, nil
}

func (h *header) join(part *header) {
	for typ, n := range part.elements {
		h.elements[typ] += n
	}
	maps.Copy(h.products, part.products)
	for typ, n := range part.matrices {
		h.matrices[typ] += n
	}
	if part.tokens.bytes > 0 {
		h.tokens.typ, h.tokens.bytes = part.tokens.typ, part.tokens.bytes
	}
	h.tokens.output = h.tokens.output || part.tokens.output
}

// describe counts the parameters and names their most common type.
func (h *header) describe(arch string) (parameters int64, description string) {
	var limit uint64
	quant := ""
	for typ, n := range h.elements {
		parameters += int64(n)
		if n > limit || n == limit && typ < quant {
			limit, quant = n, typ
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
func splitParts(path string, h *header) ([]string, error) {
	n := h.number("split.count")
	if n <= 1 {
		return nil, nil
	}
	m := splitName.FindStringSubmatch(path)
	if m == nil || m[2] != fmt.Sprintf("%05d", n) {
		return nil, fmt.Errorf("a part of a model split into %d files: open the first, named …-00001-of-%05d.gguf",
			n, n)
	}
	var parts []string
	for i := 2; i <= n; i++ {
		parts = append(parts, fmt.Sprintf("%s-%05d-of-%05d.gguf", m[1], i, n))
	}
	return parts, nil
}

// matrixTypes returns the types of the weights that vectors are multiplied by, the token embedding's if it is also the
// output.
func (h *header) matrixTypes() []string {
	types := maps.Clone(h.products)
	if !h.tokens.output && h.tokens.typ != "" {
		types[h.tokens.typ] = true
	}
	return slices.Sorted(maps.Keys(types))
}
