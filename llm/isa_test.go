//go:build native

package llm

import (
	"debug/elf"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A processor without AVX2 has no instruction set, instead of an illegal instruction; a limit takes what is below it,
// and where the library has nothing there, the lowest that it has.
func TestChooseISA(t *testing.T) {
	all := cpuAVX2 | cpuAVXVNNI | cpuAVX512VNNI | cpuAMX
	for _, c := range []struct {
		cpu, have   uint32
		limit, want string
	}{
		{0, all, "", ""}, {0, all, "avx2", ""}, {0, all, "scalar", ""},
		{cpuAVX2, all, "", "avx2"}, {cpuAVX2, all, "amx", "avx2"}, {cpuAVX2 | cpuAVX512VNNI, all, "", "avx512vnni"},
		{all, all, "", "amx"}, {all, all, "amx", "amx"}, {all, all, "avx512vnni", "avx512vnni"},
		{all, all, "avx2", "avx2"}, {all, all, "scalar", "avx2"}, {all, all, "avx512", "avx2"},
		{cpuAVX2 | cpuAVXVNNI, all, "", "avxvnni"}, {all, all, "avxvnni", "avxvnni"},
		{cpuAVX2 | cpuAVX512VNNI, all, "avxvnni", "avx2"}, // as on a Zen 4
		{all, cpuAVX512VNNI, "", "avx512vnni"}, {all, cpuAVX512VNNI, "avx2", "avx512vnni"},
		{all, cpuAVX512VNNI, "amx", "avx512vnni"}, {cpuAVX2, cpuAVX512VNNI, "", ""}, {all, 0, "", ""},
		{all, cpuAVX2 | cpuAMX, "avx512vnni", "avx2"}, {all, cpuAVX512VNNI | cpuAMX, "scalar", "avx512vnni"},
	} {
		limit, want := here(c.limit), here(c.want)
		if got := chooseISA(c.cpu, c.have, limit); got != want {
			t.Errorf("of %03b in a library for %03b up to %q: %q, not %q", c.cpu, c.have, limit, got, want)
		}
	}
	if got := chooseISA(all, all, "bf16"); runtime.GOARCH == "arm64" && got != "i8mm" {
		t.Errorf("up to bf16, which the kernels have and llama.cpp does not: %q", got)
	}
}

// here returns the name of this architecture's set in the place of one of amd64's; the bits are the same, but for that
// of AVX-VNNI.
func here(name string) string {
	arm := map[string]string{"avx2": "neon", "avxvnni": "neon", "avx512vnni": "dotprod", "amx": "i8mm"}
	if other, ok := arm[name]; ok && runtime.GOARCH == "arm64" {
		return other
	}
	return name
}

// TestNothingRunsBeforeTheChoice: ggml's CPU code is compiled for AVX2 and more, and must not run before Open has
// looked at the processor: its objects have no static constructors.
func TestNothingRunsBeforeTheChoice(t *testing.T) {
	archive, err := os.Open(filepath.Join("..", "third_party", "llama", "lib", "libbinding.a"))
	if err != nil {
		t.Skipf("SKIP: the set-up's library is not here: %v", err)
	}
	defer archive.Close()
	objects := 0
	for at := int64(8); ; { // "!<arch>\n", then a header of 60 bytes before each member
		var header [60]byte
		if _, err := archive.ReadAt(header[:], at); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		size, err := strconv.ParseInt(strings.TrimSpace(string(header[48:58])), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		at += 60
		file, err := elf.NewFile(io.NewSectionReader(archive, at, size))
		at += size + size%2
		if err != nil || !compiledForISA(file) {
			continue
		}
		objects++
		for _, s := range file.Sections {
			if s.Type == elf.SHT_INIT_ARRAY || strings.HasPrefix(s.Name, ".ctors") {
				t.Errorf("static constructors in %s", s.Name)
			}
		}
	}
	if objects == 0 {
		t.Error("no object of ggml's CPU code is in the library")
	}
}

// compiledForISA reports whether an object is one of ggml's CPU code for an instruction set, by its one registry.
func compiledForISA(file *elf.File) bool {
	symbols, err := file.Symbols()
	return err == nil && slices.ContainsFunc(symbols, func(s elf.Symbol) bool {
		return strings.HasPrefix(s.Name, "slc_") && strings.HasSuffix(s.Name, "_ggml_backend_cpu_reg") &&
			s.Section != elf.SHN_UNDEF
	})
}
