package onnx

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// builder collects nodes and initialisers. Its first error stays, so that the code which lays out a
// graph reads like the formula; values are named by the strings that the methods return.
type builder struct {
	path     string // of the weights
	weights  map[string]Tensor
	location string // the weights' file name inside the graph
	prefix   string
	nodes    [][]byte
	inits    [][]byte
	known    map[string]bool // initialisers already written
	err      error
}

func (b *builder) fail(format string, a ...any) {
	if b.err == nil {
		b.err = fmt.Errorf("%s: %w: %s", b.path, ErrModel, fmt.Sprintf(format, a...))
	}
}

// node appends an operator with one output and returns the output's name.
func (b *builder) node(op string, in []string, attrs ...attr) string {
	return b.place("", op, in, attrs)
}

// own is node for one of our own operators, which package ops has.
func (b *builder) own(op string, in []string, attrs ...attr) string {
	return b.place(Domain, op, in, attrs)
}

func (b *builder) place(domain, op string, in []string, attrs []attr) string {
	name := op + "_" + strconv.Itoa(len(b.nodes))
	b.nodes = append(b.nodes, nodeProto(domain, op, name, in, []string{name}, attrs))
	return name
}

// op is node without attributes.
func (b *builder) op(op string, in ...string) string { return b.node(op, in) }

// output gives the value from the name of a graph output.
func (b *builder) output(from, name string) {
	b.nodes = append(b.nodes, nodeProto("", "Identity", "output", []string{from}, []string{name}, nil))
}

func (b *builder) init(name string, write func() []byte) string {
	if !b.known[name] {
		b.known[name] = true
		b.inits = append(b.inits, write())
	}
	return name
}

// ints returns a constant vector of int64.
func (b *builder) ints(v ...int64) string { return b.vector(fmt.Sprint("ints", v), v) }

// vector returns a constant vector of int64 with a name.
func (b *builder) vector(name string, v []int64) string {
	return b.init(name, func() []byte { return int64Tensor(name, []int64{int64(len(v))}, v) })
}

// scalarInt returns a constant of rank 0, as Gather wants to drop an axis.
func (b *builder) scalarInt(v int64) string {
	name := fmt.Sprint("int_", v)
	return b.init(name, func() []byte { return int64Tensor(name, nil, []int64{v}) })
}

func (b *builder) scalar(v float32) string {
	name := fmt.Sprint("float_", v)
	return b.init(name, func() []byte { return floatTensor(name, v) })
}

// find returns the first of the keys that is in the checkpoint, and its tensor, which must have the given shape. An
// error shows the first key.
func (b *builder) find(shape []int64, keys ...string) (string, Tensor) {
	for _, k := range keys {
		if t, ok := b.weights[k]; ok {
			if !slices.Equal(t.Shape, shape) {
				b.fail("tensor %q has shape %v, config.json wants %v", k, t.Shape, shape)
			}
			return k, t
		}
	}
	b.fail("tensor %q is missing", keys[0])
	return keys[0], Tensor{}
}

// tensor returns a float32 value of the wanted shape out of the checkpoint; half precision is cast up.
func (b *builder) tensor(shape []int64, keys ...string) string {
	key, t := b.find(shape, keys...)
	return b.external(key, key, t.DType, shape, t.Offset, t.Length)
}

// transposed returns the weights of a layer as a factor on the right.
func (b *builder) transposed(key string, in, out int64) string {
	return b.node("Transpose", []string{b.tensor([]int64{out, in}, key)}, attrInts("perm", 1, 0))
}

// firstRow is row 0 of a matrix of the wanted shape.
func (b *builder) firstRow(rows, cols int64, key string) string {
	_, t := b.find([]int64{rows, cols}, key)
	return b.external(key+"/0", key, t.DType, []int64{cols}, t.Offset, t.Length/max(rows, 1))
}

func (b *builder) external(name, key, dtype string, shape []int64, offset, length int64) string {
	if b.err != nil {
		return name
	}
	elem, ok := map[string]int64{"F32": elemFloat, "F16": elemFloat16, "BF16": elemBFloat16}[dtype]
	if !ok {
		b.fail("tensor %q is %s; F32, F16 or BF16 expected", key, dtype)
		return name
	}
	b.init(name, func() []byte { return externalTensor(name, elem, shape, b.location, offset, length) })
	if elem != elemFloat {
		return b.node("Cast", []string{name}, attrInt("to", elemFloat))
	}
	return name
}

// norm returns the layer normalisation over the last axis. Old checkpoints call its tensors gamma and beta.
func (b *builder) norm(x, key string, size int64, epsilon float64) string {
	return b.node("LayerNormalization", append([]string{x}, b.normed(key, size)...), attrInt("axis", -1),
		attrFloat("epsilon", float32(epsilon)))
}

// normed returns the scale and the shift of a layer normalisation.
func (b *builder) normed(key string, size int64) []string {
	shape := []int64{size}
	return []string{b.tensor(shape, key+".weight", key+".gamma"), b.tensor(shape, key+".bias", key+".beta")}
}

// findPrefix reports whether the encoder's tensors carry the family's prefix.
func (b *builder) findPrefix(family string) {
	const probe = "embeddings.word_embeddings.weight"
	for _, p := range []string{"", family} {
		if _, ok := b.weights[p+probe]; ok {
			b.prefix = p
			return
		}
	}
	b.fail("neither %q nor %q is there: not a %s checkpoint", probe, family+probe, strings.TrimSuffix(family, "."))
}
