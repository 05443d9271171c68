//go:build native

package embed

import (
	"fmt"
	"slices"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/sluice-rag/sluice/embed/onnx"
	"github.com/sluice-rag/sluice/embed/ops"
)

// session is one ONNX Runtime session. Run is safe for concurrent use: each call computes on its own thread.
type session struct {
	s      *ort.DynamicAdvancedSession
	ops    *ops.Domain // nil for an exported graph
	path   string      // for errors
	inputs []string
	// outputs has one name, or two where an exported reader has the logits of first and last tokens apart.
	outputs []string
	dim     int
	padID   int64
	vocab   int                            // ids at or above are refused; 0 = unknown
	places  func(ids []uint32, to []int64) // position ids of a sequence's tokens
	kept    kept
	// finish converts the output of a graph of padded texts to rows; nil if the graph takes concatenated texts.
	finish func(raw []float32, tokens []sequence, columns int, out []float32)
}

// openSession loads a written graph, or an exported one with a suitable output for its task.
func openSession(src *source, set *ModelSettings, p *provider) (*session, error) {
	o, err := sessionOptions()
	if err != nil {
		return nil, err
	}
	defer o.Destroy()
	if err := p.add(o); err != nil {
		return nil, err
	}
	s := &session{path: src.weights(), padID: src.padID, vocab: src.vocab}
	if g := src.graph; g != nil {
		s.inputs, s.outputs, s.dim, s.places = g.Inputs, []string{g.Output}, g.Dim, g.Config.PlaceTokens
		if p.standard {
			s.finish = whole
			if src.task.PerToken() {
				s.finish = tokenRows(s.dim)
			}
		} else if s.ops, err = ops.Register(p.library, o); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrLibrary, err)
		}
		err = o.AddSessionConfigEntry("session.model_external_initializers_file_folder_path", g.Folder)
		if err == nil {
			s.s, err = ort.NewDynamicAdvancedSessionWithONNXData(g.ONNX, s.inputs, s.outputs, o)
		}
	} else if s.outputs, err = s.inspect(src, set); err == nil {
		s.s, err = ort.NewDynamicAdvancedSession(src.export, s.inputs, s.outputs, o)
	}
	if err != nil && p.options != nil {
		err = fmt.Errorf("%w: %w", ErrDevice, err)
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("%s: %w: %w", s.path, ErrModel, err)
	}
	return s, nil
}

// whole copies the output of a graph that already returns rows.
func whole(raw []float32, _ []sequence, _ int, out []float32) { copy(out, raw) }

func sessionOptions() (o *ort.SessionOptions, err error) {
	if o, err = ort.NewSessionOptions(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLibrary, err)
	}
	// One thread per Run: the workers are goroutines, and a thread pool of the library would spin beside them.
	// Memory patterns are kept per input shape, and ours never repeat for long.
	for _, set := range []func() error{
		func() error { return o.SetIntraOpNumThreads(1) },
		func() error { return o.SetInterOpNumThreads(1) },
		func() error { return o.SetMemPattern(false) },
		func() error { return o.SetLogSeverityLevel(ort.LoggingLevelFatal) },
	} {
		if err := set(); err != nil {
			_ = o.Destroy()
			return nil, fmt.Errorf("%w: %w", ErrLibrary, err)
		}
	}
	return o, nil
}

// inspect reads an exported graph's inputs and outputs, and chooses how its outputs are converted to rows.
func (s *session) inspect(src *source, set *ModelSettings) (outputs []string, err error) {
	o, err := sessionOptions()
	if err != nil {
		return nil, err
	}
	defer o.Destroy()
	if err := o.SetGraphOptimizationLevel(ort.GraphOptimizationLevelDisableAll); err != nil {
		return nil, err
	}
	in, out, err := ort.GetInputOutputInfoWithOptions(src.export, o)
	if err != nil {
		return nil, err
	}
	for _, i := range in {
		if !slices.Contains([]string{onnx.InputIDs, onnx.AttentionMask, onnx.TokenTypes}, i.Name) ||
			i.DataType != ort.TensorElementDataTypeInt64 {
			return nil,
				fmt.Errorf("input %s of type %v is not known; int64 input_ids, attention_mask and token_type_ids are",
					i.Name, i.DataType)
		}
		s.inputs = append(s.inputs, i.Name)
	}
	known := map[string]ort.InputOutputInfo{}
	for _, i := range out {
		known[i.Name] = i
	}
	wanted := []string{onnx.Logits}
	switch src.task {
	case onnx.Spans:
		return s.inspectSpans(known)
	case onnx.Embed:
		wanted = []string{onnx.Embedding, onnx.HiddenState, "token_embeddings"}
	}
	for _, want := range wanted {
		if i, ok := known[want]; ok {
			return []string{want}, s.inspectRows(src, set, i)
		}
	}
	return nil, fmt.Errorf("it has none of the outputs %v", wanted)
}

