// Package safetensors reads and writes the headers of .safetensors files: a JSON table of named arrays with type, shape
// and place, before their data, which the caller reads and writes.
//
// The format: https://github.com/huggingface/safetensors#format
package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// ErrFormat is a file that is not .safetensors, is damaged, or ends early; what was found is wrapped into it.
var ErrFormat = errors.New("safetensors: not a readable .safetensors file")

// maxHeader is the format's own limit of the JSON header.
const maxHeader = 100_000_000

// Tensor is one entry of a safetensors header.
type Tensor struct {
	DType  string // F32, F16, BF16, I64, …
	Shape  []int64
	Offset int64 // of the data, from the start of the file
	Length int64 // bytes
}

// ReadHeader parses the header of a safetensors file of size bytes: eight bytes of little-endian
// length, that many bytes of JSON, then the data, which the tensors must tile without gap or overlap.
func ReadHeader(r io.ReaderAt, size int64) (map[string]Tensor, error) {
	bad := func(format string, a ...any) (map[string]Tensor, error) {
		return nil, fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, a...))
	}
	var head [8]byte
	if size < 8 {
		return bad("%d bytes long, at least 8 expected", size)
	}
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return bad("%v", err)
	}
	n := binary.LittleEndian.Uint64(head[:])
	if n > maxHeader || n > uint64(size-8) {
		return bad("the header claims %d bytes, %d follow in the file (limit %d)", n, size-8, maxHeader)
	}
	raw := make([]byte, n)
	if _, err := r.ReadAt(raw, 8); err != nil && !(errors.Is(err, io.EOF) && n == 0) {
		return bad("%v", err)
	}
	entries, err := decodeHeader(raw)
	if err != nil {
		return bad("%v", err)
	}
	return place(entries, 8+int64(n), size)
}

// entry is the JSON of one tensor.
type entry struct {
	DType   string  `json:"dtype"`
	Shape   []int64 `json:"shape"`
	Offsets []int64 `json:"data_offsets"`
}

// decodeHeader reads the header's object key by key, because encoding/json would let the last of two equal keys win.
func decodeHeader(raw []byte) (map[string]entry, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("the header is not a JSON object")
	}
	entries := map[string]entry{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("header: %w", err)
		}
		key, _ := t.(string)
		if key == "__metadata__" {
			var meta map[string]string
			if err := d.Decode(&meta); err != nil {
				return nil, fmt.Errorf("header: __metadata__: %w", err)
			}
			continue
		}
		if _, twice := entries[key]; twice {
			return nil, fmt.Errorf("header: tensor %q twice", key)
		}
		var e entry
		if err := d.Decode(&e); err != nil {
			return nil, fmt.Errorf("header: tensor %q: %w", key, err)
		}
		entries[key] = e
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if rest := bytes.TrimRight(raw[d.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return nil, fmt.Errorf("header: %d bytes after the JSON object", len(rest))
	}
	return entries, nil
}

// place checks every entry's size and that together they tile the data, and turns relative offsets into absolute ones.
func place(entries map[string]entry, start, size int64) (map[string]Tensor, error) {
	out := make(map[string]Tensor, len(entries))
	names := make([]string, 0, len(entries))
	for name, e := range entries {
		bad := func(format string, a ...any) (map[string]Tensor, error) {
			return nil, fmt.Errorf("%w: tensor %q: %s", ErrFormat, name, fmt.Sprintf(format, a...))
		}
		width, ok := dtypeBytes(e.DType)
		if !ok {
			return bad("unknown dtype %q", e.DType)
		}
		n, ok := product(e.Shape, width)
		if !ok {
			return bad("shape %v is negative or too large", e.Shape)
		}
		if len(e.Offsets) != 2 {
			return bad("data_offsets %v, two expected", e.Offsets)
		}
		b, end := e.Offsets[0], e.Offsets[1]
		if b < 0 || end < b || end > size-start {
			return bad("data_offsets %v do not lie in the file's %d data bytes (a cut download?)", e.Offsets,
				size-start)
		}
		if end-b != n {
			return bad("data_offsets %v hold %d bytes, dtype %s and shape %v need %d", e.Offsets, end-b, e.DType,
				e.Shape, n)
		}
		out[name] = Tensor{DType: e.DType, Shape: e.Shape, Offset: start + b, Length: n}
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		x, y := out[a], out[b]
		return cmp.Or(cmp.Compare(x.Offset, y.Offset), cmp.Compare(x.Length, y.Length), // empty tensors first
			cmp.Compare(a, b))
	})
	next := start
	for _, name := range names {
		if t := out[name]; t.Offset != next {
			return nil, fmt.Errorf("%w: tensor %q starts at byte %d, %d expected (gap or overlap)",
				ErrFormat, name, t.Offset, next)
		}
		next += out[name].Length
	}
	if next != size {
		return nil, fmt.Errorf("%w: the tensors end at byte %d, the file at %d", ErrFormat, next, size)
	}
	return out, nil
}

func dtypeBytes(dtype string) (int64, bool) {
	switch dtype {
	case "BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2":
		return 1, true
	case "U16", "I16", "F16", "BF16":
		return 2, true
	case "U32", "I32", "F32":
		return 4, true
	case "U64", "I64", "F64", "C64":
		return 8, true
	}
	return 0, false
}

// product multiplies width by all of shape; false when a size is negative or the product overflows.
func product(shape []int64, width int64) (int64, bool) {
	n := width
	for _, s := range shape {
		if s < 0 || s > 0 && n > math.MaxInt64/s {
			return 0, false
		}
		n *= s
	}
	return n, true
}
