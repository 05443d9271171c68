package train

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
)

// twin is testdata/twin.json, which testdata/twin.py makes.
type twin struct {
	Hidden, Layers, Heads, Inner, Vocab, Positions, Labels, Batch int

	Rate         float64
	HeadRate     float64 `json:"head_rate"`
	Decay        float64
	WarmUp       float64 `json:"warm_up"`
	Clip         float64
	ClassWeights []float64 `json:"class_weights"`
	Texts        [][]int32
	Targets      []int32
	Steps        []struct{ Loss, Accuracy, Length float64 }
	Weights      map[string][]float32
	Sums         map[string]float64 // of the tensors after the steps
}

// write puts the twin's weights and configuration into a folder.
func (w *twin) write(t *testing.T) string {
	t.Helper()
	n := &network[float32]{shape: shape{Hidden: w.Hidden, Layers: w.Layers, Heads: w.Heads, Intermediate: w.Inner,
		Vocab: w.Vocab, Positions: w.Positions}}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(configText(t, n)), 0o644); err != nil {
		t.Fatal(err)
	}
	var tensors []checkpoint.Tensor
	for name, data := range w.Weights {
		dims := []int{len(data)}
		if rows := w.rows(name); rows > 0 {
			dims = []int{rows, len(data) / rows}
		}
		tensors = append(tensors, checkpoint.Tensor{Name: name, Shape: dims, Data: data})
	}
	raw, err := checkpoint.Safetensors(tensors, "F32")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), raw, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// rows returns 0 for vectors.
func (w *twin) rows(name string) int {
	bias := name[:len(name)-len(filepath.Ext(name))] + ".bias"
	if _, ok := w.Weights[bias]; ok && len(w.Weights[name]) > len(w.Weights[bias]) {
		return len(w.Weights[bias])
	}
	switch name {
	case "distilbert.embeddings.word_embeddings.weight":
		return w.Vocab
	case "distilbert.embeddings.position_embeddings.weight":
		return w.Positions
	}
	return 0
}

// TestTwin: the first 20 steps of a training have the losses and accuracies that NumPy finds in float64, to 1e-4.
func TestTwin(t *testing.T) {
	var w twin
	raw, err := os.ReadFile("testdata/twin.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &w); err != nil {
		t.Fatal(err)
	}
	m, err := newMachine(newEngine(t, 2))
	if err != nil {
		t.Fatal(err)
	}
	n, err := loadNetwork(w.write(t), m)
	if err != nil {
		t.Fatal(err)
	}
	n.addClassHead(w.Labels, 1)
	for _, p := range n.head.params() {
		copy(p.data, w.Weights[p.name])
	}
	opt := newAdamW(n, len(w.Steps), Settings{WarmUp: w.WarmUp, Rate: w.Rate, HeadRate: w.HeadRate,
		WeightDecay: w.Decay, Clip: w.Clip})
	o := &objective{labels: w.Labels, weights: w.ClassWeights}
	var worst float64
	for i, want := range w.Steps {
		n.arena.reset()
		b := newBatch(w.Texts[i*w.Batch : (i+1)*w.Batch])
		var targets []target
		for _, label := range w.Targets[i*w.Batch : (i+1)*w.Batch] {
			targets = append(targets, target{label})
		}
		x, err := n.features(b)
		if err != nil {
			t.Fatal(err)
		}
		p, err := n.decide(x, b)
		if err != nil {
			t.Fatal(err)
		}
		got, d := loss(o, p.logits, targets)
		if err := n.gradients(p, d); err != nil {
			t.Fatal(err)
		}
		length, err := opt.length()
		if err != nil {
			t.Fatal(err)
		}
		accuracy := score(o, p.logits, targets).Accuracy
		worst = max(worst, math.Abs(got-want.Loss), math.Abs(length-want.Length)/want.Length)
		if math.Abs(got-want.Loss) > 1e-4 || math.Abs(accuracy-want.Accuracy) > 1e-4 ||
			math.Abs(length-want.Length) > 1e-4*want.Length {
			t.Errorf("step %d: loss %v, accuracy %v, length %v; %+v expected", i+1, got, accuracy, length, want)
		}
		if err := opt.update(); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range n.tensors() {
		if strings.HasSuffix(x.name, "k_lin.bias") {
			continue // attention does not depend on it: its gradient is rounding, of which Adam makes whole steps
		}
		var sum float64
		for _, v := range x.data {
			sum += float64(v)
		}
		if d := math.Abs(sum - w.Sums[x.name]); !(d <= 1e-3) {
			t.Errorf("%s: the sum of its values is %v, %v expected", x.name, sum, w.Sums[x.name])
		}
	}
	t.Logf("largest difference %.2g", worst)
}
