//go:build native

package embed

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/embed/onnx"
	"github.com/sluice-rag/sluice/embed/ops"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/panics"
)

// window is how many texts are tokenised before their vectors are computed. It bounds the memory of a call.
const window = 16384

// model is what an encoder and a classifier share: texts in, one row of float32 per text out.
type model struct {
	set     *ModelSettings
	src     *source
	tok     *Tokenizer
	pair    *pairer  // of models that read pairs
	counter *Counter // of an encoder's documents
	front   [2]int   // tokens before the text's own, by role: special ones and the prefix's
	whole   int      // tokens that are read of a text in windows; 0: a text is one window
	session *session
	info    Info
	workers int
	batches *batcher
	cores   *cores.Budget
	library func() // releases ONNX Runtime

	progress func(done, total int)
	calling  sync.Mutex // serialises progress, over all calls

	mu      sync.Mutex // guards closed, and running against Wait
	closed  bool
	running sync.WaitGroup
}

// input is what a call reads of its i-th text or pair.
type input struct {
	sequence
	content       Content
	cut, repaired bool
}

// result are the rows of a call: one per input, or one per token.
type result struct {
	data                []float32
	starts              []int // of each input, its first row; and the number of rows
	tokens              []int
	contents            []Content
	truncated, repaired int
}

// openAs opens a model of a kind as a T.
func openAs[T ~struct{ *model }](ctx context.Context, dir, kind string, o Options) (*T, error) {
	m, err := openModel(ctx, dir, kind, o)
	if err != nil {
		return nil, err
	}
	return &T{m}, nil
}

