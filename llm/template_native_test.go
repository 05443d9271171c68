//go:build native

package llm

import (
	"strings"
	"testing"
)

// Our names are llama.cpp's: a template's source and its name format a conversation alike, and what we do not know it does not.
func TestTemplateNamesAreLlamas(t *testing.T) {
	chat := []Message{{System, "Be brief."}, {User, "One?"}, {Assistant, "Two."}, {User, "Three?"}}
	for _, c := range chatTemplates() {
		source := "{#\n" + strings.Join(c.has, "\n") + "\n#}"
		name := Info{ChatTemplate: source}.TemplateName()
		if name != c.name {
			t.Errorf("%q is taken for %q, not %q", source, name, c.name)
		}
		want, ok, err := renderChat(source, chat)
		if err != nil || !ok {
			t.Errorf("llama.cpp does not know %q: %v", source, err)
			continue
		}
		if c.name == "dots1" { // llama.cpp recognises it and has no name for it
			continue
		}
		if got, ok, err := renderChat(name, chat); err != nil || !ok || got != want {
			t.Errorf("%s formats %q, its source %q (%v)", name, got, want, err)
		}
	}
	for _, source := range []string{"{{ messages }}", "<|user|>", "no template"} {
		if _, ok, _ := renderChat(source, chat); ok || (Info{ChatTemplate: source}).TemplateName() != "" {
			t.Errorf("%q is known", source)
		}
	}
}
