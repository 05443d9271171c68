package dist

import (
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrNeeds is wrapped when a binary asks for something that the archive does not promise.
var ErrNeeds = errors.New("dist: needs of a binary")

// Needs lists what the dynamic loader must find to start a program or open a library.
type Needs struct {
	Libraries []string           // names, in the order of the file
	Versions  map[string]Version // the highest by family: GLIBC, GLIBCXX, CXXABI, GCC
	Search    []string           // folders that the file names: DT_RPATH, DT_RUNPATH
	Exports   []string           // defined dynamic symbols
}

// Version is a dotted number such as 2.34.
type Version []int

// String returns the dotted form.
func (v Version) String() string {
	var parts []string
	for _, n := range v {
		parts = append(parts, strconv.Itoa(n))
	}
	return strings.Join(parts, ".")
}

// less compares number by number; 2.9 is before 2.34, and 2.3 before 2.3.4.
func (v Version) less(w Version) bool { return slices.Compare(v, w) < 0 }

// parseVersion splits a symbol version such as GLIBC_2.34. Names without a number (GLIBC_PRIVATE, GLIBC_ABI_DT_RELR)
// are promises of one build of the C library and are refused.
func parseVersion(name string) (family string, v Version, err error) {
	family, number, ok := strings.Cut(name, "_")
	for part := range strings.SplitSeq(number, ".") {
		n, err := strconv.Atoi(part)
		if err != nil || !ok {
			return "", nil, fmt.Errorf("%w: symbol version %q has no number", ErrNeeds, name)
		}
		v = append(v, n)
	}
	return family, v, nil
}

// ReadNeeds reads an ELF file.
func ReadNeeds(path string) (Needs, error) {
	f, err := elf.Open(path)
	if err != nil {
		return Needs{}, fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close()
	n := Needs{Versions: map[string]Version{}}
	if n.Libraries, err = f.ImportedLibraries(); err != nil {
		return n, fmt.Errorf("%s: %w", path, err)
	}
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		paths, err := f.DynString(tag)
		if err != nil {
			return n, fmt.Errorf("%s: %w", path, err)
		}
		n.Search = append(n.Search, paths...)
	}
	needs, err := f.DynamicVersionNeeds()
	if err != nil {
		return n, fmt.Errorf("%s: %w", path, err)
	}
	for _, library := range needs {
		for _, need := range library.Needs {
			family, v, err := parseVersion(need.Dep)
			if err != nil {
				return n, fmt.Errorf("%s: %s: %w", path, library.Name, err)
			}
			if n.Versions[family].less(v) {
				n.Versions[family] = v
			}
		}
	}
	symbols, err := f.DynamicSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return n, fmt.Errorf("%s: %w", path, err)
	}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			n.Exports = append(n.Exports, s.Name)
		}
	}
	return n, nil
}

// ofGlibc are the libraries that come with every glibc.
var ofGlibc = map[string]bool{"libc.so.6": true, "libm.so.6": true, "libdl.so.2": true, "librt.so.1": true,
	"libpthread.so.0": true, "libresolv.so.2": true, "ld-linux-x86-64.so.2": true,
	"ld-linux-aarch64.so.1": true}

// checkProgram checks that the program runs wherever its glibc does: it needs no other library, and exports no symbol
// of the C++ library that is linked into it, which ONNX Runtime would then use instead of its own.
func (n Needs) checkProgram() error {
	for _, l := range n.Libraries {
		if !ofGlibc[l] {
			return fmt.Errorf("%w: the program asks for %s", ErrNeeds, l)
		}
	}
	for _, s := range n.Exports {
		if strings.HasPrefix(s, "_Z") {
			return fmt.Errorf("%w: the program exports the C++ symbol %s", ErrNeeds, s)
		}
	}
	if len(n.Versions["GLIBC"]) == 0 {
		return fmt.Errorf("%w: the program names no version of glibc", ErrNeeds)
	}
	return nil
}
