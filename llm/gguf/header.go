package gguf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// Format: magic, version, counts, key-value pairs, tensor descriptions (ggml's docs/gguf.md and gguf.cpp).

const (
	maxPairs   = 1 << 16
	maxTensors = 1 << 18
	maxKey     = 1<<16 - 1
	maxName    = 63      // GGML_MAX_NAME - 1
	maxToken   = 1 << 16 // bytes of a token's text
	keepString = 4 << 20 // longer values are checked and skipped
	maxDims    = 4
	alignment  = 32   // unless general.alignment says otherwise
	maxExperts = 1024 // LLAMA_MAX_EXPERTS
	maxLayers  = 512  // LLAMA_MAX_LAYERS, asserted by llama.cpp; longer arrays say nothing about layers
)

const tokensKey = "tokenizer.ggml.tokens"

// Value types of key-value pairs.
const (
	typeString = 8
	typeArray  = 9
)

// scalars maps a value type to its size.
var scalars = [...]int{0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, typeString: 0, typeArray: 0, 10: 8, 11: 8, 12: 8}

// header holds what a file's header says.
type header struct {
	values   map[string]any    // uint64, int64, float64, bool or string
	arrays   map[string]uint64 // lengths
	layers   map[string][]int  // arrays of integers or booleans that may have a value per layer
	tensors  int
	bytes    uint64            // of the tensors
	matrices map[string]uint64 // bytes by type name, of all but the token embedding
	products map[string]bool   // types of the tensors with more than one row, except the token embedding
	tokens   tokenTable
	elements map[string]uint64 // by type name
	loose    string            // a tensor of a single expert; llama.cpp reads only tensors of all experts of a layer
}

// reader reads little-endian values and refuses counts that the file's size contradicts. It panics with a headerError,
// which parse recovers.
type reader struct {
	r    *bufio.Reader
	pos  uint64
	size uint64

	vector bool // the last tensor has one row
}

type headerError struct{ error }

func (g *reader) fail(format string, args ...any) {
	for i, arg := range args { // names of a damaged file can be as long as the file
		if s, ok := arg.(string); ok && len(s) > shownName {
			args[i] = s[:shownName] + "…"
		}
	}
	panic(headerError{fmt.Errorf(format, args...)})
}

// shownName is how many bytes of a name errors show.
const shownName = 80

func (g *reader) left() uint64 { return g.size - g.pos }

func (g *reader) bytes(b []byte) {
	n, err := io.ReadFull(g.r, b)
	g.pos += uint64(n)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		g.fail("truncated: the header goes on beyond the %d bytes of the file", g.size)
	case err != nil:
		g.fail("%w", err)
	}
}

func (g *reader) u32() uint32 {
	var b [4]byte
	g.bytes(b[:])
	return binary.LittleEndian.Uint32(b[:])
}

func (g *reader) u64() uint64 {
	var b [8]byte
	g.bytes(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

func (g *reader) skip(n uint64) {
	if n > g.left() {
		g.fail("truncated: %d bytes at offset %d go beyond the %d of the file", n, g.pos, g.size)
	}
	k, err := g.r.Discard(int(n))
	if g.pos += uint64(k); err != nil {
		g.fail("%w", err)
	}
}

// str reads a string of at most limit bytes; with keep set, a longer one is skipped instead of refused.
func (g *reader) str(limit uint64, keep bool) string {
	n := g.u64()
	switch {
	case n > g.left():
		g.fail("truncated: a string of %d bytes at offset %d goes beyond the %d of the file", n, g.pos, g.size)
	case n > limit && keep:
		g.skip(n)
		return ""
	case n > limit:
		g.fail("a name of %d bytes at offset %d; at most %d are allowed", n, g.pos, limit)
	}
	b := make([]byte, n)
	g.bytes(b)
	return string(b)
}

// count reads a count of things that take at least width bytes each.
func (g *reader) count(what string, limit, width uint64) uint64 {
	n := g.u64()
	if n > limit || n > g.left()/width {
		g.fail("%d %s cannot be in a file of %d bytes (at most %d are read)", n, what, g.size, limit)
	}
	return n
}

func (g *reader) scalar(kind uint32) any {
	var b [8]byte
	g.bytes(b[:scalars[kind]])
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

func parse(r io.ReaderAt, size int64) (h *header, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case headerError:
			h, err = nil, r.error
		default:
			panic(r)
		}
	}()
	g := &reader{r: bufio.NewReaderSize(io.NewSectionReader(r, 0, size), 1<<16), size: uint64(size)}
	var magic [4]byte
	g.bytes(magic[:])
	if string(magic[:]) != "GGUF" {
		g.fail("not a GGUF file: it begins with %q", magic[:])
	}
	version := g.u32()
	if version != 2 && version != 3 {
		g.fail("GGUF version %d (%#x) is not supported: 2 and 3, little-endian, are", version, version)
	}
	tensors := g.count("tensors", maxTensors, 32)
	pairs := g.count("key-value pairs", maxPairs, 13)

	h = &header{values: map[string]any{}, arrays: map[string]uint64{}, layers: map[string][]int{},
		matrices: map[string]uint64{}, products: map[string]bool{}, elements: map[string]uint64{},
		tensors: int(tensors)}
	for range pairs {
		h.readPair(g)
	}
	align := uint64(alignment)
	if v, ok := h.values["general.alignment"]; ok {
		a, isUint := v.(uint64)
		if !isUint || a == 0 || a > 1<<20 || a&(a-1) != 0 {
			g.fail("general.alignment is %v, not a power of two", v)
		}
		align = a
	}
	h.readTensors(g, tensors, align)
	return h, nil
}

func (h *header) readPair(g *reader) {
	key := g.str(maxKey, false)
	_, value := h.values[key]
	_, array := h.arrays[key]
	if key == "" || value || array {
		g.fail("key %q is empty or comes twice", key)
	}
	kind := g.u32()
	switch {
	case kind == typeString:
		h.values[key] = g.str(keepString, true)
	case kind == typeArray:
		h.arrays[key] = h.array(g, key)
	case int(kind) < len(scalars):
		h.values[key] = g.scalar(kind)
	default:
		g.fail("key %q has the unknown value type %d", key, kind)
	}
}

// array checks an array and returns its length. It keeps short arrays of integers.
func (h *header) array(g *reader, key string) uint64 {
	kind := g.u32()
	if int(kind) >= len(scalars) || kind == typeArray {
		g.fail("key %q is an array of the unknown value type %d", key, kind)
	}
	if kind == typeString {
		n := g.count("strings of "+key, math.MaxInt32, 8)
		if key == tokensKey {
			g.tokens(n)
			return n
		}
		for range n {
			g.skip(g.u64())
		}
		return n
	}
	width := uint64(scalars[kind])
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

// tokens reads the texts of n tokens. llama.cpp aborts on one that comes twice; it reads a text up to its first NUL,
// and names the empty ones.
func (g *reader) tokens(n uint64) {
	seen := make(map[string]uint64)
	for i := range n {
		text, _, _ := strings.Cut(g.str(maxToken, false), "\x00")
		if text == "" {
			text = fmt.Sprintf("[EMPTY_%d]", i)
		}
		if first, twice := seen[text]; twice {
			g.fail("tokens %d and %d have the same text %.80q", first, i, text)
		}
		seen[text] = i
	}
}

// natural returns a value as a number between 0 and 2³¹-1, 0 for other types.
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

func (h *header) text(key string) string {
	s, _ := h.values[key].(string)
	return s
}

// number returns a non-negative integer value, 0 without one.
func (h *header) number(key string) int { return natural(h.values[key]) }
