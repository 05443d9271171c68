package cudaimage

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/cuda"
)

const root = "../.."

// TestImageIsOfTheseSources checks that the image in the repository was compiled from the present sources, by the
// digest that make cuda-image writes. make cuda-image-check compiles again and compares the bytes; this needs no
// compiler.
func TestImageIsOfTheseSources(t *testing.T) {
	image, report := Paths(root)
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := SourceDigest(root)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "sources   sha256:"+digest+"\n") {
		t.Errorf("kernels/cuda has changed since its image was made: make cuda-image")
	}
	b, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	i := Image{Bytes: b}
	if err := i.check(); err != nil {
		t.Error(err)
	}
	parts, err := cuda.ImageParts(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []struct {
		capability [2]int
		want       string
	}{{[2]int{7, 5}, "sm_75"}, {[2]int{8, 0}, "sm_80"}, {[2]int{8, 6}, "sm_86"}, {[2]int{8, 7}, "sm_86"},
		{[2]int{8, 9}, "sm_89"}, {[2]int{9, 0}, "sm_90a"}, {[2]int{10, 0}, "PTX compute_90"},
		{[2]int{12, 0}, "PTX compute_90"}} {
		p, err := cuda.Fits(parts, d.capability, 13000)
		if err != nil || p.String() != d.want {
			t.Errorf("compute capability %v takes %v (%v), want %s", d.capability, p, err, d.want)
		}
	}
}

const said = `ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'slc_b' for 'sm_80'
ptxas info    : Function properties for slc_b
    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 16 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compiling entry function 'slc_a' for 'sm_80'
ptxas info    : Function properties for slc_a
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers
`

func TestSpillsAreErrors(t *testing.T) {
	list, err := parse(said)
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	if a := list[0]; a != (Kernel{Name: "slc_a", Arch: "sm_80", Registers: 12}) {
		t.Errorf("%+v", a)
	}
	b := list[1]
	if b != (Kernel{Name: "slc_b", Arch: "sm_80", Registers: 255, Stack: 16, SpillStores: 12, SpillLoads: 8,
		Shared: 1024}) {
		t.Errorf("%+v", b)
	}
	i := Image{Kernels: list}
	if err := i.check(); !errors.Is(err, ErrSpill) || !strings.Contains(err.Error(), "slc_b for sm_80") {
		t.Error(err)
	}
	if strings.Contains(said, "slc_a") && threads(b.Registers) != 256 {
		t.Error(threads(b.Registers))
	}
	for _, bad := range []string{"", "Compiling entry function 'x' for 'sm_80'\n"} {
		if _, err := parse(bad); !errors.Is(err, ErrReport) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
