package cuda

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// ImagePart is one entry of an image: its kernels for one target.
type ImagePart struct {
	PTX      bool // PTX, compiled by the driver; otherwise machine code
	Arch     int  // 90 is sm_90
	Specific bool // only for exactly this architecture (sm_90a)
	Driver   int  // lowest CUDA version that can load it: 13000 is 13.0
	Bytes    int
}

func (p ImagePart) String() string {
	name := "sm_"
	if p.PTX {
		name = "PTX compute_"
	}
	if p.Specific {
		return fmt.Sprintf("%s%da", name, p.Arch)
	}
	return fmt.Sprintf("%s%d", name, p.Arch)
}

// The layout of a fat binary, as nvcc 11 to 13 write it: a header of 16 bytes, then parts, each with a header and a
// body.
const (
	fatMagic    = 0xBA55ED50
	fatHeader   = 16
	fatPart     = 64 // minimum size of a part's header
	fatPTX      = 1
	fatCode     = 2
	fatSpecific = 1 << 20
)

// ImageParts lists the parts of a fat binary in order.
func ImageParts(image []byte) ([]ImagePart, error) {
	le := binary.LittleEndian
	if len(image) < fatHeader || le.Uint32(image) != fatMagic {
		return nil, fmt.Errorf("%w: these %d bytes are not a fat binary", ErrImage, len(image))
	}
	at, end := int(le.Uint16(image[6:])), fatHeader+int(le.Uint64(image[8:])&(1<<40-1))
	if at < fatHeader || end > len(image) {
		return nil, fmt.Errorf("%w: the fat binary is cut off: %d of %d bytes", ErrImage, len(image), end)
	}
	var parts []ImagePart
	for at < end {
		if end-at < fatPart {
			return nil, fmt.Errorf("%w: part %d of the fat binary is cut off", ErrImage, len(parts))
		}
		h := image[at:]
		kind, header, body := le.Uint16(h), int(le.Uint32(h[4:])), int(le.Uint64(h[8:])&(1<<40-1))
		minor, major := int(le.Uint16(h[24:])), int(le.Uint16(h[26:]))
		if header < fatPart || header+body > end-at {
			return nil, fmt.Errorf("%w: part %d of the fat binary is cut off", ErrImage, len(parts))
		}
		p := ImagePart{PTX: kind == fatPTX, Arch: int(le.Uint32(h[28:])), Bytes: body,
			Specific: le.Uint32(h[40:])&fatSpecific != 0, Driver: 1000 * (minor + 5)}
		if p.PTX { // version 9.0 of the language came with CUDA 13.0, 8.0 with 12.0; the format 1.8 of code with 13
			p.Driver = 1000*(major+4) + 10*minor
		}
		if kind == fatPTX || kind == fatCode {
			parts = append(parts, p)
		}
		at += header + body
	}
	return parts, nil
}

// Fits returns the part of an image that a device runs: machine code for its architecture, else for an earlier one of
// the same generation, else PTX. driver is the driver's CUDA version. If only the driver is too old, the error is a
// *TooOldError.
func Fits(parts []ImagePart, capability [2]int, driver int) (ImagePart, error) {
	have := 10*capability[0] + capability[1]
	var best ImagePart
	var old *TooOldError
	for _, p := range parts {
		runs := p.Arch == have || !p.Specific && p.Arch < have && (p.PTX || p.Arch/10 == have/10)
		switch {
		case !runs:
		case p.Driver > driver:
			if old == nil || p.Driver < old.Need {
				old = &TooOldError{Have: driver, Need: p.Driver}
			}
		case best.Arch == 0 || best.PTX && !p.PTX || best.PTX == p.PTX && p.Arch > best.Arch ||
			best.PTX == p.PTX && p.Arch == best.Arch && p.Specific:
			best = p
		}
	}
	switch {
	case best.Arch != 0:
		return best, nil
	case old != nil:
		return best, old
	}
	var names []string
	for _, p := range parts {
		names = append(names, p.String())
	}
	return best, fmt.Errorf("%w: %w: compute capability %d.%d; there are %s", ErrUnavailable, ErrImage, capability[0],
		capability[1], strings.Join(names, ", "))
}
