package manifest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Wheel has the parts of a wheel's file name (PEP 427): name-version-python-abi-platform.whl.
type Wheel struct {
	Python, ABI string   // "cp311", "py3"; "cp311", "abi3", "none"
	Platforms   []string // "manylinux_2_28_x86_64", "any"
}

// ParseWheel reads a wheel's file name.
func ParseWheel(file string) (Wheel, error) {
	stem, ok := strings.CutSuffix(file, ".whl")
	f := strings.Split(stem, "-")
	if !ok || len(f) != 5 || f[2] == "" || f[3] == "" || f[4] == "" {
		return Wheel{}, fmt.Errorf("%q is not the name of a wheel", file)
	}
	return Wheel{Python: f[2], ABI: f[3], Platforms: strings.Split(f[4], ".")}, nil
}

// Pure reports whether the wheel runs on any platform.
func (w Wheel) Pure() bool {
	return w.ABI == "none" && len(w.Platforms) == 1 && w.Platforms[0] == "any"
}

// Minor returns the minor version of CPython 3 that the wheel is tagged with: 11 for cp311, 0 for py3.
func (w Wheel) Minor() int {
	n, err := strconv.Atoi(strings.TrimPrefix(w.Python, "cp3"))
	if err != nil {
		return 0
	}
	return n
}

// Fits reports whether CPython 3.minor can import the wheel (its platform aside).
func (w Wheel) Fits(minor int) bool {
	return w.Pure() || w.Minor() == minor || w.ABI == "abi3" && w.Minor() <= minor
}

// On returns the package with the wheels that a machine can use, by the end of their platform: "x86_64" or "aarch64".
func (p Package) On(machine string) Package {
	p.Wheels = slices.DeleteFunc(slices.Clone(p.Wheels), func(b Blob) bool {
		w, err := ParseWheel(b.File)
		return err != nil || !w.Pure() && !strings.HasSuffix(w.Platforms[0], "_"+machine)
	})
	return p
}

// WheelFor returns the package's wheel for CPython 3.minor. With minor 0 any wheel will do and the first is taken.
func (p Package) WheelFor(minor int) (Blob, bool) {
	return first(p.Wheels, func(b Blob) bool {
		w, err := ParseWheel(b.File)
		return err == nil && (minor == 0 || w.Fits(minor))
	})
}

// NeededBy reports whether CPython 3.minor needs the package at all.
func (p Package) NeededBy(minor int) bool {
	below, err := strconv.Atoi(strings.TrimPrefix(p.PythonBelow, "3."))
	return err != nil || minor < below
}
