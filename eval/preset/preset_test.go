package preset_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/eval/experiment"
	"github.com/sluice-rag/sluice/eval/preset"
)

// TestPresets: each parses, compares two precisions of the encoder and two files of the language model, and shows
// published values of the width of their head.
func TestPresets(t *testing.T) {
	for _, name := range preset.Names() {
		f, err := preset.Load(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		precisions, models, published := map[string]bool{}, map[string]bool{}, 0
		for _, p := range f.Parts {
			for _, e := range p.Encoders {
				precisions[e.Precision] = true
			}
			for _, g := range p.Generators {
				models[g.Model] = true
			}
		}
		for _, table := range f.Tables {
			for _, line := range table.Published {
				published++
				if len(line) != len(table.Published[0]) {
					t.Errorf("%s: %s: %v", name, table.Title, line)
				}
			}
			for _, m := range table.Change {
				if !slices.Contains(table.Measures, m) {
					t.Errorf("%s: %s: change of %s, which it does not show", name, table.Title, m)
				}
			}
			if (table.Source == "") != (len(table.Published) == 0) {
				t.Errorf("%s: %s: published values need a source", name, table.Title)
			}
		}
		if f.Name != name || len(precisions) < 2 || len(models) < 2 || published < 3 {
			t.Errorf("%s: %q, %v, %v, %d published lines", name, f.Name, precisions, models, published)
		}
	}
	if _, err := preset.Load("moon"); !errors.Is(err, experiment.ErrFile) {
		t.Errorf("%v", err)
	}
}
