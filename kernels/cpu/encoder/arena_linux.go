package encoder

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// largePages asks for pages of 2 MiB where whole ones lie in v. Systems that have none to give go on as before.
func largePages(v []float32) {
	const page = 2 << 20
	all := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
	begin := int(-uintptr(unsafe.Pointer(unsafe.SliceData(all))) % page)
	if end := begin + (len(all)-begin)/page*page; end > begin {
		_ = unix.Madvise(all[begin:end], unix.MADV_HUGEPAGE)
	}
}
