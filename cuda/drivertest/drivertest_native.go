//go:build native && cgo && linux && (amd64 || arm64)

package drivertest

// #cgo LDFLAGS: -ldl
// #include <dlfcn.h>
// #include <stdlib.h>
// typedef int set_function(const char *, long long);
// typedef long calls_function(void);
// typedef void tell_function(char *, int);
// static int call_set(void *f, const char *name, long long value) { return ((set_function *)f)(name, value); }
// static long call_calls(void *f) { return ((calls_function *)f)(); }
// static void call_tell(void *f, char *to, int size) { ((tell_function *)f)(to, size); }
import "C"

import (
	"testing"
	"unsafe"
)

// Driver is a stand-in driver loaded by this process. Its settings apply to the whole process.
type Driver struct {
	Path    string
	library unsafe.Pointer
	t       testing.TB
}

// Open builds the stand-in driver with the kernels of kernels/cuda, puts its path into SLUICE_LIBCUDA, and resets its
// settings to one device of 1 GiB, compute capability 9.0 and CUDA 13.0 that runs all work at once. When the test ends,
// leaks and misuse that the driver detected fail the test.
func Open(t testing.TB) *Driver {
	t.Helper()
	return open(t, Build(t))
}

// OpenSmall is Open with the kernels of BuildSmall. A process loads one driver only: do not mix it with Open.
func OpenSmall(t testing.TB) *Driver {
	t.Helper()
	return open(t, BuildSmall(t))
}

func open(t testing.TB, path string) *Driver {
	t.Helper()
	t.Setenv("SLUICE_LIBCUDA", path)
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	library := C.dlopen(name, C.RTLD_NOW|C.RTLD_LOCAL)
	if library == nil {
		t.Fatalf("%s: %s", path, C.GoString(C.dlerror()))
	}
	d := &Driver{Path: path, library: library, t: t}
	d.Reset()
	t.Cleanup(func() {
		d.Reset()
		if left := d.Left(); left != "" {
			t.Errorf("not given back to the driver: %s", left)
		}
		if faults := d.Faults(); faults != "" {
			t.Errorf("what a correct program does not do: %s", faults)
		}
	})
	return d
}

// Reset restores the default settings.
func (d *Driver) Reset() {
	d.t.Helper()
	for _, s := range []struct {
		name  string
		value int64
	}{{"devices", 1}, {"version", 13000}, {"major", 9}, {"minor", 0}, {"init", 0}, {"pools", 1}, {"lazy", 0},
		{"maps", 1}, {"swizzle", -1}, {"multiprocessors", 132}, {"memory", 1 << 30}, {"fail_at", 0}} {
		d.Set(s.name, s.value)
	}
}

func (d *Driver) entry(name string) unsafe.Pointer {
	d.t.Helper()
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	p := C.dlsym(d.library, n)
	if p == nil {
		d.t.Fatalf("%s has no %s: is it the stand-in?", d.Path, name)
	}
	return p
}

// Set changes a setting: devices, version (13000 is CUDA 13.0), major and minor (compute capability), init (what cuInit
// returns), pools (whether devices have memory pools), maps (whether the driver encodes maps for TMA),
// swizzle (bytes of the pattern in maps, whatever is asked for, or -1), multiprocessors, lazy, memory (bytes a device).
func (d *Driver) Set(name string, value int64) {
	d.t.Helper()
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	if C.call_set(d.entry("standin_set"), n, C.longlong(value)) == 0 {
		d.t.Fatalf("the stand-in has no setting %q", name)
	}
}

// FailAt makes the n-th call from now on fail with a code of the driver; 0 cancels it. A code of 700 to 719 also breaks
// the context until its last user has released it.
func (d *Driver) FailAt(n int64, code int) {
	d.t.Helper()
	d.Set("fail_code", int64(code))
	d.Set("fail_at", n)
}

// Calls returns the number of driver calls so far.
func (d *Driver) Calls() int64 {
	d.t.Helper()
	return int64(C.call_calls(d.entry("standin_calls")))
}

func (d *Driver) tell(name string) string {
	d.t.Helper()
	const size = 1 << 14
	text := (*C.char)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(text))
	C.call_tell(d.entry(name), text, size)
	return C.GoString(text)
}

// Failed returns the name of the call that FailAt hit, or "".
func (d *Driver) Failed() string { d.t.Helper(); return d.tell("standin_failed") }

// Left lists what was created and not released; "" if there are no leaks.
func (d *Driver) Left() string { d.t.Helper(); return d.tell("standin_left") }

// Faults lists the misuse detected since the last call, one per line.
func (d *Driver) Faults() string { d.t.Helper(); return d.tell("standin_faults") }
