//go:build native && cgo && linux && (amd64 || arm64)

package cuda

import "testing"

func TestClass(t *testing.T) {
	for bytes, want := range map[int64]int64{0: 512, 1: 512, 512: 512, 513: 1024, 1 << 20: 1 << 20, 1<<20 + 1: 2 << 20,
		16<<20 + 1: 18 << 20, 100 << 20: 104 << 20, 1 << 30: 1 << 30, 1<<30 + 1: 1<<30 + 128<<20} {
		if got := class(bytes); got != want || got < bytes {
			t.Errorf("class(%d) = %d, want %d", bytes, got, want)
		}
	}
}
