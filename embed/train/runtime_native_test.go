//go:build native

package train

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
)

// TestRuntime checks that embed can open a trained model's folder directly, and that its logits equal those of the
// training to within 5e-6 and its probabilities use the temperature of its model.yaml. The large model is the default
// encoder.
func TestRuntime(t *testing.T) {
	race.Skip(t)
	for name, c := range map[string]struct{ from func(t *testing.T) string }{
		"small": {bertDir},
		"default encoder": {func(t *testing.T) string {
			dir, err := models.Locate("all-MiniLM-L6-v2")
			if err != nil {
				t.Skipf("SKIP: %v", err)
			}
			return dir
		}},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(t, c.from(t))
			in.Settings.Epochs = 1
			tokenizer, err := embed.OpenTokenizer(in.From)
			if err != nil {
				t.Fatal(err)
			}
			defer tokenizer.Close()
			in.Tokenizer = tokenizer
			r := trainOrFail(t, in)
			e, err := embed.OpenClassifier(t.Context(), in.Out, embed.Options{})
			if errors.Is(err, embed.ErrLibrary) {
				t.Skipf("SKIP: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			texts := []string{"the gate number 3 is red today", "blue", "",
				"a context of the knowledge base is near enough"}
			got, err := e.Classify(t.Context(), texts)
			if err != nil {
				t.Fatal(err)
			}
			want := trainedLogits(t, in, texts)
			var worst float64
			for i, v := range got.Logits {
				worst = max(worst, math.Abs(float64(v-want[i])))
			}
			t.Logf("largest difference of a logit %.2g", worst)
			if len(want) != len(got.Logits) || !(worst <= 5e-6) {
				t.Errorf("%v, training has %v", got.Logits, want)
			}
			if got.Temperature != r.Calibration.Temperature || got.Threshold != r.Calibration.Threshold {
				t.Errorf("temperature %v, threshold %v, %+v expected", got.Temperature, got.Threshold, r.Calibration)
			}
			provenanceOf(t, in.Out, in)
		})
	}
}

// trainedLogits computes the logits of the model in in.Out with the training code.
func trainedLogits(t *testing.T, in ClassifierInput, texts []string) []float32 {
	t.Helper()
	m, err := newMachine(in.Engine)
	if err != nil {
		t.Fatal(err)
	}
	n, err := loadDistil(in.Out, m)
	if err != nil {
		t.Fatal(err)
	}
	n.from = n.Layers
	n.addClassHead(3, 1)
	for _, x := range readTensors(t, filepath.Join(in.Out, "model.safetensors")) {
		for _, p := range n.head.params() {
			if p.name == x.Name {
				copy(p.data, x.Data)
			}
		}
	}
	ids, _, err := tokens(in.Tokenizer, texts, "", 64)
	if err != nil {
		t.Fatal(err)
	}
	b := newBatch(ids)
	x, err := n.features(b)
	if err != nil {
		t.Fatal(err)
	}
	p, err := n.decide(x, b)
	if err != nil {
		t.Fatal(err)
	}
	return p.logits
}

// provenanceOf checks what model.yaml says about the training.
func provenanceOf(t *testing.T, dir string, in ClassifierInput) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "model.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var y struct {
		Kind     string
		Training provenance
	}
	if err := yaml.Unmarshal(raw, &y); err != nil {
		t.Fatal(err)
	}
	if y.Kind != "classifier" || y.Training.Data != in.Training.Digest ||
		y.Training.Settings.Seed != in.Settings.Seed || y.Training.Epochs != 1 || y.Training.Scores.Examples != 12 {
		t.Errorf("model.yaml says %+v", y)
	}
}

// TestEncoderRuntime checks that the encoder trained from each family is opened by embed, and that its vectors equal
// those of the training to within 5e-6.
func TestEncoderRuntime(t *testing.T) {
	race.Skip(t)
	for _, family := range []string{"bert", "distilbert", "roberta", "xlm-roberta", "camembert", "mpnet"} {
		t.Run(family, func(t *testing.T) {
			in := encoderInput(t, model(t, checkpoint.Spec{Family: family, Prefixed: family == "mpnet",
				Normalise: true}))
			in.Settings.Epochs = 1
			tokenizer, err := embed.OpenTokenizer(in.From)
			if err != nil {
				t.Fatal(err)
			}
			defer tokenizer.Close()
			in.Tokenizer = tokenizer
			if _, err := Encoder(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			e, err := embed.Open(t.Context(), in.Out, embed.Options{})
			if errors.Is(err, embed.ErrLibrary) {
				t.Skipf("SKIP: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			texts := []string{"the gate number 3 is red today", "blue",
				strings.Repeat("a context of the knowledge base ", 9)}
			got, err := e.Embed(t.Context(), texts, embed.Query)
			if err != nil {
				t.Fatal(err)
			}
			m, err := newMachine(in.Engine)
			if err != nil {
				t.Fatal(err)
			}
			n, err := load(in.Out, m, false)
			if err != nil {
				t.Fatal(err)
			}
			n.from = n.Layers
			settings, err := embed.ReadSettings(in.Out)
			if err != nil {
				t.Fatal(err)
			}
			ids, _, err := tokens(tokenizer, texts, settings.QueryPrefix, settings.MaxTokens)
			if err != nil {
				t.Fatal(err)
			}
			b := newBatch(ids)
			x, err := n.features(b)
			if err != nil {
				t.Fatal(err)
			}
			var worst float64
			for i, want := range n.sentences(x, b, false).y {
				worst = max(worst, math.Abs(float64(got.Data[i]-want)))
			}
			t.Logf("largest difference of a value %.2g", worst)
			if !(worst <= 5e-6) {
				t.Errorf("the vectors differ by up to %.2g", worst)
			}
		})
	}
}
