//go:build native

package llm

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/llm/gguf"
)

// Each name is one of llama.cpp's built-in templates.
func TestTemplateNamesAreLlamas(t *testing.T) {
	chat := []Message{{Role: System, Content: "Be brief."}, {Role: User, Content: "One?"},
		{Role: Assistant, Content: "Two."}, {Role: User, Content: "Three?"}}
	for _, name := range gguf.TemplateNames() {
		if text, err := rendered(name, chat); err != nil || !strings.Contains(text, "Three?") {
			t.Errorf("%s formats %q, %v", name, text, err)
		}
	}
	for _, name := range []string{"<|user|>", "no template", "<|im_start|>", "chatml "} {
		if _, err := rendered(name, chat); !errors.Is(err, ErrTemplate) {
			t.Errorf("%q is known: %v", name, err)
		}
	}
}
