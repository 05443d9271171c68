package gguf

import (
	"slices"
	"strings"
	"testing"
)

// What names a template in its source is found there.
func TestTemplateName(t *testing.T) {
	for _, c := range chatTemplates() {
		source := "{#\n" + strings.Join(c.has, "\n") + "\n#}"
		if name := (Model{ChatTemplate: source}).TemplateName(); name != c.name {
			t.Errorf("%q is taken for %q, not %q", source, name, c.name)
		}
	}
	for _, source := range []string{"{{ messages }}", "<|user|>", "no template", ""} {
		if name := (Model{ChatTemplate: source}).TemplateName(); name != "" {
			t.Errorf("%q is taken for %q", source, name)
		}
	}
	names := TemplateNames()
	if name := (Model{ChatTemplate: "chatml"}).TemplateName(); name != "chatml" || !slices.Contains(names, name) ||
		len(names) < 40 {
		t.Errorf("%q; %d names", name, len(names))
	}
}
