package train

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
)

// twin is testdata/twin.json, which testdata/twin.py makes, or reader_twin.json.
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
	Types        [][]uint8 // of a reader, as are Spans
	Spans        [][2]int
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
	config := configText(t, n)
	if w.Types != nil {
		config = fmt.Sprintf(`{"model_type":"bert","hidden_size":%d,"intermediate_size":%d,"num_hidden_layers":%d,
			"num_attention_heads":%d,"vocab_size":%d,"max_position_embeddings":%d}`, w.Hidden, w.Inner, w.Layers,
			w.Heads, w.Vocab, w.Positions)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o644); err != nil {
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
	_, table, _ := strings.Cut(name, ".embeddings.")
	switch table {
	case "word_embeddings.weight":
		return w.Vocab
	case "position_embeddings.weight":
		return w.Positions
	case "token_type_embeddings.weight":
		return 2
	}
	return 0
}

// readTwin reads a twin, and loads its network with the weights of the head that addHead adds.
func readTwin(t *testing.T, path string, load func(dir string, m *machine) (*network[float32], error),
	addHead func(n *network[float32], w *twin)) (*twin, *network[float32], *adamw[float32]) {
	t.Helper()
	var w twin
	raw, err := os.ReadFile(path)
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
	n, err := load(w.write(t), m)
	if err != nil {
		t.Fatal(err)
	}
	addHead(n, &w)
	for _, p := range n.head.params() {
		copy(p.data, w.Weights[p.name])
	}
	return &w, n, newAdamW(n, len(w.Steps), Settings{WarmUp: w.WarmUp, Rate: w.Rate, HeadRate: w.HeadRate,
		WeightDecay: w.Decay, Clip: w.Clip})
}

// checkSums compares the sums of the tensors after the steps.
func (w *twin) checkSums(t *testing.T, n *network[float32]) {
	t.Helper()
	for _, x := range n.tensors() {
		if strings.HasSuffix(x.name, "k_lin.bias") || strings.HasSuffix(x.name, "key.bias") ||
			x.name == "qa_outputs.bias" {
			continue // no softmax depends on it: its gradient is rounding, of which Adam makes whole steps
		}
		var sum float64
		for _, v := range x.data {
			sum += float64(v)
		}
		if want, ok := w.Sums[x.name]; !ok || !(math.Abs(sum-want) <= 1e-3) {
			t.Errorf("%s: the sum of its values is %v, %v expected", x.name, sum, want)
		}
	}
}

// TestTwin: the first 20 steps of a training have the losses and accuracies that NumPy finds in float64, to 1e-4.
func TestTwin(t *testing.T) {
	w, n, opt := readTwin(t, "testdata/twin.json",
		func(dir string, m *machine) (*network[float32], error) { return loadDistil(dir, m) },
		func(n *network[float32], w *twin) { n.addClassHead(w.Labels, 1) })
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
	w.checkSums(t, n)
	t.Logf("largest difference %.2g", worst)
}

// TestReaderTwin is TestTwin for a reader of the BERT family, whose token types are not folded into the positions.
func TestReaderTwin(t *testing.T) {
	w, n, opt := readTwin(t, "testdata/reader_twin.json",
		func(dir string, m *machine) (*network[float32], error) { return load(dir, m, false) },
		func(n *network[float32], _ *twin) { n.addSpanHead(1) })
	all := &set{ids: w.Texts, types: w.Types}
	for i, want := range w.Steps {
		var items []int
		var windows []window
		for at := i * w.Batch; at < (i+1)*w.Batch; at++ {
			items = append(items, at)
			windows = append(windows, window{start: w.Spans[at][0], end: w.Spans[at][1]})
		}
		p, err := passOf(n, all, items)
		if err != nil {
			t.Fatal(err)
		}
		got, d := spanLoss(p.logits, all.batch(items).starts, windows)
		if err := n.gradients(p, d); err != nil {
			t.Fatal(err)
		}
		length, err := opt.length()
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(got-want.Loss) > 1e-4 || math.Abs(length-want.Length) > 1e-4*want.Length {
			t.Errorf("step %d: loss %v, length %v; %+v expected", i+1, got, length, want)
		}
		if err := opt.update(); err != nil {
			t.Fatal(err)
		}
	}
	w.checkSums(t, n)
}
