package sluice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/sluice-rag/sluice/embed"
	encodergguf "github.com/sluice-rag/sluice/embed/gguf"
	encoderremote "github.com/sluice-rag/sluice/embed/remote"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/gguf"
	"github.com/sluice-rag/sluice/llm/remote"
	"github.com/sluice-rag/sluice/rag/route"
)

// openEncoder loads the encoder named by the options, the store or the default, in that order.
func (s *Sluice) openEncoder(ctx context.Context) (embed.Embedder, func() error, error) {
	if s.cfg.Embedder != nil {
		return s.cfg.Embedder, nil, s.keepRuntime(ctx, s.cfg.Embedder)
	}
	name, path := s.cfg.Encoder, ""
	if name == "" {
		name = DefaultEncoder
		if st, err := s.base.Reader(ctx); err == nil && st.Encoder().Name != "" {
			name, path = st.Encoder().Name, s.keptEncoderPath()
		}
	}
	name, precision, tokens := embed.SplitName(name)
	name = cmp.Or(path, name)
	if s.cfg.Precision != "" && s.cfg.Precision != "auto" {
		precision = embed.Precision(s.cfg.Precision)
	}
	if base, model, ok := remote.SplitName(name); ok {
		return s.openRemoteEncoder(ctx, base, model)
	}
	dir, err := models.Locate(name)
	if err != nil {
		return nil, nil, err
	}
	if file, ok := encodergguf.Find(dir); ok {
		return s.openGGUFEncoder(ctx, name, file, precision)
	}
	s.log.Debug("loading encoder", "dir", dir)
	e, err := embed.Open(ctx, dir, embed.Options{
		Name: named(name), Library: s.cfg.ONNXRuntime, Workers: s.cfg.Workers, MaxBatchTokens: s.cfg.MaxBatchTokens,
		Queue: s.cfg.EncoderQueue, Cores: s.budget, Progress: s.base.EncoderProgress, Precision: precision,
		Device: s.cfg.EncoderDevice, DeviceMemory: s.cfg.EncoderMemory, Tokens: tokens,
	})
	return opened(ctx, s, e, err)
}

// opened returns a local encoder that was opened, unless its runtime does not suit the store.
func opened[E interface {
	embed.Embedder
	io.Closer
}](ctx context.Context, s *Sluice, e E, err error) (embed.Embedder, func() error, error) {
	if err != nil {
		return nil, nil, err
	}
	if err := s.keepRuntime(ctx, e); err != nil {
		return nil, nil, errors.Join(err, e.Close())
	}
	return e, e.Close, nil
}

// openGGUFEncoder loads an encoder that llama.cpp computes.
func (s *Sluice) openGGUFEncoder(
	ctx context.Context, name, file string, precision embed.Precision,
) (embed.Embedder, func() error, error) {
	if precision != "" {
		return nil, nil, fmt.Errorf("%w: precision %s of %s: a GGUF file computes as its weights are written",
			ErrOption, precision, file)
	}
	s.log.Debug("loading encoder", "file", file)
	e, err := encodergguf.Open(ctx, file, encodergguf.Options{Name: named(name), BatchTokens: s.cfg.MaxBatchTokens,
		Cores: s.budget, Progress: s.base.EncoderProgress})
	return opened(ctx, s, e, err)
}

// named returns the name by which a store or a trace remembers a model of the hub, "" for others: the folder of such a
// model is named after a commit.
func named(model string) string {
	if models.IsReference(model) {
		return model
	}
	return ""
}

// encoderPath is a file beside a store's vectors. It says where the encoder lay, unless that is a model of the list.
func (s *Sluice) encoderPath() string { return filepath.Join(s.base.Dir(), "encoder-path") }

// keptEncoderPath returns where the store's encoder lies, "" if that is not known or it is not there any more.
func (s *Sluice) keptEncoderPath() string {
	path, err := os.ReadFile(s.encoderPath())
	if err == nil {
		_, err = os.Stat(string(path))
	}
	if err != nil {
		return ""
	}
	return string(path)
}

