package gguf

import (
	"math"
	"math/bits"
	"regexp"
)

// tensorType is a tensor type: block elements are stored in size bytes.
type tensorType struct {
	name        string
	block, size uint64
}

// tensorTypes are the types of ggml 0.25 (ggml.h, ggml-common.h); types that were removed have no name.
var tensorTypes = [...]tensorType{
	0: {"F32", 1, 4}, 1: {"F16", 1, 2}, 2: {"Q4_0", 32, 18}, 3: {"Q4_1", 32, 20}, 6: {"Q5_0", 32, 22},
	7: {"Q5_1", 32, 24}, 8: {"Q8_0", 32, 34}, 9: {"Q8_1", 32, 36}, 10: {"Q2_K", 256, 84}, 11: {"Q3_K", 256, 110},
	12: {"Q4_K", 256, 144},
	13: {"Q5_K", 256, 176}, 14: {"Q6_K", 256, 210}, 15: {"Q8_K", 256, 292}, 16: {"IQ2_XXS", 256, 66},
	17: {"IQ2_XS", 256, 74}, 18: {"IQ3_XXS", 256, 98}, 19: {"IQ1_S", 256, 50}, 20: {"IQ4_NL", 32, 18},
	21: {"IQ3_S", 256, 110}, 22: {"IQ2_S", 256, 82},
	23: {"IQ4_XS", 256, 136}, 24: {"I8", 1, 1}, 25: {"I16", 1, 2}, 26: {"I32", 1, 4}, 27: {"I64", 1, 8},
	28: {"F64", 1, 8}, 29: {"IQ1_M", 256, 56}, 30: {"BF16", 1, 2}, 34: {"TQ1_0", 256, 54}, 35: {"TQ2_0", 256, 66},
	39: {"MXFP4", 32, 17},
	40: {"NVFP4", 64, 36}, 41: {"Q1_0", 128, 18}, 42: {"Q2_0", 64, 18},
}

// noProducts are the types that ggml cannot multiply with.
var noProducts = map[string]bool{
	"Q8_1": true, "Q8_K": true, "I8": true, "I16": true, "I32": true, "I64": true, "F64": true,
}

// tokenTable is the token embedding, which is also the output matrix if the model has no other.
type tokenTable struct {
	typ    string
	bytes  uint64
	output bool // there is an output matrix
}

var looseExpert = regexp.MustCompile(`^blk\.\d+\.ffn_(gate|up|down)\.\d+\.weight$`)

// readTensors checks that each tensor lies where the one before it ends, and all within the file, as llama.cpp demands.
func (h *header) readTensors(g *reader, n, align uint64) {
	seen := make(map[string]bool, n)
	var end uint64 // of the data so far, relative to the data's start
	var last string
	var exact uint64
	for range n {
		name := g.str(maxName, false)
		if seen[name] {
			g.fail("tensor %q comes twice", name)
		}
		seen[name] = true
		typ, elements, bytes := g.tensorSize(name)
		offset := g.u64()
		if offset != end {
			g.fail("tensor %q lies at offset %d of the data, not at %d", name, offset, end)
		}
		if h.loose == "" && looseExpert.MatchString(name) {
			h.loose = name
		}
		last, exact = name, end+bytes
		h.bytes += bytes
		if name == "token_embd.weight" {
			h.tokens.typ, h.tokens.bytes = typ.name, bytes
		} else {
			h.matrices[typ.name] += bytes
			if !g.vector {
				h.products[typ.name] = true
			}
		}
		h.tokens.output = h.tokens.output || name == "output.weight"
		end = exact + (align-exact%align)%align
		if bytes > g.size || end > g.size {
			g.fail("truncated: tensor %q of %d bytes at offset %d goes beyond the %d bytes of the file",
				name, bytes, offset, g.size)
		}
		h.elements[typ.name] += elements
	}
	start := g.pos + (align-g.pos%align)%align
	if n > 0 && start+exact > g.size {
		g.fail("truncated: tensor %q ends at byte %d of a file of %d bytes", last, start+exact, g.size)
	}
}

func (g *reader) tensorSize(name string) (typ tensorType, elements, bytes uint64) {
	dims := g.u32()
	if dims > maxDims {
		g.fail("tensor %q has %d dimensions; at most %d are allowed", name, dims, maxDims)
	}
	elements = 1
	row := uint64(1)
	for d := range dims {
		ne := g.u64()
		hi, lo := bits.Mul64(elements, ne)
		if ne == 0 || hi != 0 || lo > math.MaxInt64 {
			g.fail("tensor %q has an impossible dimension of %d", name, ne)
		}
		elements = lo
		if d == 0 {
			row = ne
		}
	}
	kind := g.u32()
	if int64(kind) >= int64(len(tensorTypes)) || tensorTypes[kind].name == "" {
		g.fail("tensor %q has the unknown type %d", name, kind)
	}
	typ = tensorTypes[kind]
	switch { // ggml's CPU code aborts on these
	case dims == 1 && typ.name != "F32":
		g.fail("tensor %q is a vector of type %s; llama.cpp adds and multiplies with vectors of F32 only", name, typ.name)
	case noProducts[typ.name]:
		g.fail("tensor %q has type %s, in which llama.cpp does not multiply", name, typ.name)
	}
	g.vector = row == elements
	hi, lo := bits.Mul64(elements/typ.block, typ.size)
	if row%typ.block != 0 || hi != 0 {
		g.fail("tensor %q of type %s has rows of %d elements, not a multiple of %d", name, typ.name, row, typ.block)
	}
	return typ, elements, lo
}
