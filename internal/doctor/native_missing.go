//go:build !native

package doctor

func nativeLLM() string { return "" }