// keepEncoderPath records where the encoder lies, so that the store can be used without naming it again.
func (s *Sluice) keepEncoderPath() {
	name, _, _ := embed.SplitName(s.cfg.Encoder)
	path, err := filepath.Abs(name)
	if found, wrong := models.Locate(name); name == "" || err != nil || wrong != nil || found != path {
		return
	}
	if known, err := os.ReadFile(s.encoderPath()); err == nil && string(known) == path {
		return
	}
	err = durable.Replace(s.encoderPath(), func(w io.Writer) error {
		_, err := io.WriteString(w, path)
		return err
	})
	if err != nil { // usually because the folder is read-only
		s.log.Debug("where the encoder lies is not recorded", "error", err)
	}
}

// keepRuntime records beside a store made with the encoder where that lies and which runtime computes its vectors, and
// refuses a runtime that gives other vectors.
func (s *Sluice) keepRuntime(ctx context.Context, e embed.Embedder) error {
	st, err := s.base.Reader(ctx)
	if err != nil || !st.Encoder().Same(e.Info().Encoder) {
		return nil // no store yet, or another check refuses it
	}
	s.keepEncoderPath()
	changed, err := embed.KeepRuntime(ctx, filepath.Join(s.base.Dir(), "runtime.json"), e)
	switch {
	case err != nil && !errors.Is(err, embed.ErrRuntime) && ctx.Err() == nil: // usually because the folder is read-only
		s.log.Debug("the runtime of the encoder is not recorded", "error", err)
		return nil
	case changed && err == nil:
		s.log.Info("another runtime than the store's vectors were made with gives the same",
			"runtime", e.Info().Runtime)
	}
	return err
}

// openModel loads the language model that the options name.
func (s *Sluice) openModel(ctx context.Context) (llm.Generator, func() error, error) {
	if s.cfg.Generator != nil {
		return s.cfg.Generator, nil, nil
	}
	return s.openModelNamed(ctx, s.cfg.Model)
}

// openModelNamed loads a language model by its name, its file, or the URL of its server.
func (s *Sluice) openModelNamed(ctx context.Context, model string) (llm.Generator, func() error, error) {
	if base, name, ok := remote.SplitName(model); ok {
		return s.openRemote(ctx, base, name)
	}
	s.load.Begin() // before the first decode, which reads the whole prompt and needs to know how busy the machine is
	registry, err := models.Default()
	if err != nil {
		return nil, nil, err
	}
	path, err := registry.LocateGGUF(model)
	if err != nil {
		return nil, nil, err
	}
	sizes, err := s.sizes(path)
	if err != nil {
		return nil, nil, err
	}
	o := llm.Options{
		ContextSize: s.cfg.ContextTokens, Threads: s.cfg.Threads, ChatTemplate: registry.ChatTemplate(model),
		Slots: sizes.Slots, CacheTokens: sizes.CacheTokens, BatchSize: sizes.BatchTokens, Queue: s.cfg.Queue,
		GPULayers: s.cfg.GPULayers, GPULibrary: s.cfg.GPULibrary, Acquire: s.acquireThreads, Logger: s.log,
	}
	if err := s.probe(ctx, registry, model, path, o); err != nil {
		return nil, nil, err
	}
	if llm.Available && !registry.Pinned(model) { // a pinned digest is only what the file should have
		if o.Digest, err = registry.Digest(ctx, model); err != nil {
			return nil, nil, err
		}
	}
	s.log.Info("loading language model", "file", path, "slots", sizes.Slots, "cache tokens", sizes.CacheTokens,
		"batch tokens", sizes.BatchTokens, "because", sizes.Reason)
	m, err := llm.Open(ctx, path, o)
	if err != nil {
		return nil, nil, err
	}
	return m, m.Close, nil
}

// probe has another process open a file without a pinned digest first, once for each file and version of llama.cpp.
func (s *Sluice) probe(ctx context.Context, r *models.Registry, model, path string, o llm.Options) error {
	if len(s.cfg.ModelHelper) == 0 || !llm.Available {
		return nil
	}
	with := fmt.Sprint(llm.NativeDigest(), " ", llm.ISA(), " ", o.ContextSize)
	if r.Pinned(model) || r.WasTried(path, with) {
		return nil
	}
	s.log.Info("trying language model in a process of its own", "file", path)
	if err := llm.Probe(ctx, s.cfg.ModelHelper, path, o); err != nil {
		return err
	}
	if err := r.RememberTried(path, with); err != nil {
		s.log.Warn("the model file will be tried again next time", "error", err)
	}
	return nil
}

