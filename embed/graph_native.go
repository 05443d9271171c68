//go:build native

package embed

import (
	"context"
	"fmt"

	ort "github.com/yalue/onnxruntime_go"
)

// Graph is an exported ONNX graph with one float32 input and one float32 output, such as those that read pictures. It
// is safe for concurrent use; each run computes on its own thread.
type Graph struct {
	s       *ort.DynamicAdvancedSession
	path    string
	release func()
}

// OpenGraph loads a graph; Close frees it. The error is ErrModel if the file is not such a graph, and ErrLibrary if
// ONNX Runtime cannot be loaded.
func OpenGraph(path string, o Options) (*Graph, error) {
	library, err := findLibrary(o.Library, libraryDigest())
	if err != nil {
		return nil, err
	}
	release, err := ortRuntime.acquire(library)
	if err != nil {
		return nil, err
	}
	g := &Graph{path: path, release: release}
	if err := g.open(); err != nil {
		release()
		return nil, fmt.Errorf("%s: %w: %w", path, ErrModel, err)
	}
	return g, nil
}

func (g *Graph) open() error {
	o, err := sessionOptions()
	if err != nil {
		return err
	}
	defer o.Destroy()
	// Pictures differ in size: an arena would keep what the largest one took, some 700 MB.
	if err := o.SetCpuMemArena(false); err != nil {
		return err
	}
	in, out, err := ort.GetInputOutputInfoWithOptions(g.path, o)
	if err != nil {
		return err
	}
	if len(in) != 1 || len(out) != 1 || in[0].DataType != ort.TensorElementDataTypeFloat ||
		out[0].DataType != ort.TensorElementDataTypeFloat {
		return fmt.Errorf("%d inputs and %d outputs; one of each, of float32, expected", len(in), len(out))
	}
	g.s, err = ort.NewDynamicAdvancedSession(g.path, []string{in[0].Name}, []string{out[0].Name}, o)
	return err
}

// Run computes the output for an input of the given shape and passes it, with its shape, to read; it is freed when read
// returns. If ctx ends, Run ends early with ctx's error.
func (g *Graph) Run(
	ctx context.Context, input []float32, shape []int64, read func(output []float32, shape []int64) error,
) (err error) {
	stop, err := ort.NewRunOptions()
	if err != nil {
		return err
	}
	defer stop.Destroy()
	done := make(chan struct{})
	off := context.AfterFunc(ctx, func() { _ = stop.Terminate(); close(done) })
	defer func() {
		if !off() { // Terminate must not meet options that are destroyed
			<-done
			err = ctx.Err()
		}
	}()
	in, err := ort.NewTensor(ort.NewShape(shape...), input)
	if err != nil {
		return fmt.Errorf("%s: %w", g.path, err)
	}
	defer in.Destroy()
	got := []ort.Value{nil}
	if err := g.s.RunWithOptions([]ort.Value{in}, got, stop); err != nil {
		return fmt.Errorf("%s: input of shape %v: %w", g.path, shape, err)
	}
	defer got[0].Destroy()
	t, ok := got[0].(*ort.Tensor[float32])
	if !ok {
		return fmt.Errorf("%s: %w: its output is not float32", g.path, ErrModel)
	}
	return read(t.GetData(), t.GetShape())
}

// Metadata returns a text that the file's maker has put into it by a key, "" without one.
func (g *Graph) Metadata(key string) (string, error) {
	m, err := g.s.GetModelMetadata()
	if err != nil {
		return "", fmt.Errorf("%s: %w", g.path, err)
	}
	defer m.Destroy()
	value, _, err := m.LookupCustomMetadataMap(key)
	return value, err
}

// Close frees the graph, which must not be used then.
func (g *Graph) Close() {
	_ = g.s.Destroy() // fails only if it was destroyed before
	g.release()
}
