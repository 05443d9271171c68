//go:build native

package embed

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	ort "github.com/yalue/onnxruntime_go"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/embed/onnx"
	"github.com/sluice-rag/sluice/engine/cores"
)

// model is what an encoder and a classifier share: texts in, one row of float32 per text out.
type model struct {
	set     *settings
	src     *source
	tok     *tokenizer
	front   [2]int // tokens before the text's own, by role: special ones and the prefix's
	session *session
	info    Info
	workers int
	budget  int // padded tokens per batch
	cores   *cores.Budget
	library func() // releases ONNX Runtime

	progress func(done, total int)
	calling  sync.Mutex // serialises progress, over all calls

	mu      sync.Mutex // guards closed, and running against Wait
	closed  bool
	running sync.WaitGroup
}

// result are the rows of a call.
type result struct {
	data                []float32
	tokens              []int
	contents            []Content
	truncated, repaired int
}

func openModel(ctx context.Context, dir, kind string, o Options) (m *model, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	task, outputs := onnx.Embed, []string{onnx.Embedding, onnx.HiddenState, "token_embeddings"}
	if kind == kindClassifier {
		task, outputs = onnx.Classify, []string{onnx.Logits}
	}
	m = &model{workers: o.Workers, budget: o.MaxBatchTokens, cores: o.Cores, progress: o.Progress}
	if m.set, err = readSettings(dir, kind); err != nil {
		return nil, err
	}
	if m.src, err = findSource(dir,
		onnx.Options{Task: task, Pooling: m.set.Pooling, Normalise: m.set.Normalise}); err != nil {
		return nil, err
	}
	if m.cores == nil {
		m.cores = cores.New(0)
	}
	if m.workers < 1 {
		m.workers = m.cores.Size()
	}
	if m.budget < 1 {
		m.budget = defaultBatchTokens
	}
	if err := m.load(dir, o.Library, outputs); err != nil {
		m.free()
		return nil, err
	}
	return m, nil
}

// load opens the tokenizer and the session while the digests are computed.
func (m *model) load(dir, library string, outputs []string) (err error) {
	library, err = findLibrary(library, libraryDigest())
	if err != nil {
		return err
	}
	if m.library, err = ortRuntime.acquire(library); err != nil {
		return err
	}
	if m.tok, err = openTokenizer(dir); err != nil {
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
	m.info = Info{Encoder: identity.Encoder{Name: m.set.Name, TokenizerDigest: m.tok.digest}, Dir: dir,
		MaxTokens: m.set.MaxTokens, Languages: m.set.languages(), Architecture: m.src.architecture,
		Runtime: m.src.runtime()}
	var g errgroup.Group
	g.Go(func() (err error) {
		files, err := m.src.files()
		if err != nil {
			return err
		}
		m.info.Digest, err = vectorDigest(files, m.info.TokenizerDigest, m.src.identity, m.set.vectorSettings())
		return err
	})
	g.Go(func() (err error) { m.session, err = openSession(m.src, m.set, outputs); return err })
	if err := g.Wait(); err != nil {
		return err
	}
	m.info.Dim = m.session.dim
	if n := len(m.src.labels); outputs[0] == onnx.Logits && n != m.session.dim {
		return fmt.Errorf("%s: %w: %d logits, id2label has %d labels", m.src.weights(), ErrModel, m.session.dim, n)
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

// infer computes the rows of texts, in windows that bound the memory of their tokens.
func (m *model) infer(ctx context.Context, texts []string, role Role) (*result, error) {
	if err := m.enter(); err != nil {
		return nil, err
	}
	defer m.running.Done()
	stop, free, err := terminator(ctx)
	if err != nil {
		return nil, err
	}
	defer free()
	r := &result{data: make([]float32, len(texts)*m.session.dim), tokens: make([]int, len(texts)),
		contents: make([]Content, len(texts))}
	done := 0
	for start := 0; start < len(texts); start += window {
		end := min(start+window, len(texts))
		ids, err := m.tokenise(ctx, texts[start:end], role, r, r.contents[start:end])
		if err != nil {
			return nil, err
		}
		for i, row := range ids {
			r.tokens[start+i] = len(row)
		}
		batches := plan(r.tokens[start:end], m.budget)
		err = m.each(ctx, len(batches), func(b int) error {
			if err := m.batch(ids, batches[b], r.data[start*m.session.dim:], stop); err != nil {
				return err
			}
			m.report(&done, len(batches[b]), len(texts))
			return nil
		})
		if ctx.Err() != nil { // a terminated run has an error of its own
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// tokenise repairs, encodes and cuts the texts of a window, and counts their contents.
func (m *model) tokenise(
	ctx context.Context, texts []string, role Role, r *result, contents []Content,
) ([][]uint32, error) {
	const grain = 64
	ids := make([][]uint32, len(texts))
	var truncated, repaired atomic.Int64
	err := m.each(ctx, (len(texts)+grain-1)/grain, func(g int) error {
		for i := g * grain; i < min((g+1)*grain, len(texts)); i++ {
			text, changed := repair(texts[i])
			if changed {
				repaired.Add(1)
			}
			all, _, err := m.tok.encodeHead(m.set.prefix(role)+text, m.set.MaxTokens)
			if err != nil {
				return fmt.Errorf("text %q: %w", texts[i][:min(len(texts[i]), 40)], err)
			}
			var cut bool
			if ids[i], cut = truncate(all, m.set.MaxTokens, m.tok.closing); cut {
				truncated.Add(1)
			}
			contents[i] = m.content(ids[i], role)
		}
		return nil
	})
	r.truncated += int(truncated.Load())
	r.repaired += int(repaired.Load())
	return ids, err
}

// content counts what a text's tokens say.
func (m *model) content(ids []uint32, role Role) Content {
	return measure(ids, m.front[role], m.tok.closing, m.tok.unknown)
}

// batch runs one batch and puts its rows where they belong.
func (m *model) batch(ids [][]uint32, members []int, rows []float32, stop *ort.RunOptions) error {
	tokens := make([][]uint32, len(members))
	for i, at := range members {
		tokens[i] = ids[at]
	}
	dim := m.session.dim
	out := make([]float32, len(members)*dim)
	if err := m.session.run(tokens, out, stop); err != nil {
		return err
	}
	for _, x := range out {
		if x-x != 0 {
			return fmt.Errorf("%s: %w: it makes %v of a text: its weights are damaged", m.session.path, ErrModel, x)
		}
	}
	for i, at := range members {
		copy(rows[at*dim:(at+1)*dim], out[i*dim:])
	}
	return nil
}

// each calls do for 0 … n−1 from the workers, each call under one CPU token; it stops at the first error or when ctx
// ends.
func (m *model) each(ctx context.Context, n int, do func(i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range min(m.workers, n) {
		g.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				_, release, err := m.cores.Acquire(ctx, 1)
				if err != nil {
					return err
				}
				err = do(i)
				release()
				if err != nil {
					return err
				}
			}
			return nil
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

// close waits for the calls under way and frees everything; a second close does nothing.
func (m *model) close() error {
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
	if m.session != nil {
		m.session.close()
	}
	if m.tok != nil {
		m.tok.close()
	}
	if m.library != nil {
		m.library()
	}
}
