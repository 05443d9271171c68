package train

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/embed/onnx"
	"github.com/sluice-rag/sluice/internal/safetensors"
)

// ErrModel is wrapped by errors about a checkpoint that training cannot start from.
var ErrModel = errors.New("train: not a model that training can begin from")

// distilEpsilon is LayerNorm's epsilon in every DistilBERT: its config.json has no key for it.
const distilEpsilon = 1e-12

// loader reads the tensors of a checkpoint; it keeps the first error.
type loader struct {
	file    *os.File
	tensors map[string]safetensors.Tensor
	prefix  string
	err     error
}

// loadDistil reads the BERT or DistilBERT in dir (config.json, model.safetensors) as a DistilBERT without a head. Token
// type 0 of a BERT is folded into the positions.
func loadDistil(dir string, a arithmetic[float32]) (*network[float32], error) {
	n, err := load(dir, a, true)
	if err != nil {
		return nil, err
	}
	if n.family != "distilbert" && n.family != "bert" {
		return nil, fmt.Errorf("%w: %s: model_type %q; classifiers begin from bert or distilbert", ErrModel, dir,
			n.family)
	}
	if n.Epsilon != distilEpsilon {
		return nil, fmt.Errorf("%w: %s: layer_norm_eps is %g; a DistilBERT has %g", ErrModel, dir, n.Epsilon,
			distilEpsilon)
	}
	if n.types != nil {
		for i := range n.positions {
			n.positions[i] += n.types[i%n.Hidden]
		}
		n.types = nil
	}
	return n, nil
}

