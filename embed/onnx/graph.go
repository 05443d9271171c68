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

// Task says what a graph computes.
type Task uint8

const (
	Embed    Task = iota // sentence_embedding, [batch, hidden]
	Classify             // logits, [batch, labels]
	Tokens               // logits, [batch, sequence, labels] or [tokens, labels]
	Spans                // logits of the first and the last token of an answer, shaped as Tokens with two labels
	Hidden               // last_hidden_state, [batch, sequence, hidden] as common exports end, or [tokens, hidden]
)

// PerToken reports whether there is a row for each token.
func (t Task) PerToken() bool { return t >= Tokens }

// Options of Write.
type Options struct {
	Task      Task
	Pooling   Pooling // Embed only
	Normalise bool    // Embed only: divide by the L2 norm
	Types     int64   // the highest token type of the sequences; 0 is folded into the position table
	// Standard graphs use only ONNX's own operators, over padded batches, and therefore run anywhere. Other graphs use
	// the operators of package ops, over concatenated texts.
	Standard bool
	Int8     bool // the layers multiply 8-bit codes; not for standard graphs
}

// Domain is the domain of Sluice's own operators.
const Domain = "sluice"

// Names of a written graph's inputs (int64) and outputs (float32). A standard graph takes input_ids and
// attention_mask, [batch, sequence]; other graphs take input_ids and position_ids, [tokens], and starts, [batch + 1].
const (
	InputIDs      = "input_ids"
	AttentionMask = "attention_mask"
	PositionIDs   = "position_ids"
	TokenTypes    = "token_type_ids" // of the shape of input_ids; only if Options.Types asks for it
	Starts        = "starts"         // where each text's tokens begin, and where the last one's end
	Embedding     = "sentence_embedding"
	Logits        = "logits"
	HiddenState   = "last_hidden_state"

	// Common exports of readers have two outputs, [batch, sequence], instead of Logits.
	StartLogits = "start_logits"
	EndLogits   = "end_logits"
)

// Graph is a written graph with the information needed to run it.
type Graph struct {
	ONNX    []byte // serialised onnx.ModelProto
	Folder  string // folder of its external initialisers
	Weights string // the safetensors file
	Output  string // Embedding, Logits or HiddenState
	Inputs  []string
	Dim     int     // columns of the output
	Config  *Config // what the graph was written from, with its labels settled
}

// Write converts the encoder in dir (config.json, model.safetensors) to an ONNX graph. Every error wraps ErrModel and
// names the file.
func Write(dir string, o Options) (*Graph, error) {
	c, err := ReadConfig(filepath.Join(dir, "config.json"))
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "model.safetensors")
	w, err := OpenWeights(path)
	if err != nil {
		return nil, err
	}
	folder, name, err := realFile(path)
	if err != nil {
		return nil, err
	}
	e := &encoder{builder: builder{path: path, weights: w, location: name, known: map[string]bool{}}, Config: c,
		family: families[c.ModelType], Options: o}
	e.findPrefix(e.family.Prefix)
	if o.Standard && o.Int8 {
		e.fail("there is no standard graph of 8-bit products")
	}
	e.types = e.takesTypes(o.Types)
	x := e.hidden()
	g := &Graph{Folder: folder, Weights: path, Config: c, Output: Embedding, Dim: int(c.Hidden)}
	switch {
	case o.Task == Classify, o.Task == Tokens, o.Task == Spans:
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
	domain := Domain
	g.Inputs = []string{InputIDs, PositionIDs, Starts}
	if o.Standard {
		domain, g.Inputs = "", []string{InputIDs, AttentionMask}
	}
	if e.types {
		g.Inputs = append(g.Inputs, TokenTypes)
	}
	g.ONNX = modelProto(c.ModelType, domain, e.nodes, e.inits, e.inputInfo(g.Inputs), [][]byte{e.outputInfo(g)})
	return g, nil
}

func (e *encoder) inputInfo(names []string) [][]byte {
	info := make([][]byte, len(names))
	for i, name := range names {
		switch {
		case e.Standard:
			info[i] = valueInfo(name, elemInt64, dim{name: "batch"}, dim{name: "sequence"})
		case name == Starts:
			info[i] = valueInfo(name, elemInt64, dim{name: "texts and one"})
		default:
			info[i] = valueInfo(name, elemInt64, dim{name: "tokens"})
		}
	}
	return info
}

