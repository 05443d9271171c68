package onnx

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
)

// Pooling turns the tokens' hidden states into one vector.
type Pooling string

const (
	Mean Pooling = "mean" // over the tokens that the attention mask admits, special tokens included
	CLS  Pooling = "cls"  // the first token
)

// Task is what a graph ends in.
type Task uint8

const (
	Embed    Task = iota // sentence_embedding, [batch, hidden]
	Classify             // logits, [batch, labels]
	Tokens               // logits, [batch, sequence, labels]
	Hidden               // last_hidden_state, [batch, sequence, hidden], as common exports end
)

// Options of Write.
type Options struct {
	Task      Task
	Pooling   Pooling // Embed only
	Normalise bool    // Embed only: divide by the L2 norm
	Types     int64   // the highest token type of the sequences; 0 is folded into the position table
}

// The names of a written graph's inputs (int64, [batch, sequence]) and outputs (float32).
const (
	InputIDs      = "input_ids"
	AttentionMask = "attention_mask"
	TokenTypes    = "token_type_ids" // where Graph.Types says so
	Embedding     = "sentence_embedding"
	Logits        = "logits"
	HiddenState   = "last_hidden_state"
)

// Graph is a written graph and what a caller must know to run it.
type Graph struct {
	ONNX    []byte  // serialised onnx.ModelProto
	Folder  string  // where its external initialisers lie
	Weights string  // the safetensors file
	Output  string  // Embedding, Logits or HiddenState
	Dim     int     // columns of the output
	Types   bool    // it has the input TokenTypes
	Config  *Config // what the graph was written from, with its labels settled
}

// Write lays out the encoder in dir (config.json, model.safetensors) as an ONNX graph. Token type 0 is
// folded into the position table. Every error wraps ErrModel and names the file.
func Write(dir string, o Options) (*Graph, error) {
	c, err := ReadConfig(filepath.Join(dir, "config.json"))
	if err != nil {
		return nil, err
	}
	w, err := OpenWeights(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		return nil, err
	}
	folder, name, err := realFile(w.Path)
	if err != nil {
		return nil, err
	}
	e := &encoder{builder: builder{weights: w, location: name, known: map[string]bool{}}, Config: c,
		family: families[c.ModelType]}
	e.findPrefix(e.family.prefix)
	e.types = e.takesTypes(o.Types)
	x := e.hidden()
	g := &Graph{Folder: folder, Weights: w.Path, Config: c, Output: Embedding, Dim: int(c.Hidden), Types: e.types}
	switch {
	case o.Task == Classify, o.Task == Tokens:
		e.findLabels(dir, o.Task)
		g.Output, g.Dim = Logits, len(c.Labels)
		x = e.head(x, o.Task)
	case o.Task == Hidden:
		g.Output = HiddenState
	case o.Pooling == Mean || o.Pooling == CLS:
		x = e.pool(x, o)
	default:
		return nil, fmt.Errorf("%w: pooling %q; known are %s and %s", ErrModel, o.Pooling, Mean, CLS)
	}
	e.output(x, g.Output)
	if e.err != nil {
		return nil, e.err
	}
	batch, seq := dim{name: "batch"}, dim{name: "sequence"}
	shape := []dim{batch, {size: int64(g.Dim)}}
	if o.Task == Hidden || o.Task == Tokens {
		shape = []dim{batch, seq, {size: int64(g.Dim)}}
	}
	inputs := [][]byte{valueInfo(InputIDs, elemInt64, batch, seq), valueInfo(AttentionMask, elemInt64, batch, seq)}
	if g.Types {
		inputs = append(inputs, valueInfo(TokenTypes, elemInt64, batch, seq))
	}
	g.ONNX = modelProto(c.ModelType, e.nodes, e.inits, inputs,
		[][]byte{valueInfo(g.Output, elemFloat, shape...)})
	return g, nil
}

