package cputest

import (
	"syscall"
	"testing"
	"unsafe"
)

// InFence copies x to the end, or to the start, of memory between two inaccessible pages: an access beyond it ends the
// test binary. An empty x is returned as it is.
func InFence[T any](t *testing.T, x []T, atEnd bool) []T {
	t.Helper()
	if len(x) == 0 {
		return x
	}
	n, page := len(x)*int(unsafe.Sizeof(x[0])), syscall.Getpagesize()
	inside := (n + page - 1) / page * page
	mem, err := syscall.Mmap(-1, 0, inside+2*page, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Skipf("SKIP: no guard pages: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(mem) })
	for _, fence := range [][]byte{mem[:page], mem[page+inside:]} {
		if err := syscall.Mprotect(fence, syscall.PROT_NONE); err != nil {
			t.Skipf("SKIP: no guard pages: %v", err)
		}
	}
	from := page
	if atEnd {
		from += inside - n
	}
	moved := unsafe.Slice((*T)(unsafe.Pointer(&mem[from])), len(x))
	copy(moved, x)
	return moved
}

// FenceFields moves the named slices of a struct into fences.
func FenceFields[T any](t *testing.T, of any, atEnd bool, names ...string) {
	for _, name := range names {
		f := Field[[]T](of, name)
		*f = InFence(t, *f, atEnd)
	}
}
