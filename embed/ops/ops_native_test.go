//go:build native

package ops

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ort "github.com/yalue/onnxruntime_go"
	"google.golang.org/protobuf/encoding/protowire"
)

// proto is a message of ONNX's format, of which a test writes a few fields.
type proto []byte

func (m *proto) text(field protowire.Number, s string) *proto { return m.bytes(field, []byte(s)) }

func (m *proto) bytes(field protowire.Number, b []byte) *proto {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), b)
	return m
}

func (m *proto) int(field protowire.Number, v int) *proto {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), uint64(v))
	return m
}

const float32Type, int64Type = 1, 7 // TensorProto.DataType

// constant returns an initializer of float32.
func constant(name string, dims []int, values ...float32) []byte {
	var t proto
	for _, d := range dims {
		t.int(1, d)
	}
	var raw []byte
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return *t.int(2, float32Type).text(8, name).bytes(9, raw)
}

// value returns an input or output with so many dimensions of any size.
func value(name string, elem, rank int) []byte {
	var shape proto
	for range rank {
		var dim proto
		shape.bytes(1, *dim.text(2, "n"+name+string(rune('0'+len(shape)))))
	}
	var tensor, kind, v proto
	tensor.int(1, elem).bytes(2, shape)
	return *v.text(1, name).bytes(2, *kind.bytes(1, tensor))
}

// graph is a model of one node of our operators.
type graph struct {
	op        string
	in        []string
	ints      map[string]int
	floats    map[string]float32
	constants [][]byte
	inputs    [][]byte
}

func (g graph) onnx() []byte {
	var node, all, model, standard, own proto
	for _, in := range g.in {
		node.text(1, in)
	}
	node.text(2, "y").text(3, "node").text(4, g.op)
	for name, v := range g.ints {
		var a proto
		node.bytes(5, *a.text(1, name).int(3, v).int(20, 2))
	}
	for name, v := range g.floats {
		var a proto
		a.text(1, name)
		a = protowire.AppendFixed32(protowire.AppendTag(a, 2, protowire.Fixed32Type), math.Float32bits(v))
		node.bytes(5, *a.int(20, 1))
	}
	all.bytes(1, *node.text(7, "sluice")).text(2, "graph")
	for _, c := range g.constants {
		all.bytes(5, c)
	}
	for _, in := range g.inputs {
		all.bytes(11, in)
	}
	all.bytes(12, value("y", float32Type, 2))
	return *model.int(1, 8).bytes(7, all).bytes(8, *standard.text(1, "").int(2, 17)).
		bytes(8, *own.text(1, "sluice").int(2, 1))
}

