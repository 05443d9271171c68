//go:build native

package embed

// #include <dlfcn.h>
// #include <stdlib.h>
// static const char *slc_open_for_all(const char *path) {
//     return dlopen(path, RTLD_NOW | RTLD_GLOBAL) != NULL ? NULL : dlerror();
// }
import "C"

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"unsafe"
)

// fallbackDigests names the C++ runtime that an archive of `make dist` brings for systems that have none, in the order
// of opening: "libgcc_s.so.1=sha256:… libstdc++.so.6=sha256:…". The linker sets it; it is empty in other programs.
var fallbackDigests string

// fallbackFolder is beside ONNX Runtime, where the dynamic loader does not search: the system's own goes first.
const fallbackFolder = "fallback"

// lacksRuntime reports whether ONNX Runtime could not be opened because the system's C++ runtime is missing or too old.
func lacksRuntime(err error) bool {
	return strings.Contains(err.Error(), "libstdc++.so.6") || strings.Contains(err.Error(), "libgcc_s.so.1")
}

// openFallback opens the C++ runtime that lies beside the library, for the library to find it loaded. Each file must
// have the digest of what the program was packed with.
func openFallback(library, digests string) error {
	if digests == "" {
		return fmt.Errorf("%w: it needs libstdc++ (GCC 6 or newer); install it: apt-get install libstdc++6, "+
			"dnf install libstdc++", ErrLibrary)
	}
	for entry := range strings.FieldsSeq(digests) {
		name, want, _ := strings.Cut(entry, "=")
		path := filepath.Join(filepath.Dir(library), fallbackFolder, name)
		have, err := hashFile(context.Background(), path)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrLibrary, err)
		}
		if have != want {
			return fmt.Errorf("%w: %s has the digest %s, not %s", ErrLibrary, path, have, want)
		}
		if err := openForAll(path); err != nil {
			return err
		}
	}
	return nil
}

// openForAll opens a library for those that are opened after it.
func openForAll(path string) error {
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	if message := C.slc_open_for_all(text); message != nil {
		return fmt.Errorf("%w: %s", ErrLibrary, C.GoString(message))
	}
	return nil
}
