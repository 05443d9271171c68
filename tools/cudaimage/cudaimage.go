// Package cudaimage compiles kernels/cuda into the image that programs embed, and reports what the compiler made of it.
//
// Input: the sources, and nvcc from the set-up (part nvcc). Output: kernels/cuda/image/sluice.fatbin and
// report.txt beside it: the compiler, its flags, the sources' digest, and for each kernel and architecture its
// registers, stack, spills and static shared memory. A kernel that spills is an error (ErrSpill). The same
// sources give the same bytes, in any folder.
package cudaimage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/cuda"
)

var (
	// ErrSpill is wrapped when a kernel keeps registers in memory.
	ErrSpill = errors.New("cudaimage: a kernel spills")
	// ErrDiffers is wrapped when the checked-in image is not what the sources give.
	ErrDiffers = errors.New("cudaimage: the image that is checked in is not what the sources give: make cuda-image")
	// ErrReport is wrapped when the compiler's words are not understood.
	ErrReport = errors.New("cudaimage: report")
)

// architectures lists the architectures for machine code; ptx is for later ones.
var architectures = []string{"75", "80", "86", "89", "90a"}

const ptx = "90"

// sizeMax is the largest size in the repository.
const sizeMax = 1 << 20

// Flags returns nvcc's.
func Flags() []string {
	f := []string{"-O3", "-std=c++17", "-DNDEBUG", "-fatbin", "-Xptxas=-v",
		"-Xfatbin=-compress-all", "-Xfatbin=-compress-mode=size"} // the driver unpacks what it takes
	for _, a := range architectures {
		f = append(f, "-gencode=arch=compute_"+a+",code=sm_"+a)
	}
	return append(f, "-gencode=arch=compute_"+ptx+",code=compute_"+ptx)
}

// Image is compiled kernels.
type Image struct {
	Bytes    []byte
	Compiler string
	Digest   string // of the sources
	Kernels  []Kernel
}

// Kernel has the assembler's report on one kernel for one architecture.
type Kernel struct {
	Name, Arch               string // "sm_90a"
	Registers, Stack, Shared int    // the last two in bytes
	SpillStores, SpillLoads  int    // bytes
}

// Folder is the folder of the sources below the repository's root; Unit is the file that is compiled.
const (
	Folder = "kernels/cuda"
	Unit   = "kernels.cu"
)

// SourceDigest covers all that the image is made of: the sources and the flags.
func SourceDigest(root string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, strings.Join(Flags(), " "))
	for _, folder := range []string{"", "ladder/"} {
		dir := filepath.Join(root, filepath.FromSlash(Folder), folder)
		list, err := os.ReadDir(dir)
		if err != nil {
			return "", err
		}
		for _, d := range list {
			if x := filepath.Ext(d.Name()); !d.Type().IsRegular() || x != ".cu" && x != ".cuh" {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, d.Name()))
			if err != nil {
				return "", err
			}
			fmt.Fprintf(h, "%s%s %d\n%s", folder, d.Name(), len(text), text)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// Compile makes the image with the compiler at nvcc.
func Compile(ctx context.Context, root, nvcc string) (*Image, error) {
	digest, err := SourceDigest(root)
	if err != nil {
		return nil, err
	}
	version, err := exec.CommandContext(ctx, nvcc, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: run make cuda-image, which brings it", nvcc, err)
	}
	lines := strings.Split(strings.TrimSpace(string(version)), "\n")
	work, err := os.MkdirTemp("", "cudaimage")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	out := filepath.Join(work, "sluice.fatbin")
	cmd := exec.CommandContext(ctx, nvcc, append(Flags(), "-o", out, Unit)...)
	cmd.Dir = filepath.Join(root, filepath.FromSlash(Folder))
	said, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", nvcc, err, said)
	}
	i := &Image{Compiler: lines[len(lines)-1], Digest: digest}
	if i.Bytes, err = os.ReadFile(out); err != nil {
		return nil, err
	}
	if i.Kernels, err = parse(string(said)); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, said)
	}
	return i, i.check()
}

var (
	compiling = regexp.MustCompile(`Compiling entry function '([^']+)' for '([^']+)'`)
	spills    = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
	used      = regexp.MustCompile(`Used (\d+) registers`)
	shared    = regexp.MustCompile(`(\d+) bytes smem`)
)