// openModel opens the model in a folder until ctx ends. ONNX Runtime cannot be stopped while it reads a graph: nobody
// waits for it then, and what it opened is freed at its end.
func openModel(ctx context.Context, dir, kind string, o Options) (*model, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m, err := newModel(dir, kind, o)
	if err != nil {
		return nil, err
	}
	opened := make(chan error, 1)
	go func() {
		opened <- panics.Call(func() error {
			p, err := findProvider(o)
			if err != nil {
				return err
			}
			return m.open(ctx, dir, kind, o, p)
		})
	}()
	select {
	case err = <-opened:
	case <-ctx.Done():
		err = ctx.Err()
		go func() {
			if <-opened == nil {
				m.free()
			}
		}()
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// newModel reads the settings of the model in a folder.
func newModel(dir, kind string, o Options) (m *model, err error) {
	m = &model{workers: o.Workers, cores: o.Cores, progress: o.Progress}
	if kind == KindEncoder {
		m.whole = o.Tokens
	}
	if err := checkFolder(dir); err != nil {
		return nil, err
	}
	if m.set, err = readSettings(dir, kind); err != nil {
		return nil, err
	}
	m.set.Name = cmp.Or(o.Name, m.set.Name)
	if m.cores == nil {
		m.cores = cores.New(0)
	}
	if m.workers < 1 {
		m.workers = m.cores.Size()
	}
	return m, nil
}

// open loads the model for a provider.
func (m *model) open(ctx context.Context, dir, kind string, o Options, p *provider) error {
	if err := m.load(ctx, dir, kind, o, p); err != nil {
		m.free()
		return err
	}
	if o.MaxBatchTokens < 1 {
		o.MaxBatchTokens = p.batchTokens()
	}
	m.batches = (&batcher{workers: m.workers, budget: o.MaxBatchTokens, limit: o.Queue, dim: m.session.dim,
		padded: m.session.finish != nil, cores: m.cores, compute: m.compute}).open()
	return nil
}

// findSource finds or writes the graph of a kind of model.
func (m *model) findSource(dir, kind string, p Precision, standard bool) (err error) {
	if p != "" && p != F32 && p != Int8 {
		return fmt.Errorf("%w: precision %q; known are %s and %s", ErrModel, p, F32, Int8)
	}
	o := onnx.Options{Pooling: m.set.Pooling, Normalise: m.set.Normalise, Int8: p == Int8, Standard: standard}
	switch kind {
	case KindClassifier:
		o.Task = onnx.Classify
	case KindReranker, KindEntailment:
		o.Task, o.Types = onnx.Classify, m.tok.pair.highest()
	case KindTokenClassifier:
		o.Task = onnx.Tokens
	case KindReader:
		o.Task, o.Types = onnx.Spans, m.tok.pair.highest()
	}
	if m.src, err = findSource(dir, o); err == nil && m.src.graph == nil && o.Int8 {
		err = fmt.Errorf("%s: %w: a ready export computes as it is written, not in %s", m.src.export, ErrModel, p)
	}
	return err
}

// name returns the model's own name, with the precision and the tokens where these are not the usual ones.
func (m *model) name() string {
	name := m.set.Name
	if m.src.int8 {
		name += ":" + string(Int8)
	}
	if m.whole > 0 {
		name += fmt.Sprintf(":%d", m.whole)
	}
	return name
}

// vectorSettings returns the options that change a vector.
func (m *model) vectorSettings() (text string) {
	if m.src.int8 {
		text = " precision=" + string(Int8)
	}
	if m.whole > 0 {
		text += fmt.Sprintf(" windows=%d", m.whole)
	}
	return text
}

// load opens the tokenizer and the session while the digests are computed.
func (m *model) load(ctx context.Context, dir, kind string, o Options, p *provider) (err error) {
	if m.tok, err = OpenTokenizer(dir); err != nil {
		return err
	}
	if err := m.findSource(dir, kind, o.Precision, p.standard); err != nil {
		return err
	}
	if m.library, err = ortRuntime.acquire(p.library); err != nil {
		return err
	}
	for _, role := range []Role{Document, Query} {
		ids, err := m.tok.encode(m.set.prefix(role))
		if err != nil {
			return err
		}
		m.front[role] = len(ids) - m.tok.closing
	}
	if err := m.set.limit(dir, m.src.maxTokens, m.tok.special); err != nil {
		return err
	}
	if err := m.set.windows(dir, m.whole); err != nil {
		return err
	}
	m.info = Info{Encoder: identity.Encoder{Name: m.name(), TokenizerDigest: m.tok.digest}, Dir: dir,
		MaxTokens: m.set.MaxTokens, Languages: m.set.languages(), Architecture: m.src.architecture,
		Runtime: m.src.runtime(p)}
	if m.whole > 0 {
		m.info.MaxTokens, m.info.Window = m.whole, m.set.MaxTokens
	}
	var g errgroup.Group
	g.Go(func() (err error) {
		defer panics.Into(&err)
		files, err := m.src.files()
		if err != nil {
			return err
		}
		m.info.Digest, err = Digest(ctx, files, m.info.TokenizerDigest, m.src.identity, m.set, m.vectorSettings())
		return err
	})
	g.Go(func() (err error) {
		defer panics.Into(&err)
		m.session, err = openSession(m.src, m.set, p)
		return err
	})
	if err := g.Wait(); err != nil {
		return err
	}
	m.info.Dim = m.session.dim
	if m.session.ops != nil {
		m.info.Runtime.ISA = m.session.ops.ISA(m.src.int8)
	}
	if kind == KindEncoder {
		m.counter = &Counter{m.tok, m.set.DocumentPrefix, m.front[Document], m.info.MaxTokens}
		m.info.Normalised = m.set.Normalise
		m.info.Dimensions, err = m.set.shorter(dir, m.info.Dim)
		return err
	}
	if err := m.src.settleLabels(m.session.dim); err != nil {
		return err
	}
	return m.checkHead(kind)
}

// checkHead returns an error if the model's head does not fit its kind. A model of a kind that reads pairs is set to
// read pairs.
func (m *model) checkHead(kind string) (err error) {
	switch kind {
	case KindReranker, KindEntailment, KindReader:
		if m.pair, err = newPairer(m.tok, m.set.MaxTokens); err != nil {
			return err
		}
	}
	switch labels := m.src.labels; {
	case kind == KindReranker && len(labels) != 1:
		return fmt.Errorf("%s: %w: it has %d labels, a reranker has one score", m.src.weights(), ErrModel, len(labels))
	case kind == KindEntailment && (entailment(labels) < 0 || len(labels) < 2):
		return fmt.Errorf("%s: %w: no label of %q is \"entailment\", beside another one", m.src.weights(), ErrModel,
			labels)
	case kind == KindReader && m.session.dim != 2:
		return fmt.Errorf("%s: %w: a reader has 2 logits for each token, this model has %d", m.src.weights(), ErrModel,
			m.session.dim)
	}
	return nil
}

// enter announces a call, which close waits for; running.Done ends it.
func (m *model) enter() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.running.Add(1)
	return nil
}

// use runs do while the model is open.
func (m *model) use(do func() error) error {
	if err := m.enter(); err != nil {
		return err
	}
	defer m.running.Done()
	return do()
}

// texts reads each text with its role's prefix.
func (m *model) texts(texts []string, role Role) func(i int) (input, error) {
	return func(i int) (input, error) { return m.text(texts[i], role, m.set.MaxTokens) }
}

// text reads a text with its role's prefix, cut at limit tokens.
func (m *model) text(text string, role Role, limit int) (in input, err error) {
	fixed, changed := Repair(text)
	all, _, err := m.tok.encodeHead(m.set.prefix(role)+fixed, limit)
	if err != nil {
		return in, fmt.Errorf("text %q: %w", text[:min(len(text), 40)], err)
	}
	in.repaired = changed
	in.ids, in.cut = truncate(all, limit, m.tok.closing)
	in.content = measure(in.ids, m.front[role], m.tok.closing, m.tok.unknown)
	return in, nil
}

// infer computes the rows of n inputs, in windows that bound the memory of their tokens. read is called from several
// goroutines, once for each input.
func (m *model) infer(ctx context.Context, n int, read func(i int) (input, error)) (*result, error) {
	if err := m.enter(); err != nil {
		return nil, err
	}
	defer m.running.Done()
	if err := m.batches.check(ctx); err != nil {
		return nil, err
	}
	numbers := make([]int, 2*n+1)
	r := &result{tokens: numbers[:n:n], contents: make([]Content, n), starts: numbers[n:]}
	if !m.src.task.PerToken() {
		r.data = make([]float32, 0, n*m.session.dim)
	}
	done := 0
	for start := 0; start < n; start += window {
		end := min(start+window, n)
		inputs, err := m.read(ctx, start, end, read, r)
		if err != nil {
			return nil, err
		}
		r.data = append(r.data, make([]float32, (r.starts[end]-r.starts[start])*m.session.dim)...)
		sequences, starts := make([]sequence, len(inputs)), make([]int, len(inputs)+1)
		for i, in := range inputs {
			sequences[i], starts[i+1] = in.sequence, r.starts[start+i+1]-r.starts[start]
		}
		err = m.batches.do(ctx, sequences, starts, r.data[r.starts[start]*m.session.dim:],
			func(k int) { m.report(&done, k, n) })
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// read reads the inputs of a window, and notes what was found.
func (m *model) read(
	ctx context.Context, start, end int, read func(i int) (input, error), r *result,
) ([]input, error) {
	const grain, few = 64, 4
	inputs := make([]input, end-start)
	some := func(g int) (err error) {
		for i := g * grain; i < min((g+1)*grain, len(inputs)); i++ {
			if inputs[i], err = read(start + i); err != nil {
				return err
			}
		}
		return nil
	}
	var err error
	if len(inputs) <= few { // takes less than the wait for a core
		if err = ctx.Err(); err == nil && len(inputs) > 0 {
			err = some(0)
		}
	} else {
		err = m.each(ctx, (len(inputs)+grain-1)/grain, some)
	}
	if err != nil {
		return nil, err
	}
	for i, in := range inputs {
		rows := 1
		if m.src.task.PerToken() {
			rows = len(in.ids)
		}
		r.starts[start+i+1] = r.starts[start+i] + rows
		r.tokens[start+i], r.contents[start+i] = len(in.ids), in.content
		if in.cut {
			r.truncated++
		}
		if in.repaired {
			r.repaired++
		}
	}
	return inputs, nil
}

// compute runs a batch. Once ctx has ended it stops soon.
func (m *model) compute(ctx context.Context, batch []sequence, out []float32) error {
	stop, err := m.session.kept.stopWith(ctx)
	if err != nil {
		return err
	}
	defer m.session.kept.over(stop)
	var with func(*ops.Domain, func() error) error
	if m.session.ops != nil && m.workers > 1 {
		with = func(d *ops.Domain, run func() error) error {
			if !m.cores.TryTake() {
				return run()
			}
			return d.WithHelper(m.cores.Contended, m.cores.Give, run)
		}
	}
	if err := m.session.run(batch, out, stop.options, with); err != nil {
		return err
	}
	for _, x := range out {
		if x-x != 0 {
			return fmt.Errorf("%s: %w: it makes %v of a text: its weights are damaged", m.session.path, ErrModel, x)
		}
	}
	return nil
}

// each calls do for 0 … n−1 from the workers, each call under one CPU token; it stops at the first error or when ctx
// ends.
func (m *model) each(ctx context.Context, n int, do func(i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(m.workers)
	for i := range n {
		g.Go(func() error {
			_, release, err := m.cores.Acquire(ctx, 1)
			if err != nil {
				return err
			}
			defer release()
			return panics.Call(func() error { return do(i) })
		})
	}
	return g.Wait()
}

// report adds n to done and tells the caller.
func (m *model) report(done *int, n, total int) {
	m.calling.Lock()
	defer m.calling.Unlock()
	*done += n
	if m.progress != nil {
		m.progress(*done, total)
	}
}

// Info identifies the model.
func (m *model) Info() Info { return m.info }

// Stats counts what the model has computed.
func (m *model) Stats() Stats { return m.batches.now() }

// Close waits for the calls under way and frees the model; later calls return ErrClosed. A second Close does nothing.
func (m *model) Close() error {
	m.mu.Lock()
	first := !m.closed
	m.closed = true
	m.mu.Unlock()
	m.running.Wait()
	if first {
		m.free()
	}
	return nil
}

func (m *model) free() {
	if m.batches != nil {
		m.batches.close()
	}
	if m.session != nil {
		m.session.close()
	}
	if m.tok != nil {
		m.tok.Close()
	}
	if m.library != nil {
		m.library()
	}
}