// load reads the encoder in dir without a head. Its tensors get DistilBERT's names, or keep those of its family.
func load(dir string, a arithmetic[float32], distil bool) (*network[float32], error) {
	c, err := onnx.ReadConfig(filepath.Join(dir, "config.json"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	if classes[c.ModelType] == "" {
		return nil, fmt.Errorf("%w: %s: model_type %q; supported are %v", ErrModel, dir, c.ModelType,
			slices.Sorted(maps.Keys(classes)))
	}
	if c.Activation != "gelu" {
		return nil, fmt.Errorf("%w: %s: activation %q; gelu is supported", ErrModel, dir, c.Activation)
	}
	path := filepath.Join(dir, "model.safetensors")
	w, err := onnx.OpenWeights(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	defer f.Close()
	by := onnx.NamesOf(c.ModelType)
	n := &network[float32]{arithmetic: a, family: c.ModelType, names: by, offset: int(c.Positions) - c.MaxTokens(),
		shape: shape{Hidden: int(c.Hidden), Layers: int(c.Layers), Heads: int(c.Heads),
			Intermediate: int(c.Intermediate), Vocab: int(c.Vocab), Positions: c.MaxTokens(), Epsilon: c.Epsilon}}
	if distil {
		n.names = onnx.NamesOf("distilbert")
	}
	l := &loader{file: f, tensors: w}
	if _, ok := l.tensors[by.Prefix+"embeddings.word_embeddings.weight"]; ok {
		l.prefix = by.Prefix
	}
	n.words = l.read("embeddings.word_embeddings.weight", n.Vocab, n.Hidden)
	n.positions = l.read("embeddings.position_embeddings.weight", int(c.Positions), n.Hidden)
	if c.TypeVocab > 0 {
		n.types = l.read("embeddings.token_type_embeddings.weight", int(c.TypeVocab), n.Hidden)
	}
	if distances := c.DistanceBuckets(); distances != nil {
		n.buckets = l.read(relativeBias, int(c.Buckets), n.Heads)
		n.setBias(distances)
	}
	n.embedNorm = l.norm("embeddings.LayerNorm", "embeddings.LayerNorm", n.Hidden)
	for i := range n.Layers {
		n.layers = append(n.layers, l.layer(n.shape, by, n.names, i))
	}
	return n, l.err
}

// relativeBias is the name of MPNet's table of what attention adds by distance.
const relativeBias = "encoder.relative_attention_bias.weight"

// setBias fills n.bias from the table of buckets; distances holds the table's row for each distance.
func (n *network[T]) setBias(distances []int64) {
	for head := range n.Heads {
		for _, at := range distances {
			if i := int(at)*n.Heads + head; i < len(n.buckets) { // the table is empty after a read error
				n.bias = append(n.bias, n.buckets[i])
			}
		}
	}
}

func (l *loader) layer(s shape, by, as onnx.Names, i int) layer[float32] {
	from, to, h := fmt.Sprint(by.Layer, i, "."), fmt.Sprint(as.Layer, i, "."), s.Hidden
	k, v := l.linear(from+by.Key, "", h, h), l.linear(from+by.Value, "", h, h)
	kv := linear[float32]{
		&param[float32]{name: to + keyValue + ".weight", rows: 2 * h, cols: h, decays: true,
			data: append(k.weight.data, v.weight.data...)},
		&param[float32]{name: to + keyValue + ".bias", cols: 2 * h, data: append(k.bias.data, v.bias.data...)}}
	return layer[float32]{q: l.linear(from+by.Query, to+as.Query, h, h), kv: kv,
		out: l.linear(from+by.Out, to+as.Out, h, h), attnNorm: l.norm(from+by.AttnNorm, to+as.AttnNorm, h),
		up:      l.linear(from+by.Up, to+as.Up, s.Intermediate, h),
		down:    l.linear(from+by.Down, to+as.Down, h, s.Intermediate),
		outNorm: l.norm(from+by.OutNorm, to+as.OutNorm, h)}
}

// keyValue is the name of the stacked key and value projections, which are two tensors in a checkpoint.
const keyValue = "keys_and_values"

func (l *loader) linear(from, to string, out, in int) linear[float32] {
	return linear[float32]{
		&param[float32]{name: to + ".weight", rows: out, cols: in, decays: true, data: l.read(from+".weight", out, in)},
		&param[float32]{name: to + ".bias", cols: out, data: l.read(from+".bias", 0, out)}}
}

func (l *loader) norm(from, to string, cols int) norm[float32] {
	weight, bias := from+".weight", from+".bias"
	if _, old := l.tensors[l.prefix+from+".gamma"]; old { // naming used by the first converted checkpoints
		weight, bias = from+".gamma", from+".beta"
	}
	return norm[float32]{&param[float32]{name: to + ".weight", cols: cols, data: l.read(weight, 0, cols)},
		&param[float32]{name: to + ".bias", cols: cols, data: l.read(bias, 0, cols)}}
}

// read returns a tensor of rows × cols, or a vector of cols (rows = 0).
func (l *loader) read(name string, rows, cols int) []float32 {
	if l.err != nil {
		return nil
	}
	name = l.prefix + name
	t, ok := l.tensors[name]
	want := []int64{int64(rows), int64(cols)}
	if rows == 0 {
		want = want[1:]
	}
	switch {
	case !ok:
		l.err = fmt.Errorf("%w: %s: tensor %q is missing", ErrModel, l.file.Name(), name)
	case fmt.Sprint(t.Shape) != fmt.Sprint(want):
		l.err = fmt.Errorf("%w: %s: tensor %q has the shape %v, %v expected", ErrModel, l.file.Name(), name, t.Shape,
			want)
	}
	if l.err != nil {
		return nil
	}
	data, err := readFloats(l.file, t)
	if err != nil {
		l.err = fmt.Errorf("%w: %s: tensor %q: %w", ErrModel, l.file.Name(), name, err)
	}
	return data
}

// readFloats reads a tensor of F32, F16 or BF16. A value that is not finite is an error.
func readFloats(r io.ReaderAt, t safetensors.Tensor) ([]float32, error) {
	raw := make([]byte, t.Length)
	if _, err := r.ReadAt(raw, t.Offset); err != nil && !(errors.Is(err, io.EOF) && t.Length == 0) {
		return nil, err
	}
	var out []float32
	switch t.DType {
	case "F32":
		out = make([]float32, len(raw)/4)
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
	case "BF16":
		out = make([]float32, len(raw)/2)
		for i := range out {
			out[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw[2*i:])) << 16)
		}
	case "F16":
		out = make([]float32, len(raw)/2)
		for i := range out {
			out[i] = half(binary.LittleEndian.Uint16(raw[2*i:]))
		}
	default:
		return nil, fmt.Errorf("type %s; F32, F16 and BF16 are supported", t.DType)
	}
	for i, v := range out {
		if v-v != 0 {
			return nil, fmt.Errorf("value %d is %v", i, v)
		}
	}
	return out, nil
}

// half returns the value of a float16.
func half(b uint16) float32 {
	sign, exponent, mantissa := uint32(b>>15)<<31, int(b>>10&31), uint32(b&1023)
	switch exponent {
	case 0:
		v := float32(mantissa) / (1 << 24)
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 31:
		return math.Float32frombits(sign | 255<<23 | mantissa<<13)
	}
	return math.Float32frombits(sign | uint32(exponent+112)<<23 | mantissa<<13)
}

// named is a tensor as stored in a file.
type named struct {
	name string
	dims []int64
	data []float32
}

// tensors returns the tensors of the model's file, with the family's names. All except those of the head have its
// prefix.
func (n *network[T]) tensors() []named {
	var out []named
	add := func(name string, data []T, rows, cols int) {
		dims := []int64{int64(rows), int64(cols)}
		if rows == 0 {
			dims = dims[1:]
		}
		values := make([]float32, len(data))
		for i, v := range data {
			values[i] = float32(v)
		}
		out = append(out, named{name, dims, values})
	}
	p := n.names.Prefix
	add(p+"embeddings.word_embeddings.weight", n.words, n.Vocab, n.Hidden)
	add(p+"embeddings.position_embeddings.weight", n.positions, len(n.positions)/n.Hidden, n.Hidden)
	if n.types != nil {
		add(p+"embeddings.token_type_embeddings.weight", n.types, len(n.types)/n.Hidden, n.Hidden)
	}
	if n.buckets != nil {
		add(p+relativeBias, n.buckets, len(n.buckets)/n.Heads, n.Heads)
	}
	all := []*param[T]{n.embedNorm.gamma, n.embedNorm.beta}
	for i := range n.layers {
		all = append(all, n.layers[i].params()...)
	}
	for _, x := range all {
		if before, after, stacked := strings.Cut(x.name, keyValue); stacked {
			half, cols := len(x.data)/2, x.cols
			if x.rows == 0 {
				cols = half
			}
			add(p+before+n.names.Key+after, x.data[:half], x.rows/2, cols)
			add(p+before+n.names.Value+after, x.data[half:], x.rows/2, cols)
			continue
		}
		add(p+x.name, x.data, x.rows, x.cols)
	}
	if n.head != nil {
		for _, x := range n.head.params() {
			add(x.name, x.data, x.rows, x.cols)
		}
	}
	return out
}

// writeTensors writes a safetensors file.
func writeTensors(w io.Writer, tensors []named, extra []byte) error {
	entries := make([]safetensors.Entry, 0, len(tensors)+1)
	for _, t := range tensors {
		entries = append(entries, safetensors.Entry{Name: t.name,
			Tensor: safetensors.Tensor{DType: "F32", Shape: t.dims}})
	}
	if extra != nil { // after the floats, so that these stay aligned
		entries = append(entries, safetensors.Entry{Name: stateTensor,
			Tensor: safetensors.Tensor{DType: "U8", Shape: []int64{int64(len(extra))}}})
	}
	head, err := safetensors.Header(entries, map[string]string{"format": "pt"})
	if err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	raw := make([]byte, 0, 1<<16)
	for _, t := range tensors {
		for i, v := range t.data {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
			if len(raw) == cap(raw) || i == len(t.data)-1 {
				if _, err := w.Write(raw); err != nil {
					return err
				}
				raw = raw[:0]
			}
		}
	}
	_, err = w.Write(extra)
	return err
}