// parse reads the output of ptxas -v.
func parse(said string) ([]Kernel, error) {
	var list []Kernel
	number := func(s string) int {
		n, _ := strconv.Atoi(s) // the expression has digits only
		return n
	}
	for line := range strings.Lines(said) {
		if m := compiling.FindStringSubmatch(line); m != nil {
			list = append(list, Kernel{Name: m[1], Arch: m[2], Registers: -1})
			continue
		}
		if len(list) == 0 {
			continue
		}
		k := &list[len(list)-1]
		if m := spills.FindStringSubmatch(line); m != nil && k.Registers < 0 {
			k.Stack, k.SpillStores, k.SpillLoads = number(m[1]), number(m[2]), number(m[3])
		}
		if m := used.FindStringSubmatch(line); m != nil {
			k.Registers = number(m[1])
			if m := shared.FindStringSubmatch(line); m != nil {
				k.Shared = number(m[1])
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Kernel) int { return strings.Compare(a.Name+a.Arch, b.Name+b.Arch) })
	for _, k := range list {
		if k.Registers < 0 {
			return nil, fmt.Errorf("%w: nothing is said of %s for %s", ErrReport, k.Name, k.Arch)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: the assembler names no kernel", ErrReport)
	}
	return list, nil
}

// check looks at what every image has to be.
func (i *Image) check() error {
	var errs []error
	for _, k := range i.Kernels {
		if k.SpillStores+k.SpillLoads > 0 {
			errs = append(errs, fmt.Errorf("%w: %s for %s: %d bytes stored, %d loaded", ErrSpill, k.Name, k.Arch,
				k.SpillStores, k.SpillLoads))
		}
	}
	if len(i.Bytes) > sizeMax {
		errs = append(errs, fmt.Errorf("cudaimage: %d bytes, the maximum is %d", len(i.Bytes), sizeMax))
	}
	parts, err := cuda.ImageParts(i.Bytes)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	if got, want := names(parts), wanted(); !slices.Equal(got, want) {
		errs = append(errs, fmt.Errorf("%w: the image has %v, not %v", ErrReport, got, want))
	}
	return errors.Join(errs...)
}

func names(parts []cuda.ImagePart) (list []string) {
	for _, p := range parts {
		list = append(list, p.String())
	}
	slices.Sort(list)
	return list
}

func wanted() []string {
	list := []string{"PTX compute_" + ptx}
	for _, a := range architectures {
		list = append(list, "sm_"+a)
	}
	slices.Sort(list)
	return list
}

// Report returns the text of report.txt.
func (i *Image) Report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Written by make cuda-image; a test compares the digest with the sources.\n\n")
	fmt.Fprintf(&b, "sources   sha256:%s\nimage     sha256:%x, %d bytes\ncompiler  %s\nflags     %s\n", i.Digest,
		sha256.Sum256(i.Bytes), len(i.Bytes), i.Compiler, strings.Join(Flags(), " "))
	fmt.Fprintf(&b, "\n%-24s %-8s %9s %11s %11s %13s %14s\n", "kernel", "arch", "registers", "stack bytes",
		"spill bytes", "static shared", "threads by regs")
	for _, k := range i.Kernels {
		fmt.Fprintf(&b, "%-24s %-8s %9d %11d %11d %13d %14d\n", k.Name, k.Arch, k.Registers, k.Stack,
			k.SpillStores+k.SpillLoads, k.Shared, threads(k.Registers))
	}
	return b.String()
}

// threads returns how many threads share a multiprocessor's 65,536 registers; the architectures' maximum is 1,024 to
// 2,048.
func threads(registers int) int {
	each := (max(registers, 1) + 7) / 8 * 8
	return min(2048, 65536/each/32*32)
}

// Paths returns the files below root.
func Paths(root string) (image, report string) {
	dir := filepath.Join(root, filepath.FromSlash(Folder), "image")
	return filepath.Join(dir, "sluice.fatbin"), filepath.Join(dir, "report.txt")
}

// Compare compiles again and compares the bytes with what is checked in.
func Compare(ctx context.Context, root, nvcc string) (*Image, error) {
	i, err := Compile(ctx, root, nvcc)
	if err != nil {
		return nil, err
	}
	path, _ := Paths(root)
	old, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(old, i.Bytes) {
		return nil, fmt.Errorf("%w (%d bytes, %d are checked in)", ErrDiffers, len(i.Bytes), len(old))
	}
	return i, nil
}