// inspectRows chooses the conversion of an output that has a row for each text or token.
func (s *session) inspectRows(src *source, set *ModelSettings, i ort.InputOutputInfo) error {
	rank := len(i.Dimensions)
	if i.DataType != ort.TensorElementDataTypeFloat || rank < 2 || rank > 3 || i.Dimensions[rank-1] < 1 {
		return fmt.Errorf("output %s is %v %v; float32 [batch, dim] or [batch, sequence, dim] expected", i.Name,
			i.DataType, i.Dimensions)
	}
	s.dim = int(i.Dimensions[rank-1])
	if perToken := src.task.PerToken(); i.Name == onnx.Logits && perToken != (rank == 3) {
		return fmt.Errorf("output %s is %v; a classifier of texts has [batch, labels], one of tokens "+
			"[batch, sequence, labels]", i.Name, i.Dimensions)
	}
	s.finish = rows(set, rank, s.dim, i.Name == onnx.Logits)
	if src.task.PerToken() {
		s.finish = tokenRows(s.dim)
	}
	return nil
}

// inspectSpans takes the two outputs that exports of readers have.
func (s *session) inspectSpans(known map[string]ort.InputOutputInfo) ([]string, error) {
	outputs := []string{onnx.StartLogits, onnx.EndLogits}
	for _, name := range outputs {
		i, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("it has no output %s: a reader has %v", name, outputs)
		}
		if i.DataType != ort.TensorElementDataTypeFloat || len(i.Dimensions) != 2 {
			return nil, fmt.Errorf("output %s is %v %v; float32 [batch, sequence] expected", name, i.DataType,
				i.Dimensions)
		}
	}
	s.dim = len(outputs)
	s.finish = tokenRows(s.dim)
	return outputs, nil
}

// rows returns the function that converts an exported graph's output to rows: it pools output per token, and
// normalises if the settings ask for it.
func rows(set *ModelSettings, rank, dim int, logits bool) func([]float32, []sequence, int, []float32) {
	return func(raw []float32, tokens []sequence, columns int, out []float32) {
		if rank == 2 {
			copy(out, raw)
		} else {
			for i, q := range tokens {
				poolRow(raw[i*columns*dim:], len(q.ids), set.Pooling, out[i*dim:(i+1)*dim])
			}
		}
		if logits || !set.Normalise {
			return
		}
		for i := range tokens {
			Normalise(out[i*dim : (i+1)*dim])
		}
	}
}

// tokenRows omits the rows of padding.
func tokenRows(dim int) func([]float32, []sequence, int, []float32) {
	return func(raw []float32, tokens []sequence, columns int, out []float32) {
		for i, q := range tokens {
			n := copy(out, raw[i*columns*dim:][:len(q.ids)*dim])
			out = out[n:]
		}
	}
}

// poolRow writes the mean of the first tokens rows of hidden (or the first row) to out, summed in float64.
func poolRow(hidden []float32, tokens int, p onnx.Pooling, out []float32) {
	if p == onnx.CLS {
		tokens = 1
	}
	for j := range out {
		var sum float64
		for t := range tokens {
			sum += float64(hidden[t*len(out)+j])
		}
		out[j] = float32(sum / float64(tokens))
	}
}

// run computes one row of dim values per sequence, or one per token, and writes it to out. Every sequence has at least
// one token. with, if not nil, runs the graph with a helper if the graph has Sluice's operators.
func (s *session) run(
	tokens []sequence, out []float32, stop *ort.RunOptions, with func(d *ops.Domain, run func() error) error,
) (err error) {
	if s.finish != nil {
		return s.runPadded(tokens, out, stop)
	}
	count := 0
	for _, q := range tokens {
		count += len(q.ids)
	}
	b, err := s.take(count, len(tokens), out)
	if err != nil {
		return err
	}
	defer func() { s.give(b, err) }()
	b.ids, b.starts = b.ids[:0], b.starts[:1]
	clear(b.types)
	for _, q := range tokens {
		from := len(b.ids)
		if b.ids, err = s.appendIDs(b.ids, q.ids); err != nil {
			return err
		}
		s.places(q.ids, b.places[from:len(b.ids)])
		copy(b.types[from:], q.types)
		b.starts = append(b.starts, int64(len(b.ids)))
	}
	if with == nil {
		err = s.s.RunWithOptions(b.in, b.result, stop)
	} else {
		err = with(s.ops, func() error { return s.s.RunWithOptions(b.in, b.result, stop) })
	}
	if err != nil {
		return fmt.Errorf("%s: %d texts of %d tokens together: %w", s.path, len(tokens), count, err)
	}
	if b.kept {
		copy(out, b.out)
	}
	return nil
}

