//go:build native

package embed

/*
#cgo LDFLAGS: -L${SRCDIR}/../third_party/tokenizers/lib -ltokenizers -ldl -lm -lstdc++
*/
import "C"

import (
	stampfs "embed"
	"strings"
)

// Available reports whether this program can run models.
const Available = true

// Go does not hash static archives. The digest that the set-up leaves here makes it link, and test, anew
// when the archive changes.
//
//go:embed all:stamp
var stamp stampfs.FS

// libraryDigest returns the digest, "sha256:…", of the ONNX Runtime that the set-up had assembled when this program
// was built; empty if unknown.
func libraryDigest() string {
	for line := range strings.Lines(NativeDigest()) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "libonnxruntime.so" {
			return words[1]
		}
	}
	return ""
}

// NativeDigest returns the digest of the libtokenizers.a that the set-up had assembled when this program was built;
// empty if unknown.
func NativeDigest() string {
	b, _ := stamp.ReadFile("stamp/native.digest") // absent before the first set-up
	return strings.TrimSpace(string(b))
}
