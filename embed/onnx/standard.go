package onnx

import "math"

// What standard graphs have instead of our own operators: the same layers in ONNX's operators, over padded batches.

// product is x·Wᵀ + bias.
func (b *builder) product(x, key string, in, out int64) string {
	return b.op("Add", b.op("MatMul", x, b.transposed(key+".weight", in, out)), b.tensor([]int64{out}, key+".bias"))
}

func (b *builder) activate(x, activation string) string {
	switch activation {
	case "":
		return x
	case "relu":
		return b.op("Relu", x)
	case "tanh":
		return b.op("Tanh", x)
	case "gelu":
		return b.node("Gelu", []string{x}, attrString("approximate", "none"))
	default: // gelu_new, gelu_pytorch_tanh
		return b.node("Gelu", []string{x}, attrString("approximate", "tanh"))
	}
}

// length returns the padded sequence length, a scalar.
func (e *encoder) length() string { return e.op("Gather", e.op("Shape", InputIDs), e.scalarInt(1)) }

func (e *encoder) paddedPositions(table string) string {
	if !e.family.offsetPositions {
		return e.op("Slice", table, e.ints(0), e.op("Unsqueeze", e.length(), e.ints(0)), e.ints(0))
	}
	// 1 for tokens, 0 for pads; running count, zeroed at pads, shifted behind the pad's own position.
	token := e.node("Cast", []string{e.op("Not", e.op("Equal", InputIDs, e.scalarInt(e.PadID)))},
		attrInt("to", elemInt64))
	count := e.op("Mul", e.op("CumSum", token, e.scalarInt(1)), token)
	return e.op("Gather", table, e.op("Add", count, e.scalarInt(e.PadID)))
}

// maskBias returns 0 for tokens and the lowest float32 for pads, [batch, 1, 1, sequence]: softmax then gives pads
// exactly 0. MPNet's bias by distance is added.
func (e *encoder) maskBias() string {
	m := e.node("Cast", []string{e.op("Unsqueeze", AttentionMask, e.ints(1, 2))}, attrInt("to", elemFloat))
	bias := e.op("Mul", e.op("Sub", e.scalar(1), m), e.scalar(-math.MaxFloat32))
	if !e.family.relative {
		return bias
	}
	relative := e.node("Gather", []string{e.distanceBias(), e.distances(1, 0)}, attrInt("axis", 1))
	return e.op("Add", e.op("Unsqueeze", relative, e.ints(0)), bias)
}

// distances returns a token's place less another's plus the longest distance, [sequence, sequence]: that of the axis
// plus less that of the axis minus.
func (e *encoder) distances(plus, minus int64) string {
	at := e.op("Range", e.scalarInt(0), e.length(), e.scalarInt(1))
	distance := e.op("Sub", e.op("Unsqueeze", at, e.ints(minus)), e.op("Unsqueeze", at, e.ints(plus)))
	return e.op("Add", distance, e.scalarInt(int64(e.MaxTokens())-1))
}

// positionRows returns the rows of DeBERTa's position table, [1, 1, query, key].
func (e *encoder) positionRows() string {
	far := e.MaxTokens() - 1
	rows := make([]int64, 2*far+1)
	for i := range rows {
		rows[i] = e.Disentangled.Row(i - far)
	}
	return e.op("Unsqueeze", e.op("Gather", e.vector("distance_rows", rows), e.distances(0, 1)), e.ints(0, 1))
}

// paddedAttention is [batch, sequence, hidden].
func (e *encoder) paddedAttention(x, p string) string {
	f, size := e.family, e.Hidden/e.Heads
	heads := func(key string, perm ...int64) string {
		split := e.op("Reshape", e.product(x, p+key, e.Hidden, e.Hidden), e.ints(0, 0, e.Heads, size))
		return e.node("Transpose", []string{split}, attrInts("perm", perm...))
	}
	q, k, v := heads(f.Query, 0, 2, 1, 3), heads(f.Key, 0, 2, 3, 1), heads(f.Value, 0, 2, 1, 3)
	scores, parts := e.op("MatMul", q, k), int64(1)
	if f.disentangled {
		scores, parts = e.addPositions(scores, q, k, p)
	}
	scores = e.op("Div", scores, e.scalar(float32(math.Sqrt(float64(size*parts)))))
	share := e.node("Softmax", []string{e.op("Add", scores, e.bias)}, attrInt("axis", -1))
	joined := e.node("Transpose", []string{e.op("MatMul", share, v)}, attrInts("perm", 0, 2, 1, 3))
	return e.op("Reshape", joined, e.ints(0, 0, e.Hidden))
}

// addPositions adds the terms of DeBERTa's scores for relative positions, and returns how many parts they have. q is
// [batch, heads, query, size], k [batch, heads, size, key].
func (e *encoder) addPositions(scores, q, k, p string) (sum string, parts int64) {
	keys, queries := e.positionKeys(p)
	places := func(key string) string { // [heads, size, rows of the table]
		split := e.op("Reshape", e.product(e.table, key, e.Hidden, e.Hidden), e.ints(0, e.Heads, e.Hidden/e.Heads))
		return e.node("Transpose", []string{split}, attrInts("perm", 1, 2, 0))
	}
	rows := e.op("Expand", e.rows, e.op("Shape", scores))
	turned := func(x string) string { return e.node("Transpose", []string{x}, attrInts("perm", 0, 1, 3, 2)) }
	pick := func(x, rows string) string {
		return e.node("GatherElements", []string{x, rows}, attrInt("axis", 3))
	}
	sum, parts = scores, 1
	if e.Disentangled.ToKeys {
		sum, parts = e.op("Add", sum, pick(e.op("MatMul", q, places(keys)), rows)), parts+1
	}
	if e.Disentangled.ToQueries {
		of := pick(e.op("MatMul", turned(k), places(queries)), turned(rows))
		sum, parts = e.op("Add", sum, turned(of)), parts+1
	}
	return sum, parts
}

func (e *encoder) paddedPool(x string, o Options) string {
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
