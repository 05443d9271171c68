package llm

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"regexp"
)

// The header of a GGUF file: magic, version, counts, key-value pairs, tensor descriptions. All of it is checked before
// llama.cpp opens the file, whose parser and loader assert, hence end the process, on some of what they do not expect.
// Format: ggml's docs/gguf.md and gguf.cpp; versions 2 and 3, little-endian.

const (
	ggufMaxPairs   = 1 << 16
	ggufMaxTensors = 1 << 18
	ggufMaxKey     = 1<<16 - 1
	ggufMaxName    = 63      // GGML_MAX_NAME - 1
	ggufKeepString = 4 << 20 // longer values are checked and skipped
	ggufMaxDims    = 4
	ggufAlignment  = 32   // unless general.alignment says otherwise
	maxExperts     = 1024 // LLAMA_MAX_EXPERTS
	maxLayers      = 512  // LLAMA_MAX_LAYERS, asserted by llama.cpp; longer arrays say nothing about layers
)

// Value types of key-value pairs.
const (
	ggufString = 8
	ggufArray  = 9
)

// ggufScalars maps a value type to its size.
var ggufScalars = [...]int{0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, ggufString: 0, ggufArray: 0, 10: 8, 11: 8, 12: 8}

// ggmlType is a tensor type: block elements are stored in size bytes.
type ggmlType struct {
	name        string
	block, size uint64
}

// ggmlTypes are the types of ggml 0.25 (ggml.h, ggml-common.h); types that were removed have no name.
var ggmlTypes = [...]ggmlType{
	0: {"F32", 1, 4}, 1: {"F16", 1, 2}, 2: {"Q4_0", 32, 18}, 3: {"Q4_1", 32, 20}, 6: {"Q5_0", 32, 22}, 7: {"Q5_1", 32, 24},
	8: {"Q8_0", 32, 34}, 9: {"Q8_1", 32, 36}, 10: {"Q2_K", 256, 84}, 11: {"Q3_K", 256, 110}, 12: {"Q4_K", 256, 144},
	13: {"Q5_K", 256, 176}, 14: {"Q6_K", 256, 210}, 15: {"Q8_K", 256, 292}, 16: {"IQ2_XXS", 256, 66}, 17: {"IQ2_XS", 256, 74},
	18: {"IQ3_XXS", 256, 98}, 19: {"IQ1_S", 256, 50}, 20: {"IQ4_NL", 32, 18}, 21: {"IQ3_S", 256, 110}, 22: {"IQ2_S", 256, 82},
	23: {"IQ4_XS", 256, 136}, 24: {"I8", 1, 1}, 25: {"I16", 1, 2}, 26: {"I32", 1, 4}, 27: {"I64", 1, 8}, 28: {"F64", 1, 8},
	29: {"IQ1_M", 256, 56}, 30: {"BF16", 1, 2}, 34: {"TQ1_0", 256, 54}, 35: {"TQ2_0", 256, 66}, 39: {"MXFP4", 32, 17},
	40: {"NVFP4", 64, 36}, 41: {"Q1_0", 128, 18}, 42: {"Q2_0", 64, 18},
}

// ggufHeader is what a file's header says.
type ggufHeader struct {
	values   map[string]any    // uint64, int64, float64, bool or string
	arrays   map[string]uint64 // lengths
	layers   map[string][]int  // arrays of integers or booleans that may have a value per layer
	tensors  int
	bytes    uint64            // of the tensors
	matrices map[string]uint64 // bytes by type name, of all but the token embedding
	tokens   tokenTable
	elements map[string]uint64 // by type name
	loose    string            // a tensor that holds one expert; llama.cpp reads only those that hold all of a layer
}

// tokenTable is the token embedding: bytes of a type. Without an output matrix it is that, too.
type tokenTable struct {
	typ    string
	bytes  uint64
	output bool // there is an output matrix
}

var looseExpert = regexp.MustCompile(`^blk\.\d+\.ffn_(gate|up|down)\.\d+\.weight$`)

// ggufReader reads little-endian values and knows how much can follow, so that no count in the file is believed beyond
// the file's size. After a failure every read returns zeros and err stays.
type ggufReader struct {
	r    *bufio.Reader
	pos  uint64
	size uint64
	err  error
}

func (g *ggufReader) fail(format string, args ...any) {
	if g.err == nil {
		g.err = fmt.Errorf(format, args...)
	}
}

func (g *ggufReader) left() uint64 { return g.size - g.pos }