// inputs holds the inputs of a run in the order of the graph's inputs.
type inputs []ort.Value

func (in *inputs) add(data []int64, shape ...int64) error {
	t, err := ort.NewTensor(ort.NewShape(shape...), data)
	if err == nil {
		*in = append(*in, t)
	}
	return err
}

func (in *inputs) free() {
	for _, v := range *in {
		_ = v.Destroy()
	}
}

// appendIDs adds a text's tokens, which must be in the model's vocabulary.
func (s *session) appendIDs(to []int64, ids []uint32) ([]int64, error) {
	for _, id := range ids {
		if s.vocab > 0 && int(id) >= s.vocab {
			return nil, fmt.Errorf("%s: %w: tokenizer.json gives the token %d, config.json's vocab_size is %d", s.path,
				ErrModel, id, s.vocab)
		}
		to = append(to, int64(id))
	}
	return to, nil
}

// runPadded is run for graphs that take texts padded to the longest.
func (s *session) runPadded(tokens []sequence, out []float32, stop *ort.RunOptions) error {
	columns := 0
	for _, q := range tokens {
		columns = max(columns, len(q.ids))
	}
	ids, mask, types, err := s.pad(tokens, columns)
	if err != nil {
		return err
	}
	in := inputs{}
	defer in.free()
	for _, name := range s.inputs {
		data := ids
		switch name {
		case onnx.AttentionMask:
			data = mask
		case onnx.TokenTypes:
			data = types
		}
		if err := in.add(data, int64(len(tokens)), int64(columns)); err != nil {
			return fmt.Errorf("%s: %w", s.path, err)
		}
	}
	got := make([]ort.Value, len(s.outputs))
	if err := s.s.RunWithOptions(in, got, stop); err != nil {
		return fmt.Errorf("%s: %d texts of up to %d tokens: %w", s.path, len(tokens), columns, err)
	}
	defer (*inputs)(&got).free()
	raw, err := s.raw(got, len(tokens), columns)
	if err != nil {
		return err
	}
	s.finish(raw, tokens, columns, out)
	return nil
}

// raw returns the numbers of a run's output. Those of two outputs take turns, as if both were columns of one.
func (s *session) raw(got []ort.Value, texts, columns int) ([]float32, error) {
	var all [][]float32
	size := int64(texts * s.dim)
	for _, v := range got {
		t, ok := v.(*ort.Tensor[float32])
		n := int64(-1)
		if ok {
			n = t.GetShape().FlattenedSize() * int64(len(got))
		}
		if n != size*int64(columns) && (n != size || len(got) > 1) {
			return nil, fmt.Errorf("%s: %w: output of shape %v for %d texts of %d tokens", s.path, ErrModel,
				v.GetShape(), texts, columns)
		}
		all = append(all, t.GetData())
	}
	if len(all) == 1 {
		return all[0], nil
	}
	out := make([]float32, 0, texts*columns*len(all))
	for i := range all[0] {
		for _, one := range all {
			out = append(out, one[i])
		}
	}
	return out, nil
}

// pad lays the sequences out in rows of equal length.
func (s *session) pad(tokens []sequence, columns int) (ids, mask, types []int64, err error) {
	n := len(tokens) * columns
	ids, mask, types = make([]int64, 0, n), make([]int64, n), make([]int64, n)
	for r, q := range tokens {
		copy(types[r*columns:], q.types)
		if ids, err = s.appendIDs(ids, q.ids); err != nil {
			return nil, nil, nil, err
		}
		for c := range columns {
			if c < len(q.ids) {
				mask[r*columns+c] = 1
			} else {
				ids = append(ids, s.padID)
			}
		}
	}
	return ids, mask, types, nil
}

func (s *session) close() {
	s.kept.free()
	if s.s != nil {
		_ = s.s.Destroy()
	}
	if s.ops != nil {
		s.ops.Close()
	}
}
