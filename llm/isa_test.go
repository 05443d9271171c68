//go:build native

package llm

import "testing"

// A processor without AVX2 has no instruction set, instead of an illegal instruction; a limit takes what is below it.
func TestChooseISA(t *testing.T) {
	all := cpuAVX2 | cpuAVX512VNNI | cpuAMX
	for _, c := range []struct {
		cpu         uint32
		limit, want string
	}{
		{0, "", ""}, {0, "avx2", ""}, {0, "scalar", ""},
		{cpuAVX2, "", "avx2"}, {cpuAVX2, "amx", "avx2"}, {cpuAVX2 | cpuAVX512VNNI, "", "avx512vnni"},
		{all, "", "amx"}, {all, "amx", "amx"}, {all, "avx512vnni", "avx512vnni"}, {all, "avx2", "avx2"},
		{all, "scalar", "avx2"}, {all, "avx512", "avx2"},
		{cpuAVX512VNNI | cpuAMX, "", ""}, // none lacks what comes before it
	} {
		if got := chooseISA(c.cpu, c.limit); got != c.want {
			t.Errorf("of %03b up to %q: %q, not %q", c.cpu, c.limit, got, c.want)
		}
	}
}
