// Package slc holds what the C kernels of all families have in common: headers, and the Go side of a call.
//
// Go recompiles a package when one of its own files changes, and does not track headers elsewhere. This package embeds
// its headers, so that the packages that include them, all of which import it, are recompiled as well.
package slc

import (
	"embed"
	"fmt"
	"strings"
	"unsafe"

	"github.com/sluice-rag/sluice/kernels"
)

// Headers are the files that #include finds in this folder.
//
//go:embed *.h
var Headers embed.FS

// Pointer returns the address of a slice's data for C.
func Pointer[C, E any](s []E) *C { return (*C)(unsafe.Pointer(unsafe.SliceData(s))) }

// The codes of slc.h.
const (
	ok = iota
	errorShape
	errorMetric
	errorISA
	errorRange
)

// Error converts a code and its text from the same call into an error.
func Error[Code ~int32, Char ~int8 | ~uint8](code Code, text []Char) error {
	if code == ok {
		return nil
	}
	sentinel := kernels.ErrShape
	switch code {
	case errorMetric:
		sentinel = kernels.ErrMetric
	case errorISA:
		sentinel = kernels.ErrISA
	case errorRange:
		sentinel = kernels.ErrRange
	}
	var s strings.Builder // not C.GoString, which would move every call's slc_error to the heap
	for _, c := range text {
		if c == 0 {
			break
		}
		s.WriteByte(byte(c))
	}
	return fmt.Errorf("%w: %s", sentinel, s.String())
}
