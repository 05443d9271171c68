package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"syscall"
	"unsafe"
)

// vectors are rows × dim values, row-major.
type vectors struct {
	data      []float32
	rows, dim int
}

func (v vectors) row(i int) []float32 { return v.data[i*v.dim : (i+1)*v.dim : (i+1)*v.dim] }

var head = regexp.MustCompile(`'descr': '<f4'.*'fortran_order': False.*'shape': \((\d+), (\d+)\)`)

// load maps a file as sluice writes it (version 1, two-dimensional little-endian float32) until the process ends.
func load(path string) (vectors, error) {
	f, err := os.Open(path)
	if err != nil {
		return vectors{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return vectors{}, err
	}
	if st.Size() < 10 {
		return vectors{}, fmt.Errorf("%s is no .npy file", path)
	}
	m, err := syscall.Mmap(int(f.Fd()), 0, int(st.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return vectors{}, fmt.Errorf("mapping %s: %w", path, err)
	}
	end := 10 + int(binary.LittleEndian.Uint16(m[8:]))
	if !bytes.HasPrefix(m, []byte("\x93NUMPY\x01\x00")) || end > len(m) {
		return vectors{}, fmt.Errorf("%s is no .npy file of version 1", path)
	}
	found := head.FindSubmatch(m[:end])
	if found == nil {
		return vectors{}, fmt.Errorf("%s holds no two-dimensional float32 array", path)
	}
	rows, _ := strconv.Atoi(string(found[1])) // digits
	dim, _ := strconv.Atoi(string(found[2]))
	if len(m)-end != rows*dim*4 {
		return vectors{}, fmt.Errorf("%s: %d bytes for %d × %d values", path, len(m)-end, rows, dim)
	}
	return vectors{unsafe.Slice((*float32)(unsafe.Pointer(&m[end])), rows*dim), rows, dim}, nil
}
