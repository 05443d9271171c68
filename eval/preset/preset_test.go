package preset_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/eval/experiment"
	"github.com/sluice-rag/sluice/eval/preset"
)

// TestPresets: each parses, compares two precisions of the encoder and two files of the language model, and shows
// published values of the width of their head.
func TestPresets(t *testing.T) {
	for _, name := range preset.Papers() {
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
	f, err := preset.Load("gates")
	if err != nil || f.Name != "gates" || !slices.Contains(preset.Names(), "gates") {
		t.Errorf("%+v %v", f, err)
	}
	if _, err := preset.Models("gates"); !errors.Is(err, experiment.ErrFile) {
		t.Errorf("%v", err)
	}
	if _, err := preset.Models("moon"); !errors.Is(err, experiment.ErrFile) {
		t.Errorf("%v", err)
	}
	if _, err := preset.Load("moon"); !errors.Is(err, experiment.ErrFile) {
		t.Errorf("%v", err)
	}
}

// TestPaper: each paper has models with roles, and its experiment with them is a file that can be read again.
func TestPaper(t *testing.T) {
	for _, name := range preset.Papers() {
		list, err := preset.Models(name)
		if err != nil || len(list) < 2 {
			t.Errorf("%s: %v, %v", name, list, err)
		}
		for _, m := range list {
			if m.Role == "" || m.Name == "" || m.Billions == 0 && m.Note == "" {
				t.Errorf("%s: %+v", name, m)
			}
		}
		f, err := preset.Paper(name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := yaml.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		again, err := experiment.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if same, err := yaml.Marshal(again); err != nil || !bytes.Equal(same, text) {
			t.Errorf("%s: %s\nbecomes\n%s, %v", name, text, same, err)
		}
	}
	f, err := preset.Paper("keibel-matrix")
	if err != nil {
		t.Fatal(err)
	}
	if p := f.Parts; len(p[0].Encoders) != 4 || len(p[1].Encoders) != 0 || len(p[1].Generators) != 2*5 ||
		f.Judge != "SmolLM2-135M-Instruct:Q4_0" || f.Answers() != 30 {
		t.Errorf("%d encoders, %d generators, judge %s, %d answers", len(p[0].Encoders), len(p[1].Generators), f.Judge,
			f.Answers())
	}
	if f, err = preset.Paper("cag-tables"); err != nil || f.Judge != "Llama-3.2-3B-Instruct" || f.Answers() != 12*8 {
		t.Errorf("judge %s, %d answers, %v", f.Judge, f.Answers(), err)
	}
}