func (s *Sluice) sizes(path string) (llm.Sizes, error) {
	if !llm.Available {
		return llm.Sizes{}, nil // llm.Open reports the error
	}
	file, err := gguf.Inspect(path, llm.ISA())
	if err != nil {
		return llm.Sizes{}, err
	}
	available, _, _ := cores.AvailableMemory() // 0: unknown
	return llm.ChooseSizes(file, llm.Options{ContextSize: s.cfg.ContextTokens, Slots: s.cfg.Slots,
		CacheTokens: s.cfg.CacheTokens, BatchSize: s.cfg.BatchTokens, GPULayers: s.cfg.GPULayers}, s.budget.Size(),
		available, llm.ISA()), nil
}

// orDefault returns a server's options, with the defaults for the zero value of Config.
func orDefault(o remote.Options) remote.Options {
	if o == (remote.Options{}) {
		return remote.DefaultOptions()
	}
	return o
}

// openRemote opens a language model on a server, after a warning that names the server.
func (s *Sluice) openRemote(ctx context.Context, base, name string) (llm.Generator, func() error, error) {
	o := orDefault(s.cfg.Remote)
	o.BaseURL, o.Model, o.ContextSize, o.Logger = base, name, s.cfg.ContextTokens, s.log
	g, err := remote.Open(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	s.log.Warn(g.Notice())
	return g, g.Close, nil
}

// openRemoteEncoder opens an encoder on a server, after a warning that names the server. A server named only by the
// store is refused, because a store may come from anywhere.
func (s *Sluice) openRemoteEncoder(ctx context.Context, base, model string) (embed.Embedder, func() error, error) {
	if s.cfg.Encoder == "" {
		return nil, nil, fmt.Errorf("%w: %s#%s; name it as the encoder to send questions and documents there",
			ErrRemoteEncoder, base, model)
	}
	o := orDefault(s.cfg.RemoteEncoder)
	o.BaseURL, o.Model, o.Logger = base, model, s.log
	e, err := encoderremote.Open(ctx, encoderremote.Options{Server: o, Workers: s.cfg.Workers,
		Progress: s.base.EncoderProgress})
	if err != nil {
		return nil, nil, err
	}
	s.log.Warn(e.Notice())
	return e, e.Close, nil
}

// acquireThreads returns the number of threads for a decode of the language model: what the process's budget has free,
// at most what other processes leave idle. The threads of a decode wait for each other after every operation, so one
// thread without a CPU of its own stalls them all: on two cores with twenty runnable tasks, an answer took 35 s with
// two threads and 5 s with one.
func (s *Sluice) acquireThreads() (threads int, release func()) {
	ctx := context.Background()
	if s.asking.Load() == 0 { // no interactive question is under way: it decodes for batch jobs
		ctx = cores.AsBatch(ctx)
	}
	n, release, err := s.budget.Acquire(ctx, s.load.Idle(runtime.NumCPU(), s.budget.Size()))
	if err != nil { // cannot happen: the context never ends
		return 1, func() {}
	}
	return n, release
}

// labeller is the model that Config.Classifier names: a classifier of texts or of tokens, or a router.
type labeller struct {
	texts  *embed.Classifier
	tokens *embed.TokenClassifier
	router *route.Router
}

// Stats returns the counts of the model of texts; a router has none.
func (l labeller) Stats() embed.Stats {
	if l.texts == nil {
		return embed.Stats{}
	}
	return l.texts.Stats()
}

// names returns the configured classifier if it labels parts of texts, else nil.
func (s *Sluice) names(ctx context.Context) (embed.Tagger, error) {
	if s.cfg.Classifier == "" {
		return nil, nil
	}
	l, err := s.classifier.get(ctx)
	if err != nil {
		return nil, err
	}
	if l.tokens == nil {
		s.log.Warn(fmt.Sprintf("%s labels whole texts, not parts of them: names are found by rules", s.cfg.Classifier))
		return nil, nil
	}
	return l.tokens, nil
}

// openClassifier loads the classifier that the options name.
func (s *Sluice) openClassifier(ctx context.Context) (l labeller, closer func() error, err error) {
	if s.cfg.Classifier == "" {
		return l, nil, fmt.Errorf("%w: no classifier is named (a name of 'models list', or a folder)", ErrOption)
	}
	dir, err := models.Locate(s.cfg.Classifier)
	if err != nil {
		return l, nil, err
	}
	if route.IsRouter(dir) {
		l.router, err = route.Load(dir)
		return l, func() error { return nil }, err
	}
	kind, err := embed.KindOf(dir)
	if err != nil {
		return l, nil, err
	}
	s.log.Debug("loading classifier", "dir", dir, "kind", kind)
	if kind == embed.KindTokenClassifier {
		if l.tokens, err = embed.OpenTokenClassifier(ctx, dir, s.embedOptions(s.cfg.Classifier)); err != nil {
			return l, nil, err
		}
		return l, l.tokens.Close, nil
	}
	if l.texts, err = embed.OpenClassifier(ctx, dir, s.embedOptions(s.cfg.Classifier)); err != nil {
		return l, nil, err
	}
	return l, l.texts.Close, nil
}

// openReranker loads the cross-encoder that the options name.
func (s *Sluice) openReranker(ctx context.Context) (embed.Scorer, func() error, error) {
	if s.cfg.Scorer != nil {
		return s.cfg.Scorer, nil, nil
	}
	return openHead(ctx, s, "reranker", s.cfg.Reranker, embed.OpenReranker)
}

// openReader loads the model that the options name.
func (s *Sluice) openReader(ctx context.Context) (embed.Extractor, func() error, error) {
	return openHead(ctx, s, "reader", s.cfg.Reader, embed.OpenReader)
}

// openEntailment loads the model that the options name.
func (s *Sluice) openEntailment(ctx context.Context) (*embed.Entailment, func() error, error) {
	return openHead(ctx, s, "entailment model", s.cfg.Entailment, embed.OpenEntailment)
}

// openHead loads the model of a kind that the options name.
func openHead[M io.Closer](ctx context.Context, s *Sluice, kind, name string,
	open func(context.Context, string, embed.Options) (M, error)) (m M, closer func() error, err error) {
	if name == "" {
		return m, nil, fmt.Errorf("%w: no %s is named (a name of 'models list', or a folder)", ErrOption, kind)
	}
	dir, err := models.Locate(name)
	if err != nil {
		return m, nil, err
	}
	s.log.Debug("loading "+kind, "dir", dir)
	if m, err = open(ctx, dir, s.embedOptions(name)); err != nil {
		return m, nil, err
	}
	return m, m.Close, nil
}

// embedOptions returns the options for a model that reads texts.
func (s *Sluice) embedOptions(model string) embed.Options {
	return embed.Options{Name: named(model), Library: s.cfg.ONNXRuntime, Workers: s.cfg.Workers,
		MaxBatchTokens: s.cfg.MaxBatchTokens, Queue: s.cfg.EncoderQueue, Cores: s.budget,
		Device: s.cfg.EncoderDevice, DeviceMemory: s.cfg.EncoderMemory}
}

// others holds language models beside Config.Model, each opened when it is first needed.
type others struct {
	open func(ctx context.Context, name string) (llm.Generator, func() error, error)

	mu     sync.Mutex
	closed bool
	models map[string]*lazy[llm.Generator]
}

func (o *others) get(ctx context.Context, name string) (llm.Generator, error) {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return nil, ErrClosed
	}
	l := o.models[name]
	if l == nil {
		l = newLazy(func(ctx context.Context) (llm.Generator, func() error, error) { return o.open(ctx, name) })
		o.models[name] = l
	}
	o.mu.Unlock()
	return l.get(ctx)
}

func (o *others) close() error {
	o.mu.Lock()
	o.closed = true
	all := o.models
	o.mu.Unlock()
	var errs []error
	for _, l := range all {
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}