func (e *encoder) outputInfo(g *Graph) []byte {
	size := dim{size: int64(g.Dim)}
	switch {
	case !e.Task.PerToken():
		return valueInfo(g.Output, elemFloat, dim{name: "batch"}, size)
	case e.Standard:
		return valueInfo(g.Output, elemFloat, dim{name: "batch"}, dim{name: "sequence"}, size)
	}
	return valueInfo(g.Output, elemFloat, dim{name: "tokens"}, size)
}

// encoder writes the graph of one model.
type encoder struct {
	builder
	*Config
	Options
	family *family
	types  bool   // token types are an input
	codes  int64  // 1 while products use 8-bit codes
	bias   string // what attention adds to the scores of all layers; "": nothing
	table  string // DeBERTa's vectors of relative positions
	rows   string // of standard graphs: the table's row of each query and key, [1, 1, sequence, sequence]
}

// hidden returns the last layer's output.
func (e *encoder) hidden() string {
	x := ""
	if e.family.disentangled {
		x, e.table = e.disentangledEmbeddings(), e.positionTable()
	} else {
		x = e.embeddings()
	}
	if e.Standard {
		e.bias = e.maskBias()
		if e.family.disentangled {
			e.rows = e.positionRows()
		}
	} else if e.family.relative {
		e.bias = e.distanceBias()
	}
	if e.Int8 {
		e.codes = 1
	}
	for i := int64(0); i < e.Layers && e.err == nil; i++ {
		x = e.layer(x, e.prefix+e.family.Layer+strconv.FormatInt(i, 10)+".")
	}
	e.codes = 0 // the heads are small and decide the result, so they are not coded
	return x
}

// embeddings returns the normalised sum of word, position and type vectors.
func (e *encoder) embeddings() string {
	p := e.prefix + "embeddings."
	table := e.tensor([]int64{e.Positions, e.Hidden}, p+"position_embeddings.weight")
	types, typed := p+"token_type_embeddings.weight", e.family.typeVocab > 0 && e.TypeVocab > 0
	if typed && !e.types {
		table = e.op("Add", table, e.firstRow(e.TypeVocab, e.Hidden, types))
	}
	word := e.op("Gather", e.tensor([]int64{e.Vocab, e.Hidden}, p+"word_embeddings.weight"), InputIDs)
	x := e.op("Add", word, e.positions(table))
	if e.types {
		x = e.op("Add", x, e.op("Gather", e.tensor([]int64{e.TypeVocab, e.Hidden}, types), TokenTypes))
	}
	return e.norm(x, p+"LayerNorm", e.Hidden, e.Epsilon)
}

// positions returns the position vectors of all tokens.
func (e *encoder) positions(table string) string {
	if e.Standard {
		return e.paddedPositions(table)
	}
	return e.op("Gather", table, PositionIDs)
}

// distanceBias returns MPNet's bias by the distance of two tokens, key − query: [heads, 2·far + 1], where far is the
// longest distance.
func (e *encoder) distanceBias() string {
	buckets := e.DistanceBuckets()
	w := e.tensor([]int64{e.Buckets, e.Heads}, e.prefix+"encoder.relative_attention_bias.weight")
	biases := e.op("Gather", w, e.vector("distance_buckets", buckets))
	return e.node("Transpose", []string{biases}, attrInts("perm", 1, 0))
}

// DistanceBuckets returns the row of the table "encoder.relative_attention_bias.weight" [Buckets, Heads] for each
// distance of two tokens, key − query, from −far to far, where far is the longest distance; nil where the family has no
// such table.
func (c *Config) DistanceBuckets() []int64 {
	if !families[c.ModelType].relative {
		return nil
	}
	far := int64(c.MaxTokens()) - 1
	buckets := make([]int64, 2*far+1)
	for i := range buckets {
		buckets[i] = relativeBucket(int64(i)-far, c.Buckets)
	}
	return buckets
}

// relativeBucket returns T5's bidirectional bucket of a distance (key − query) with a maximum distance of 128: half of
// the buckets for each direction, the near half of those exact, the rest logarithmic. The logarithm is computed in
// float32 step by step, like the reference implementation.
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

