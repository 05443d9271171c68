package npy

import (
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// header is the dictionary in front of an array's data.
type header struct {
	descr   string
	fortran bool
	shape   []int
}

// want checks that the array has the given type and number of dimensions, in C order.
func (h header) want(descr string, dims int) error {
	switch {
	case strings.HasPrefix(h.descr, ">"):
		return fmt.Errorf("%w: big-endian %s, want %s", ErrKind, h.descr, descr)
	case h.descr != descr:
		return fmt.Errorf("%w: type %s, want %s", ErrKind, h.descr, descr)
	case h.fortran:
		return fmt.Errorf("%w: Fortran order, want C order (numpy.ascontiguousarray)", ErrKind)
	case len(h.shape) != dims:
		return fmt.Errorf("%w: %d dimensions, want %d", ErrKind, len(h.shape), dims)
	}
	return nil
}

// readHeader reads magic, version, length and dictionary.
func readHeader(r io.Reader) (header, error) {
	var fixed [8]byte
	if _, err := io.ReadFull(r, fixed[:]); err != nil {
		return header{}, fmt.Errorf("%w: no header (%w)", ErrFormat, err)
	}
	if string(fixed[:6]) != magic {
		return header{}, fmt.Errorf("%w: it does not begin with the .npy signature", ErrFormat)
	}
	major, minor := fixed[6], fixed[7]
	width := 4
	switch {
	case major == 1 && minor == 0:
		width = 2
	case (major == 2 || major == 3) && minor == 0:
	default:
		return header{}, fmt.Errorf("%w: version %d.%d, known are 1.0, 2.0 and 3.0", ErrFormat, major, minor)
	}
	var length [4]byte
	if _, err := io.ReadFull(r, length[:width]); err != nil {
		return header{}, fmt.Errorf("%w: the header ends early (%w)", ErrFormat, err)
	}
	n := binary.LittleEndian.Uint32(length[:])
	if n > maxHeader {
		return header{}, fmt.Errorf("%w: a header of %d bytes, at most %d are read", ErrFormat, n, maxHeader)
	}
	dict := make([]byte, n)
	if _, err := io.ReadFull(r, dict); err != nil {
		return header{}, fmt.Errorf("%w: the header ends early (%w)", ErrFormat, err)
	}
	h, err := parseDict(string(dict))
	if err != nil {
		return header{}, fmt.Errorf("%w: header %.80q: %w", ErrFormat, strings.TrimSpace(string(dict)), err)
	}
	return h, nil
}

// parseDict reads the Python dictionary of a header: exactly the keys descr, fortran_order and
// shape, each once, in any order.
func parseDict(s string) (h header, err error) {
	p := &scanner{rest: s}
	seen := map[string]bool{}
	if !p.take("{") {
		return h, fmt.Errorf("no dictionary")
	}
	for !p.take("}") {
		key, ok := p.quoted()
		if !ok || !p.take(":") {
			return h, fmt.Errorf("no key at %.20q", p.rest)
		}
		if seen[key] {
			return h, fmt.Errorf("key %q twice", key)
		}
		seen[key] = true
		switch key {
		case "descr":
			h.descr, ok = p.quoted()
		case "fortran_order":
			h.fortran = p.take("True")
			ok = h.fortran || p.take("False")
		case "shape":
			h.shape, ok = p.tuple()
		default:
			return h, fmt.Errorf("unknown key %q", key)
		}
		if !ok {
			return h, fmt.Errorf("unreadable value of %q", key)
		}
		if !p.take(",") {
			if !p.take("}") {
				return h, fmt.Errorf("no end of the dictionary")
			}
			break
		}
	}
	if len(seen) != 3 {
		return h, fmt.Errorf("%d of the keys descr, fortran_order, shape", len(seen))
	}
	if p.skip(); p.rest != "" {
		return h, fmt.Errorf("%.20q after the dictionary", p.rest)
	}
	return h, nil
}

type scanner struct{ rest string }

func (p *scanner) skip() { p.rest = strings.TrimLeft(p.rest, " \t\n") }

// take consumes a token, white space before it included.
func (p *scanner) take(token string) (ok bool) {
	p.skip()
	p.rest, ok = strings.CutPrefix(p.rest, token)
	return ok
}

// quoted consumes a string in single or double quotes; the format needs no escapes.
func (p *scanner) quoted() (string, bool) {
	p.skip()
	if p.rest == "" || (p.rest[0] != '\'' && p.rest[0] != '"') {
		return "", false
	}
	s, rest, ok := strings.Cut(p.rest[1:], p.rest[:1])
	if !ok || strings.Contains(s, `\`) {
		return "", false
	}
	p.rest = rest
	return s, true
}

// tuple consumes a tuple of non-negative integers.
func (p *scanner) tuple() (shape []int, ok bool) {
	if !p.take("(") {
		return nil, false
	}
	for comma := true; !p.take(")"); comma = p.take(",") {
		if !comma {
			return nil, false
		}
		p.skip()
		end := strings.IndexFunc(p.rest, func(r rune) bool { return r < '0' || r > '9' })
		if end < 1 {
			return nil, false
		}
		n, err := strconv.Atoi(p.rest[:end])
		if err != nil {
			return nil, false
		}
		shape, p.rest = append(shape, n), p.rest[end:]
	}
	return shape, true
}
