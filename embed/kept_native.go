//go:build native

package embed

import (
	"context"
	"fmt"
	"sync"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/sluice-rag/sluice/embed/onnx"
)

// keptTokens is up to how many tokens the tensors of a run of one text are kept for the next one of that length: a
// question's. Those of all lengths take some 400 kB for each run at a time.
const keptTokens = 128

// binding are the memory and the tensors of a run.
type binding struct {
	ids, places, types, starts []int64
	out                        []float32
	in, result                 []ort.Value // of the graph's inputs in their order, of its output
	kept                       bool        // out is its own, and the run's rows are copied from there
}

// kept are the bindings of one text that no run has now, and run options that have ended no run.
type kept struct {
	mu    sync.Mutex
	by    [keptTokens + 1][]*binding // by tokens
	stops []*stopper
}

// take returns the binding of a run that writes rows into out; give takes it back.
func (s *session) take(tokens, texts int, out []float32) (*binding, error) {
	rows := len(out) / s.dim
	if texts != 1 || rows != 1 || tokens > keptTokens {
		return s.bind(tokens, texts, rows, out)
	}
	k := &s.kept
	k.mu.Lock()
	if list := k.by[tokens]; len(list) > 0 {
		b := list[len(list)-1]
		k.by[tokens] = list[:len(list)-1]
		k.mu.Unlock()
		return b, nil
	}
	k.mu.Unlock()
	b, err := s.bind(tokens, texts, rows, make([]float32, len(out)))
	if err == nil {
		b.kept = true
	}
	return b, err
}

// give takes back the binding of a run that has ended with err.
func (s *session) give(b *binding, err error) {
	if !b.kept || err != nil {
		b.free()
		return
	}
	s.kept.mu.Lock()
	defer s.kept.mu.Unlock()
	at := len(b.ids)
	s.kept.by[at] = append(s.kept.by[at], b)
}

// bind makes the memory and the tensors of a run of texts with so many tokens together, whose rows are written to out.
func (s *session) bind(tokens, texts, rows int, out []float32) (b *binding, err error) {
	all := make([]int64, 3*tokens+texts+1)
	b = &binding{ids: all[:tokens:tokens], places: all[tokens : 2*tokens], types: all[2*tokens : 3*tokens],
		starts: all[3*tokens:], out: out}
	in := inputs{}
	defer func() {
		if b.in = in; err != nil {
			b.free()
			err = fmt.Errorf("%s: %w", s.path, err)
		}
	}()
	for _, name := range s.inputs {
		data := b.ids
		switch name {
		case onnx.PositionIDs:
			data = b.places
		case onnx.Starts:
			data = b.starts
		case onnx.TokenTypes:
			data = b.types
		}
		if err := in.add(data, int64(len(data))); err != nil {
			return b, err
		}
	}
	t, err := ort.NewTensor(ort.NewShape(int64(rows), int64(s.dim)), out)
	if err == nil {
		b.result = []ort.Value{t}
	}
	return b, err
}

func (b *binding) free() {
	(*inputs)(&b.in).free()
	(*inputs)(&b.result).free()
}

// free frees what is kept; no run is under way.
func (k *kept) free() {
	for i, list := range k.by {
		for _, b := range list {
			b.free()
		}
		k.by[i] = nil
	}
	for _, t := range k.stops {
		_ = t.options.Destroy()
	}
	k.stops = nil
}

// stopper are run options that end the run that is made with them.
type stopper struct {
	options *ort.RunOptions
	fire    func()        // ends it
	fired   chan struct{} // holds a token when it has been called
	detach  func() bool
}

// stopWith returns what ends a run soon after ctx does; over must be called with it once the run is over.
func (k *kept) stopWith(ctx context.Context) (t *stopper, err error) {
	k.mu.Lock()
	if n := len(k.stops); n > 0 {
		t, k.stops = k.stops[n-1], k.stops[:n-1]
	}
	k.mu.Unlock()
	if t == nil {
		t = &stopper{fired: make(chan struct{}, 1)}
		if t.options, err = ort.NewRunOptions(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrLibrary, err)
		}
		t.fire = func() {
			_ = t.options.Terminate() // setting a flag does not fail
			t.fired <- struct{}{}
		}
	}
	t.detach = context.AfterFunc(ctx, t.fire)
	return t, nil
}

// over ends the use of t.
func (k *kept) over(t *stopper) {
	if !t.detach() {
		<-t.fired
		_ = t.options.Destroy()
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stops = append(k.stops, t)
}
