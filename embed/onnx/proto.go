package onnx

import (
	"encoding/binary"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// Element types of onnx.TensorProto.DataType.
const (
	elemFloat    = 1
	elemInt64    = 7
	elemFloat16  = 10
	elemBFloat16 = 16
)

const (
	irVersion = 9
	opset     = 20 // the first opset in which Gelu is an operator
)

// message is a protobuf message under construction. Field numbers are taken from onnx.proto.
type message []byte

func (m *message) int(field protowire.Number, v int64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), uint64(v))
}

func (m *message) bytes(field protowire.Number, v []byte) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), v)
}

func (m *message) string(field protowire.Number, v string) {
	*m = protowire.AppendString(protowire.AppendTag(*m, field, protowire.BytesType), v)
}

func (m *message) float(field protowire.Number, v float32) {
	*m = protowire.AppendFixed32(protowire.AppendTag(*m, field, protowire.Fixed32Type), math.Float32bits(v))
}

// attr is an encoded onnx.AttributeProto.
type attr message

func attrInt(name string, v int64) attr {
	var m message
	m.string(1, name)
	m.int(3, v)
	m.int(20, 2) // INT
	return attr(m)
}

func attrBool(name string, v bool) attr {
	if v {
		return attrInt(name, 1)
	}
	return attrInt(name, 0)
}

func attrInts(name string, v ...int64) attr {
	var m message
	m.string(1, name)
	for _, x := range v {
		m.int(8, x)
	}
	m.int(20, 7) // INTS
	return attr(m)
}

func attrFloat(name string, v float32) attr {
	var m message
	m.string(1, name)
	m.float(2, v)
	m.int(20, 1) // FLOAT
	return attr(m)
}

func attrString(name, v string) attr {
	var m message
	m.string(1, name)
	m.string(4, v)
	m.int(20, 3) // STRING
	return attr(m)
}

func nodeProto(domain, op, name string, in, out []string, attrs []attr) []byte {
	var m message
	for _, s := range in {
		m.string(1, s)
	}
	for _, s := range out {
		m.string(2, s)
	}
	m.string(3, name)
	m.string(4, op)
	for _, a := range attrs {
		m.bytes(5, a)
	}
	if domain != "" {
		m.string(7, domain)
	}
	return m
}

func tensorHead(name string, elem int64, dims []int64) message {
	var m message
	for _, d := range dims {
		m.int(1, d)
	}
	m.int(2, elem)
	m.string(8, name)
	return m
}

// externalTensor returns a TensorProto whose data is in another file.
func externalTensor(name string, elem int64, dims []int64, location string, offset, length int64) []byte {
	m := tensorHead(name, elem, dims)
	for _, kv := range [][2]string{
		{"location", location},
		{"offset", strconv.FormatInt(offset, 10)},
		{"length", strconv.FormatInt(length, 10)},
	} {
		var e message
		e.string(1, kv[0])
		e.string(2, kv[1])
		m.bytes(13, e)
	}
	m.int(14, 1) // EXTERNAL
	return m
}

func int64Tensor(name string, dims []int64, v []int64) []byte {
	m := tensorHead(name, elemInt64, dims)
	raw := make([]byte, 0, 8*len(v))
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(x))
	}
	m.bytes(9, raw)
	return m
}

func floatTensor(name string, v float32) []byte {
	m := tensorHead(name, elemFloat, nil)
	m.bytes(9, binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)))
	return m
}

// dim is a fixed size, or a named one when name is set.
type dim struct {
	name string
	size int64
}

func valueInfo(name string, elem int64, dims ...dim) []byte {
	var shape message
	for _, d := range dims {
		var m message
		if d.name != "" {
			m.string(2, d.name)
		} else {
			m.int(1, d.size)
		}
		shape.bytes(1, m)
	}
	var tensor, typ, m message
	tensor.int(1, elem)
	tensor.bytes(2, shape)
	typ.bytes(1, tensor)
	m.string(1, name)
	m.bytes(2, typ)
	return m
}

// modelProto returns a ModelProto. Unless own is "", it imports the operator domain own.
func modelProto(name, own string, nodes, inits, inputs, outputs [][]byte) []byte {
	var g, op, m message
	for _, n := range nodes {
		g.bytes(1, n)
	}
	g.string(2, name)
	for _, t := range inits {
		g.bytes(5, t)
	}
	for _, v := range inputs {
		g.bytes(11, v)
	}
	for _, v := range outputs {
		g.bytes(12, v)
	}
	op.string(1, "")
	op.int(2, opset)
	m.int(1, irVersion)
	m.string(2, "sluice")
	m.bytes(7, g)
	m.bytes(8, op)
	if own != "" {
		var op message
		op.string(1, own)
		op.int(2, 1)
		m.bytes(8, op)
	}
	return m
}
