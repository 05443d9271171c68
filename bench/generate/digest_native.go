//go:build native

package generate

import (
	"strings"

	"github.com/sluice-rag/sluice/llm"
)

// linkedVersion says which llama.cpp this program was linked with, "" when that is not known.
func linkedVersion() string {
	if _, about, ok := strings.Cut(llm.NativeDigest(), "llama.cpp "); ok {
		return strings.TrimSpace(about)
	}
	return ""
}
