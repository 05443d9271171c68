// Package matrixfile reads matrices from .npy and .safetensors files and writes them there, both possibly larger
// than memory: sources are mapped, results are written block by block beside their name and get it when complete.
package matrixfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
)

// ErrName is a file whose name does not say which of the two formats it has.
var ErrName = errors.New("matrixfile: neither .npy nor .safetensors")

const (
	numpyExt       = ".npy"
	safetensorsExt = ".safetensors"
)

// CheckName refuses a name that ends in neither .npy nor .safetensors.
func CheckName(path string) error {
	if ext := filepath.Ext(path); ext != numpyExt && ext != safetensorsExt {
		return fmt.Errorf("%w: %s", ErrName, path)
	}
	return nil
}

// littleEndian reports whether memory has the byte order of the files.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1
