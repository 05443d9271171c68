//go:build native

package llm

import (
	"testing"

	llama "github.com/go-skynet/go-llama.cpp"
)

// Of upstream's package Sluice uses New, Eval, SetTokenCallback and Free; the rest links, and reports failure.
func TestUpstreamRefuses(t *testing.T) {
	var l llama.LLama
	for name, call := range map[string]func() error{
		"New with a path": func() error { _, err := llama.New("model.gguf"); return err },
		"Predict": func() error {
			_, err := l.Predict("x", llama.SetTokens(1), llama.SetStopWords("a", "b"))
			return err
		},
		"TokenizeString": func() error { _, _, err := l.TokenizeString("x"); return err },
		"LoadState":      func() error { return l.LoadState("file") },
		"SpeculativeSampling": func() error {
			_, err := l.SpeculativeSampling(&l, "x", llama.SetTokens(1))
			return err
		},
	} {
		if err := call(); err == nil {
			t.Error(name, "is not refused")
		}
	}
}