// encoder lays out one model.
type encoder struct {
	builder
	*Config
	family *family
	types  bool // token types are an input
}

// hidden is the last layer's output, [batch, sequence, hidden].
func (e *encoder) hidden() string {
	x := e.embeddings()
	bias := e.maskBias()
	if e.family.relative {
		bias = e.op("Add", e.relativeBias(), bias)
	}
	for i := int64(0); i < e.Layers && e.err == nil; i++ {
		x = e.layer(x, bias, e.prefix+e.family.layer+strconv.FormatInt(i, 10)+".")
	}
	return x
}

// embeddings is the normalised sum of word, position and type-0 vectors.
func (e *encoder) embeddings() string {
	p := e.prefix + "embeddings."
	table := e.tensor([]int64{e.Positions, e.Hidden}, p+"position_embeddings.weight")
	if e.family.typeVocab > 0 && e.TypeVocab > 0 && !e.types {
		table = e.op("Add", table, e.firstRow(e.TypeVocab, e.Hidden, p+"token_type_embeddings.weight"))
	}
	var position string
	if e.family.offsetPositions {
		// 1 for tokens, 0 for pads; running count, zeroed at pads, shifted behind the pad's own position.
		token := e.node("Cast", []string{e.op("Not", e.op("Equal", InputIDs, e.scalarInt(e.PadID)))},
			attrInt("to", elemInt64))
		count := e.op("Mul", e.op("CumSum", token, e.scalarInt(1)), token)
		position = e.op("Gather", table, e.op("Add", count, e.scalarInt(e.PadID)))
	} else {
		position = e.op("Slice", table, e.ints(0), e.op("Unsqueeze", e.length(), e.ints(0)), e.ints(0))
	}
	word := e.op("Gather", e.tensor([]int64{e.Vocab, e.Hidden}, p+"word_embeddings.weight"), InputIDs)
	if e.types {
		all := e.tensor([]int64{e.TypeVocab, e.Hidden}, p+"token_type_embeddings.weight")
		word = e.op("Add", word, e.op("Gather", all, TokenTypes))
	}
	return e.norm(e.op("Add", word, position), p+"LayerNorm", e.Hidden, e.Epsilon)
}

// length is the padded sequence length, a scalar.
func (e *encoder) length() string { return e.op("Gather", e.op("Shape", InputIDs), e.scalarInt(1)) }

// maskBias is 0 for tokens and the lowest float32 for pads, [batch, 1, 1, sequence]: softmax then gives pads exactly 0.
func (e *encoder) maskBias() string {
	m := e.node("Cast", []string{e.op("Unsqueeze", AttentionMask, e.ints(1, 2))}, attrInt("to", elemFloat))
	return e.op("Mul", e.op("Sub", e.scalar(1), m), e.scalar(-math.MaxFloat32))
}

// relativeBias is MPNet's [1, heads, sequence, sequence]: it depends on the distance of two tokens
// alone, so the buckets of all distances are a constant and the graph only looks them up.
func (e *encoder) relativeBias() string {
	far := int64(e.MaxTokens()) - 1
	buckets := make([]int64, 2*far+1)
	for i := range buckets {
		buckets[i] = relativeBucket(int64(i)-far, e.Buckets)
	}
	w := e.tensor([]int64{e.Buckets, e.Heads}, e.prefix+"encoder.relative_attention_bias.weight")
	table := e.init("distance_buckets",
		func() []byte { return int64Tensor("distance_buckets", []int64{2*far + 1}, buckets) })
	byDistance := e.node("Transpose", []string{e.op("Gather", w, table)}, attrInts("perm", 1, 0))
	at := e.op("Range", e.scalarInt(0), e.length(), e.scalarInt(1))
	distance := e.op("Sub", e.op("Unsqueeze", at, e.ints(0)), e.op("Unsqueeze", at, e.ints(1)))
	bias := e.node("Gather", []string{byDistance, e.op("Add", distance, e.scalarInt(far))}, attrInt("axis", 1))
	return e.op("Unsqueeze", bias, e.ints(0))
}

