//go:build native

package llm

import (
	"errors"
	"strings"
	"testing"
)

// Each name is one of llama.cpp's built-in templates, and what names it in a template's source is found there.
func TestTemplateNamesAreLlamas(t *testing.T) {
	chat := []Message{{System, "Be brief."}, {User, "One?"}, {Assistant, "Two."}, {User, "Three?"}}
	for _, c := range chatTemplates() {
		source := "{#\n" + strings.Join(c.has, "\n") + "\n#}"
		if name := (Info{ChatTemplate: source}).TemplateName(); name != c.name {
			t.Errorf("%q is taken for %q, not %q", source, name, c.name)
		}
		if c.name == "dots1" { // llama.cpp recognises it and has no name for it
			continue
		}
		text, err := renderChat(nil, c.name, chat)
		if err != nil || !strings.Contains(text, "Three?") {
			t.Errorf("%s formats %q, %v", c.name, text, err)
		}
	}
	for _, name := range []string{"<|user|>", "no template", "<|im_start|>", "chatml "} {
		if _, err := renderChat(nil, name, chat); !errors.Is(err, ErrTemplate) {
			t.Errorf("%q is known: %v", name, err)
		}
	}
	for _, source := range []string{"{{ messages }}", "<|user|>", "no template"} {
		if name := (Info{ChatTemplate: source}).TemplateName(); name != "" {
			t.Errorf("%q is taken for %q", source, name)
		}
	}
}
