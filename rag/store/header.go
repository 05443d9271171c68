package store

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/sluice-rag/sluice/internal/durable"
)

// A segment starts with a header of one page, little-endian:
//
//	0    8  magic "slcvec\r\n" (the line end shows a transfer in text mode)
//	8    4  format version, 1
//	12   4  element type, 1 = float32 little-endian
//	16   4  dimension
//	20   4  number of the segment
//	24  16  id of the store (random, made with it)
//	40   4  length of the encoder digest
//	44   …  encoder digest, then zeros
//	4092 4  CRC-32C of bytes 0–4091
const (
	headerSize    = 4096
	headerVersion = 1
	dtypeF32      = 1
	maxDim        = 1 << 16
	maxDigest     = 1024
)

var headerMagic = [8]byte{'s', 'l', 'c', 'v', 'e', 'c', '\r', '\n'}

// header is the header of a segment.
type header struct {
	Dim, Number   uint32
	Store         [16]byte
	EncoderDigest string
}

func (h header) encode() []byte {
	b := make([]byte, headerSize)
	copy(b, headerMagic[:])
	binary.LittleEndian.PutUint32(b[8:], headerVersion)
	binary.LittleEndian.PutUint32(b[12:], dtypeF32)
	binary.LittleEndian.PutUint32(b[16:], h.Dim)
	binary.LittleEndian.PutUint32(b[20:], h.Number)
	copy(b[24:], h.Store[:])
	binary.LittleEndian.PutUint32(b[40:], uint32(len(h.EncoderDigest)))
	copy(b[44:], h.EncoderDigest)
	binary.LittleEndian.PutUint32(b[headerSize-4:], durable.Checksum(b[:headerSize-4]))
	return b
}

// parseHeader is the inverse of encode. The version is looked at before the checksum, because another
// format may keep its checksum elsewhere; that one is ErrVersion, everything else ErrCorrupt.
func parseHeader(b []byte) (header, error) {
	if len(b) < headerSize {
		return header{}, fmt.Errorf("%w: header has %d bytes, expected %d", ErrCorrupt, len(b), headerSize)
	}
	b = b[:headerSize]
	if !bytes.Equal(b[:8], headerMagic[:]) {
		return header{}, fmt.Errorf("%w: magic is %q, expected %q", ErrCorrupt, b[:8], headerMagic[:])
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != headerVersion {
		return header{}, fmt.Errorf("%w: segment format %d, this program reads format %d", ErrVersion, v, headerVersion)
	}
	want, got := durable.Checksum(b[:headerSize-4]), binary.LittleEndian.Uint32(b[headerSize-4:])
	if want != got {
		return header{}, fmt.Errorf("%w: header checksum is %08x, expected %08x", ErrCorrupt, got, want)
	}
	h := header{Dim: binary.LittleEndian.Uint32(b[16:]), Number: binary.LittleEndian.Uint32(b[20:])}
	copy(h.Store[:], b[24:])
	n := binary.LittleEndian.Uint32(b[40:])
	if dtype := binary.LittleEndian.Uint32(b[12:]); dtype != dtypeF32 {
		return header{}, fmt.Errorf("%w: element type %d, expected %d (float32)", ErrCorrupt, dtype, dtypeF32)
	}
	if h.Dim == 0 || h.Dim > maxDim || n > maxDigest {
		return header{}, fmt.Errorf("%w: header gives %d dimensions and a digest of %d bytes", ErrCorrupt, h.Dim, n)
	}
	h.EncoderDigest = string(b[44 : 44+n])
	return h, nil
}
