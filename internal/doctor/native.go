//go:build native

package doctor

import "github.com/sluice-rag/sluice/llm"

func nativeLLM() string { return llm.NativeDigest() }
