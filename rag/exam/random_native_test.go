//go:build native

package exam_test

import (
	"path/filepath"
	"reflect"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/generator"
	"github.com/sluice-rag/sluice/rag/prompt"
)

// TestRandomWeights: models that know nothing are trusted with nothing, and get the same card twice.
func TestRandomWeights(t *testing.T) {
	few := sets(t)[:1]
	few[0].Passages = few[0].Passages[:6]
	for i := range few[0].Passages { // these parts decide nothing, and their time is spent on the others
		few[0].Passages[i].Unanswered, few[0].Passages[i].Foreign = "", ""
	}
	for _, preset := range []string{"llama-bpe", "qwen2"} {
		m, ok := generator.Preset(preset)
		if !ok {
			t.Fatalf("no preset %s", preset)
		}
		m.Context, m.Type = 4096, "Q8_0"
		path := filepath.Join(t.TempDir(), preset+".gguf")
		if err := generator.Write(path, m); err != nil {
			t.Fatal(err)
		}
		card := examined(t, path, few)
		if card.Writes("en") || card.Asks("en") {
			t.Errorf("%s: %+v", preset, card)
		}
		for _, g := range prompt.Graders() {
			if card.Grades(g, "en") {
				t.Errorf("%s: %s: %+v", preset, g, card.Sets["en"].Verdicts[g])
			}
		}
		if t.Logf("%s: %s after %d calls", preset, card.Summary(), card.Calls); preset != "qwen2" {
			continue
		}
		if again := examined(t, path, few); !reflect.DeepEqual(card, again) {
			t.Errorf("%s: %+v, and then %+v", preset, card, again)
		}
	}
}
