//go:build native

package generate

import (
	"strings"

	"github.com/sluice-rag/sluice/llm"
)

// linkedVersion returns the version of llama.cpp that this program was linked with, "" if unknown.
func linkedVersion() string {
	if _, about, ok := strings.Cut(llm.NativeDigest(), "llama.cpp "); ok {
		return strings.TrimSpace(about)
	}
	return ""
}