// layer returns the output of one post-norm transformer layer.
func (e *encoder) layer(x, p string) string {
	f, h := e.family, e.Hidden
	if !e.Standard && !f.disentangled {
		return e.whole(x, p)
	}
	x = e.linearNorm(e.attention(x, p), x, p+f.Out, p+f.AttnNorm, h)
	up := e.linear(x, p+f.Up, h, e.Intermediate, e.Activation)
	return e.linearNorm(up, x, p+f.Down, p+f.OutNorm, e.Intermediate)
}

// whole writes a layer as one operator.
func (e *encoder) whole(x, p string) string {
	f, h := e.family, e.Hidden
	in := append([]string{x, Starts}, e.threefold(p)...)
	in = append(in, e.weighted(p+f.Out, h, h)...)
	in = append(in, e.normed(p+f.AttnNorm, h)...)
	in = append(in, e.weighted(p+f.Up, h, e.Intermediate)...)
	in = append(in, e.weighted(p+f.Down, e.Intermediate, h)...)
	if in = append(in, e.normed(p+f.OutNorm, h)...); e.bias != "" {
		in = append(in, e.bias)
	}
	return e.own("Layer", in, attrInt("heads", e.Heads), attrInt("activation", activations[e.Activation]),
		attrFloat("epsilon", float32(e.Epsilon)), attrInt("codes", e.codes))
}

// weighted returns the weights and the bias of a linear layer.
func (e *encoder) weighted(key string, in, out int64) []string {
	return []string{e.tensor([]int64{out, in}, key+".weight"), e.tensor([]int64{out}, key+".bias")}
}

// threefold returns the weights of queries, keys and values, followed by their biases.
func (e *encoder) threefold(p string) (all []string) {
	for _, part := range []string{".weight", ".bias"} {
		for _, key := range []string{e.family.Query, e.family.Key, e.family.Value} {
			shape := []int64{e.Hidden, e.Hidden}
			if part == ".bias" {
				shape = shape[:1]
			}
			all = append(all, e.tensor(shape, p+key+part))
		}
	}
	return all
}

// activations are numbered as package cpu numbers them.
var activations = map[string]int64{"": 0, "gelu": 1, "gelu_new": 2, "gelu_pytorch_tanh": 2, "relu": 3, "tanh": 4}

// linear returns f(x·Wᵀ + bias) with W stored as [out, in], as in PyTorch.
func (e *encoder) linear(x, key string, in, out int64, activation string) string {
	if e.Standard {
		return e.activate(e.product(x, key, in, out), activation)
	}
	return e.own("Linear", append([]string{x}, e.weighted(key, in, out)...),
		attrInt("activation", activations[activation]), attrInt("codes", e.codes))
}

// linearNorm returns the layer normalisation of x·Wᵀ + bias + residual.
func (e *encoder) linearNorm(x, residual, key, norm string, in int64) string {
	h := e.Hidden
	if e.Standard {
		return e.norm(e.op("Add", e.product(x, key, in, h), residual), norm, h, e.Epsilon)
	}
	inputs := append([]string{x, residual}, e.weighted(key, in, h)...)
	return e.own("LinearNorm", append(inputs, e.normed(norm, h)...), attrFloat("epsilon", float32(e.Epsilon)),
		attrInt("codes", e.codes))
}

// attention returns softmax(QKᵀ/√d + bias)·V over all heads. It is used if a layer is not one operator.
func (e *encoder) attention(x, p string) string {
	if e.Standard {
		return e.paddedAttention(x, p)
	}
	qkv := e.own("Linear", append([]string{x}, e.threefold(p)...), attrInt("activation", 0), attrInt("codes", e.codes))
	return e.disentangled(qkv, p)
}

// pool returns one vector per text, computed from its hidden states.
func (e *encoder) pool(x string, o Options) string {
	if e.Standard {
		return e.paddedPool(x, o)
	}
	return e.own("Pool", []string{x, Starts}, attrBool("first", o.Pooling == CLS),
		attrBool("normalise", o.Normalise))
}

// first returns the first token's hidden state, [batch, hidden].
func (e *encoder) first(x string) string {
	if e.Standard {
		return e.node("Gather", []string{x, e.scalarInt(0)}, attrInt("axis", 1))
	}
	return e.pool(x, Options{Pooling: CLS})
}
