package encoder

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// largePages requests 2 MiB pages for the part of v that whole ones cover. It has no effect if the system has none.
func largePages(v []float32) {
	const page = 2 << 20
	all := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
	begin := int(-uintptr(unsafe.Pointer(unsafe.SliceData(all))) % page)
	if end := begin + (len(all)-begin)/page*page; end > begin {
		_ = unix.Madvise(all[begin:end], unix.MADV_HUGEPAGE)
	}
}