func (g *ggufReader) bytes(b []byte) {
	if g.err != nil {
		return
	}
	n, err := io.ReadFull(g.r, b)
	g.pos += uint64(n)
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("truncated: the header goes on beyond the %d bytes of the file", g.size)
		}
		g.err = err
	}
}

func (g *ggufReader) u32() uint32 {
	var b [4]byte
	g.bytes(b[:])
	return binary.LittleEndian.Uint32(b[:])
}

func (g *ggufReader) u64() uint64 {
	var b [8]byte
	g.bytes(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

func (g *ggufReader) skip(n uint64) {
	if g.err != nil {
		return
	}
	if n > g.left() {
		g.fail("truncated: %d bytes at offset %d go beyond the %d of the file", n, g.pos, g.size)
		return
	}
	for n > 0 && g.err == nil {
		k, err := g.r.Discard(int(min(n, 1<<30)))
		g.pos += uint64(k)
		n -= uint64(k)
		g.err = err
	}
}

// str reads a string of at most limit bytes; with keep set, a longer one is skipped instead of refused.
func (g *ggufReader) str(limit uint64, keep bool) string {
	n := g.u64()
	switch {
	case g.err != nil:
		return ""
	case n > g.left():
		g.fail("truncated: a string of %d bytes at offset %d goes beyond the %d of the file", n, g.pos, g.size)
		return ""
	case n > limit && keep:
		g.skip(n)
		return ""
	case n > limit:
		g.fail("a name of %d bytes at offset %d; at most %d are allowed", n, g.pos, limit)
		return ""
	}
	b := make([]byte, n)
	g.bytes(b)
	return string(b)
}

// count reads a count of things that take at least width bytes each.
func (g *ggufReader) count(what string, most, width uint64) uint64 {
	n := g.u64()
	if g.err == nil && (n > most || n > g.left()/width) {
		g.fail("%d %s cannot be in a file of %d bytes (at most %d are read)", n, what, g.size, most)
	}
	if g.err != nil {
		return 0
	}
	return n
}

func (g *ggufReader) scalar(kind uint32) any {
	var b [8]byte
	g.bytes(b[:ggufScalars[kind]])
	v := binary.LittleEndian.Uint64(b[:])
	switch kind {
	case 1:
		return int64(int8(v))
	case 3:
		return int64(int16(v))
	case 5:
		return int64(int32(v))
	case 11:
		return int64(v)
	case 6:
		return float64(math.Float32frombits(uint32(v)))
	case 12:
		return math.Float64frombits(v)
	case 7:
		return v != 0
	}
	return v
}

// parseGGUF reads and checks the header of a GGUF file of size bytes.
func parseGGUF(r io.ReaderAt, size int64) (*ggufHeader, error) {
	g := &ggufReader{r: bufio.NewReaderSize(io.NewSectionReader(r, 0, size), 1<<16), size: uint64(size)}
	var magic [4]byte
	g.bytes(magic[:])
	if g.err == nil && string(magic[:]) != "GGUF" {
		g.fail("not a GGUF file: it begins with %q", magic[:])
	}
	version := g.u32()
	if g.err == nil && version != 2 && version != 3 {
		g.fail("GGUF version %d (%#x) is not supported: 2 and 3, little-endian, are", version, version)
	}
	tensors := g.count("tensors", ggufMaxTensors, 32)
	pairs := g.count("key-value pairs", ggufMaxPairs, 13)

	h := &ggufHeader{values: map[string]any{}, arrays: map[string]uint64{}, layers: map[string][]int{},
		matrices: map[string]uint64{}, elements: map[string]uint64{}, tensors: int(tensors)}
	for i := uint64(0); i < pairs && g.err == nil; i++ {
		h.readPair(g)
	}
	align := uint64(ggufAlignment)
	if v, ok := h.values["general.alignment"]; ok && g.err == nil {
		a, isUint := v.(uint64)
		if !isUint || a == 0 || a > 1<<20 || a&(a-1) != 0 {
			g.fail("general.alignment is %v, not a power of two", v)
		}
		align = a
	}
	h.readTensors(g, tensors, align)
	if g.err != nil {
		return nil, g.err
	}
	return h, nil
}

func (h *ggufHeader) readPair(g *ggufReader) {
	key := g.str(ggufMaxKey, false)
	_, value := h.values[key]
	_, array := h.arrays[key]
	if g.err == nil && (key == "" || value || array) {
		g.fail("key %q is empty or comes twice", key)
	}
	kind := g.u32()
	if g.err != nil {
		return
	}
	switch {
	case kind == ggufString:
		h.values[key] = g.str(ggufKeepString, true)
	case kind == ggufArray:
		h.arrays[key] = h.array(g, key)
	case int(kind) < len(ggufScalars):
		h.values[key] = g.scalar(kind)
	default:
		g.fail("key %q has the unknown value type %d", key, kind)
	}
}

// array checks an array and returns its length. Short ones of integers are kept.
func (h *ggufHeader) array(g *ggufReader, key string) uint64 {
	kind := g.u32()
	if g.err != nil {
		return 0
	}
	if int(kind) >= len(ggufScalars) || kind == ggufArray {
		g.fail("key %q is an array of the unknown value type %d", key, kind)
		return 0
	}
	if kind == ggufString {
		n := g.count("strings of "+key, math.MaxInt32, 8)
		for i := uint64(0); i < n && g.err == nil; i++ {
			g.skip(g.u64())
		}
		return n
	}
	width := uint64(ggufScalars[kind])
	n := g.count("elements of "+key, math.MaxInt32, width)
	if n > maxLayers || kind == 6 || kind == 12 {
		g.skip(n * width)
		return n
	}
	list := make([]int, n)
	for i := range list {
		list[i] = natural(g.scalar(kind))
	}
	h.layers[key] = list
	return n
}

// natural returns a value as a number between 0 and 2³¹-1, 0 when it is none.
func natural(value any) int {
	switch v := value.(type) {
	case uint64:
		return int(min(v, math.MaxInt32))
	case int64:
		return int(max(0, min(v, math.MaxInt32)))
	case bool:
		if v {
			return 1
		}
	}
	return 0
}

// readTensors checks that each tensor lies where the one before it ends, and all within the file, as llama.cpp demands.
func (h *ggufHeader) readTensors(g *ggufReader, n, align uint64) {
	seen := make(map[string]bool, n)
	var end uint64 // of the data so far, relative to the data's start
	var last string
	var exact uint64
	for i := uint64(0); i < n && g.err == nil; i++ {
		name := g.str(ggufMaxName, false)
		if g.err == nil && seen[name] {
			g.fail("tensor %q comes twice", name)
		}
		seen[name] = true
		typ, elements, bytes := g.tensorSize(name)
		offset := g.u64()
		if g.err != nil {
			return
		}
		if offset != end {
			g.fail("tensor %q lies at offset %d of the data, not at %d", name, offset, end)
			return
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
		}
		h.tokens.output = h.tokens.output || name == "output.weight"
		end = exact + (align-exact%align)%align
		if bytes > g.size || end > g.size {
			g.fail("truncated: tensor %q of %d bytes at offset %d goes beyond the %d bytes of the file", name, bytes, offset, g.size)
			return
		}
		h.elements[typ.name] += elements
	}
	start := g.pos + (align-g.pos%align)%align
	if g.err == nil && n > 0 && start+exact > g.size {
		g.fail("truncated: tensor %q ends at byte %d of a file of %d bytes", last, start+exact, g.size)
	}
}

// tensorSize reads dimensions and type.
func (g *ggufReader) tensorSize(name string) (typ ggmlType, elements, bytes uint64) {
	dims := g.u32()
	if g.err == nil && dims > ggufMaxDims {
		g.fail("tensor %q has %d dimensions; at most %d are allowed", name, dims, ggufMaxDims)
	}
	elements = 1
	row := uint64(1)
	for d := uint32(0); d < dims && g.err == nil; d++ {
		ne := g.u64()
		hi, lo := bits.Mul64(elements, ne)
		if g.err == nil && (ne == 0 || hi != 0 || lo > math.MaxInt64) {
			g.fail("tensor %q has an impossible dimension of %d", name, ne)
		}
		elements = lo
		if d == 0 {
			row = ne
		}
	}
	kind := g.u32()
	if g.err != nil {
		return typ, 0, 0
	}
	if int64(kind) >= int64(len(ggmlTypes)) || ggmlTypes[kind].name == "" {
		g.fail("tensor %q has the unknown type %d", name, kind)
		return typ, 0, 0
	}
	typ = ggmlTypes[kind]
	hi, lo := bits.Mul64(elements/typ.block, typ.size)
	if row%typ.block != 0 || hi != 0 {
		g.fail("tensor %q of type %s has rows of %d elements, not a multiple of %d", name, typ.name, row, typ.block)
		return typ, 0, 0
	}
	return typ, elements, lo
}
