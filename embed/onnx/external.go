package onnx

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sluice-rag/sluice/internal/regular"
)

// Exports returns the places in a model's folder where an exported ONNX graph may be, in order of preference.
func Exports() []string { return []string{"onnx/model.onnx", "model.onnx"} }

// ExternalFiles lists, sorted, the files beside the ONNX file at path that hold its initialisers. It
// reads the structure only: tensor contents are skipped, so that an export of gigabytes is cheap.
func ExternalFiles(path string) ([]string, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	defer f.Close()
	names, err := externalLocations(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: not an ONNX file: %w", path, ErrModel, err)
	}
	for i, n := range names {
		if !filepath.IsLocal(n) {
			return nil, fmt.Errorf("%s: %w: external data in %q lie outside the model's folder", path, ErrModel, n)
		}
		names[i] = filepath.Join(filepath.Dir(path), n)
	}
	return names, nil
}

func externalLocations(r io.Reader) ([]string, error) {
	s := &scanner{r: bufio.NewReader(r), found: map[string]bool{}}
	if err := s.message(-1, 0); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(s.found)), nil
}

// scanner walks ModelProto.graph (7) → GraphProto.initializer (5) → TensorProto.external_data (13).
type scanner struct {
	r     *bufio.Reader
	read  int64
	found map[string]bool
}

// descent are the fields to descend into, by depth.
var descent = [...]protowire.Number{7, 5, 13}

const maxEntry = 1 << 16 // bytes of one key and value

// message walks one message that ends at byte end (negative: at the end of the input).
func (s *scanner) message(end int64, depth int) error {
	for end < 0 || s.read < end {
		tag, err := s.varint()
		if errors.Is(err, io.EOF) && end < 0 {
			return nil
		}
		if err != nil {
			return err
		}
		field, kind := protowire.DecodeTag(tag)
		n := int64(0)
		switch kind {
		case protowire.VarintType:
			_, err = s.varint()
		case protowire.Fixed32Type:
			n = 4
		case protowire.Fixed64Type:
			n = 8
		case protowire.BytesType:
			var length uint64
			if length, err = s.varint(); err == nil && (length > 1<<40 || end >= 0 && s.read+int64(length) > end) {
				err = fmt.Errorf("field %d of %d bytes at byte %d is too long", field, length, s.read)
			}
			n = int64(length)
		default:
			err = fmt.Errorf("wire type %d at byte %d", kind, s.read)
		}
		if err != nil {
			return unexpected(err)
		}
		switch {
		case kind != protowire.BytesType || field != descent[depth]:
			err = s.skip(n)
		case depth == len(descent)-1:
			err = s.entry(n)
		default:
			err = s.message(s.read+n, depth+1)
		}
		if err != nil {
			return unexpected(err)
		}
	}
	return nil
}

// entry reads one StringStringEntryProto.
func (s *scanner) entry(n int64) error {
	if n > maxEntry {
		return fmt.Errorf("external_data entry of %d bytes, at most %d", n, maxEntry)
	}
	raw := make([]byte, n)
	if _, err := io.ReadFull(s.r, raw); err != nil {
		return err
	}
	s.read += n
	var kv [2]string
	for len(raw) > 0 {
		field, kind, n := protowire.ConsumeTag(raw)
		if n < 0 || kind != protowire.BytesType || field < 1 || field > 2 {
			return errors.New("malformed external_data entry")
		}
		v, m := protowire.ConsumeString(raw[n:])
		if m < 0 {
			return errors.New("malformed external_data entry")
		}
		kv[field-1], raw = v, raw[n+m:]
	}
	if kv[0] == "location" {
		s.found[kv[1]] = true
	}
	return nil
}

func (s *scanner) skip(n int64) error {
	for n > 0 {
		part := min(n, 1<<30)
		m, err := s.r.Discard(int(part))
		s.read += int64(m)
		if err != nil {
			return err
		}
		n -= part
	}
	return nil
}

func (s *scanner) varint() (uint64, error) {
	var v uint64
	for shift := 0; shift < 64; shift += 7 {
		b, err := s.r.ReadByte()
		if err != nil {
			if shift > 0 {
				err = unexpected(err)
			}
			return 0, err
		}
		s.read++
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v, nil
		}
	}
	return 0, fmt.Errorf("number too long at byte %d", s.read)
}

// unexpected turns the end of the input inside a message into an error of its own.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