// relativeBucket is T5's bidirectional bucket of a distance (key − query) with a maximum distance of
// 128: half of the buckets for each direction, the near half of those exact, the rest logarithmic. The
// logarithm is taken in float32 step by step, as the reference implementation does.
func relativeBucket(distance, buckets int64) int64 {
	const farthest = 128
	half := buckets / 2
	base, n := int64(0), -distance
	if n < 0 {
		base, n = half, -n
	}
	exact := half / 2
	if n < exact {
		return base + n
	}
	ratio := float32(math.Log(float64(float32(n)/float32(exact)))) / float32(math.Log(float64(farthest)/float64(exact)))
	return base + min(exact+int64(ratio*float32(half-exact)), half-1)
}

// layer is one post-norm transformer layer.
func (e *encoder) layer(x, bias, p string) string {
	f, h := e.family, e.Hidden
	attended := e.linear(e.attention(x, bias, p), p+f.out, h, h)
	x = e.norm(e.op("Add", attended, x), p+f.attnNorm, h, e.Epsilon)
	up := e.activate(e.linear(x, p+f.up, h, e.Intermediate))
	return e.norm(e.op("Add", e.linear(up, p+f.down, e.Intermediate, h), x), p+f.outNorm, h, e.Epsilon)
}

// attention is softmax(QKᵀ/√d + bias)·V over all heads, [batch, sequence, hidden].
func (e *encoder) attention(x, bias, p string) string {
	f, size := e.family, e.Hidden/e.Heads
	heads := func(key string, perm ...int64) string {
		split := e.op("Reshape", e.linear(x, p+key, e.Hidden, e.Hidden), e.ints(0, 0, e.Heads, size))
		return e.node("Transpose", []string{split}, attrInts("perm", perm...))
	}
	q, k, v := heads(f.query, 0, 2, 1, 3), heads(f.key, 0, 2, 3, 1), heads(f.value, 0, 2, 1, 3)
	scores := e.op("Div", e.op("MatMul", q, k), e.scalar(float32(math.Sqrt(float64(size)))))
	share := e.node("Softmax", []string{e.op("Add", scores, bias)}, attrInt("axis", -1))
	joined := e.node("Transpose", []string{e.op("MatMul", share, v)}, attrInts("perm", 0, 2, 1, 3))
	return e.op("Reshape", joined, e.ints(0, 0, e.Hidden))
}

func (e *encoder) activate(x string) string {
	switch e.Activation {
	case "relu":
		return e.op("Relu", x)
	case "gelu":
		return e.node("Gelu", []string{x}, attrString("approximate", "none"))
	default: // gelu_new, gelu_pytorch_tanh
		return e.node("Gelu", []string{x}, attrString("approximate", "tanh"))
	}
}

// pool makes one vector of the hidden states.
func (e *encoder) pool(x string, o Options) string {
	if o.Pooling == CLS {
		x = e.first(x)
	} else {
		m := e.node("Cast", []string{e.op("Unsqueeze", AttentionMask, e.ints(2))}, attrInt("to", elemFloat))
		sum := e.node("ReduceSum", []string{e.op("Mul", x, m), e.ints(1)}, attrInt("keepdims", 0))
		x = e.op("Div", sum, e.node("ReduceSum", []string{m, e.ints(1)}, attrInt("keepdims", 0)))
	}
	if o.Normalise {
		norm := e.node("ReduceL2", []string{x, e.ints(1)}, attrInt("keepdims", 1))
		x = e.op("Div", x, e.op("Max", norm, e.scalar(1e-12)))
	}
	return x
}

// first is the first token's hidden state, [batch, hidden].
func (e *encoder) first(x string) string {
	return e.node("Gather", []string{x, e.scalarInt(0)}, attrInt("axis", 1))
}