// library is ONNX Runtime as the set-up has assembled it, loaded once for the tests of this package.
func library(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "third_party", "onnxruntime", "lib", "libonnxruntime.so"))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Skipf("SKIP: %v", err)
	}
	if !ort.IsInitialized() {
		t.Setenv("ORT_DISABLE_TELEMETRY", "1")
		ort.SetSharedLibraryPath(path)
		if err := ort.InitializeEnvironment(); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// run makes a session of a graph and runs it with x, and starts if it wants them; y has the shape that is given.
func run(t *testing.T, g graph, x []float32, rows, columns int, starts []int64, shape ...int64) ([]float32, error) {
	t.Helper()
	return feed(t, g, starts, shape, matrix{"x", rows, columns, x})
}

// matrix is an input of a graph.
type matrix struct {
	name          string
	rows, columns int
	values        []float32
}

// feed makes a session of a graph and runs it with matrices, and starts if it wants them.
func feed(t *testing.T, g graph, starts []int64, shape []int64, matrices ...matrix) ([]float32, error) {
	t.Helper()
	path := library(t)
	o, err := ort.NewSessionOptions()
	if err != nil {
		t.Fatal(err)
	}
	defer o.Destroy()
	d, err := Register(path, o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var names []string
	var values []ort.Value
	for _, m := range matrices {
		in, err := ort.NewTensor(ort.NewShape(int64(m.rows), int64(m.columns)), m.values)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Destroy()
		names, values = append(names, m.name), append(values, in)
	}
	if starts != nil {
		s, err := ort.NewTensor(ort.NewShape(int64(len(starts))), starts)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Destroy()
		names, values = append(names, "starts"), append(values, s)
	}
	s, err := ort.NewDynamicAdvancedSessionWithONNXData(g.onnx(), names, []string{"y"}, o)
	if err != nil {
		return nil, err
	}
	defer s.Destroy()
	y, err := ort.NewEmptyTensor[float32](ort.NewShape(shape...))
	if err != nil {
		t.Fatal(err)
	}
	defer y.Destroy()
	if err := s.Run(values, []ort.Value{y}); err != nil {
		return nil, err
	}
	return slices.Clone(y.GetData()), nil
}

func linearGraph(change func(*graph)) graph {
	g := graph{op: "Linear", in: []string{"x", "w", "b"}, ints: map[string]int{"activation": 0, "codes": 0},
		constants: [][]byte{constant("w", []int{2, 3}, 1, 2, 3, 4, 5, 6), constant("b", []int{2}, 10, 20)},
		inputs:    [][]byte{value("x", float32Type, 2)}}
	if change != nil {
		change(&g)
	}
	return g
}

// A product by hand, and what is refused when the graph is loaded: each with a sentence, and nothing aborts.
func TestLinear(t *testing.T) {
	x := []float32{1, 0, 0, 0, 1, -1}
	got, err := run(t, linearGraph(nil), x, 2, 3, nil, 2, 2)
	if err != nil || !slices.Equal(got, []float32{11, 24, 9, 19}) {
		t.Errorf("%v, %v", got, err)
	}
	for name, c := range map[string]struct {
		change func(*graph)
		says   string
	}{
		"a bias too many":   {func(g *graph) { g.in = append(g.in, "b") }, "4 inputs"},
		"biases of a shape": {func(g *graph) { g.constants[1] = constant("b", []int{3}, 1, 2, 3) }, "3 biases"},
		"no activation":     {func(g *graph) { delete(g.ints, "activation") }, "activation"},
		"no codes":          {func(g *graph) { delete(g.ints, "codes") }, "codes"},
		"weights that change": {func(g *graph) {
			g.constants = g.constants[1:]
			g.inputs = append(g.inputs, value("w", float32Type, 2))
		}, "no constant vector or matrix"},
		"weights of three dimensions": {func(g *graph) {
			g.constants[0] = constant("w", []int{1, 2, 3}, 1, 2, 3, 4, 5, 6)
		}, "no constant vector or matrix"},
		"an activation that there is none": {func(g *graph) { g.ints["activation"] = 99 }, ""},
		"another number of columns": {func(g *graph) { g.constants[0] = constant("w", []int{2, 2}, 1, 2, 3, 4) },
			""},
	} {
		if _, err := run(t, linearGraph(c.change), x, 2, 3, nil, 2, 2); err == nil ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Texts lie end to end; where they start is checked before anything is read.
func TestPool(t *testing.T) {
	g := graph{op: "Pool", in: []string{"x", "starts"}, ints: map[string]int{"first": 0, "normalise": 0},
		inputs: [][]byte{value("x", float32Type, 2), value("starts", int64Type, 1)}}
	x := []float32{1, 2, 3, 4, 5, 9}
	got, err := run(t, g, x, 3, 2, []int64{0, 2, 3}, 2, 2)
	if err != nil || !slices.Equal(got, []float32{2, 3, 5, 9}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, starts := range [][]int64{{1, 2, 3}, {0, 2, 4}, {0, 2, 2}, {0, 3, 2}, {-1, 2, 3}, {0, math.MaxInt64, 3}} {
		if _, err := run(t, g, x, 3, 2, starts, 2, 2); err == nil {
			t.Errorf("texts that start at %v were pooled", starts)
		}
	}
}
