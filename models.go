package sluice

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"

	"github.com/sluice-rag/sluice/embed"
	encoderremote "github.com/sluice-rag/sluice/embed/remote"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/gguf"
	"github.com/sluice-rag/sluice/llm/remote"
)

// openEncoder loads the encoder that the options, the store or the default name, in that order.
func (s *Sluice) openEncoder(ctx context.Context) (embed.Embedder, func() error, error) {
	if s.cfg.Embedder != nil {
		return s.cfg.Embedder, nil, s.keepRuntime(ctx, s.cfg.Embedder)
	}
	name := s.cfg.Encoder
	if name == "" {
		name = DefaultEncoder
		if st, err := s.base.Reader(ctx); err == nil && st.Encoder().Name != "" {
			name = st.Encoder().Name
		}
	}
	name, precision := embed.SplitName(name)
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
	s.log.Debug("loading encoder", "dir", dir)
	e, err := embed.Open(ctx, dir, embed.Options{
		Library: s.cfg.ONNXRuntime, Workers: s.cfg.Workers, MaxBatchTokens: s.cfg.MaxBatchTokens,
		Queue: s.cfg.EncoderQueue, Cores: s.budget, Progress: s.base.EncoderProgress, Precision: precision,
		Device: s.cfg.EncoderDevice, DeviceMemory: s.cfg.EncoderMemory,
	})
	if err != nil {
		return nil, nil, err
	}
	if err := s.keepRuntime(ctx, e); err != nil {
		return nil, nil, errors.Join(err, e.Close())
	}
	return e, e.Close, nil
}

// keepRuntime records, beside a store that the encoder made, which runtime computes its vectors, and refuses one that
// gives others.
func (s *Sluice) keepRuntime(ctx context.Context, e embed.Embedder) error {
	st, err := s.base.Reader(ctx)
	if err != nil || !st.Encoder().Same(e.Info().Encoder) {
		return nil // there is no store yet, or it is refused elsewhere
	}
	changed, err := embed.KeepRuntime(ctx, filepath.Join(s.base.Dir(), "runtime.json"), e)
	switch {
	case err != nil && !errors.Is(err, embed.ErrRuntime) && ctx.Err() == nil: // the folder is read-only, mostly
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
	s.load.Begin() // so that the first decode, which reads the whole prompt, knows how busy the machine is
	path, err := models.LocateGGUF(model)
	if err != nil {
		return nil, nil, err
	}
	template, err := models.ChatTemplate(model)
	if err != nil {
		return nil, nil, err
	}
	sizes, err := s.sizes(path)
	if err != nil {
		return nil, nil, err
	}
	o := llm.Options{
		ContextSize: s.cfg.ContextTokens, Threads: s.cfg.Threads, ChatTemplate: template,
		Slots: sizes.Slots, CacheTokens: sizes.CacheTokens, BatchSize: sizes.BatchTokens, Queue: s.cfg.Queue,
		GPULayers: s.cfg.GPULayers, GPULibrary: s.cfg.GPULibrary, Acquire: s.acquireThreads, Logger: s.log,
	}
	if err := s.probe(ctx, model, path, o); err != nil {
		return nil, nil, err
	}
	s.log.Info("loading language model", "file", path, "slots", sizes.Slots, "cache tokens", sizes.CacheTokens,
		"batch tokens", sizes.BatchTokens, "because", sizes.Reason)
	m, err := llm.Open(ctx, path, o)
	if err != nil {
		return nil, nil, err
	}
	return m, m.Close, nil
}

// probe opens a file that no pinned digest vouches for in another process first, once for this file and this llama.cpp.
func (s *Sluice) probe(ctx context.Context, model, path string, o llm.Options) error {
	if len(s.cfg.ModelHelper) == 0 || !llm.Available {
		return nil
	}
	r, err := models.Default()
	if err != nil {
		return err
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

// Sizes says how many requests the language model decodes together and what they share, as set or as chosen for this
// machine; it opens nothing. A model of a server or of Config.Generator has none.
func (s *Sluice) Sizes() (sizes llm.Sizes, ok bool, err error) {
	if _, _, remotely := remote.SplitName(s.cfg.Model); remotely || s.cfg.Generator != nil || !llm.Available {
		return sizes, false, nil
	}
	path, err := models.LocateGGUF(s.cfg.Model)
	if err != nil {
		return sizes, false, err
	}
	sizes, err = s.sizes(path)
	return sizes, err == nil, err
}

func (s *Sluice) sizes(path string) (llm.Sizes, error) {
	if !llm.Available {
		return llm.Sizes{}, nil // llm.Open says so
	}
	file, err := gguf.Inspect(path, llm.ISA())
	if err != nil {
		return llm.Sizes{}, err
	}
	available, _, _ := cores.AvailableMemory() // 0: not known
	return llm.ChooseSizes(file, llm.Options{ContextSize: s.cfg.ContextTokens, Slots: s.cfg.Slots,
		CacheTokens: s.cfg.CacheTokens, BatchSize: s.cfg.BatchTokens, GPULayers: s.cfg.GPULayers}, s.budget.Size(),
		available, llm.ISA()), nil
}

// openRemote says where text is about to go before any goes there.
func (s *Sluice) openRemote(ctx context.Context, base, name string) (llm.Generator, func() error, error) {
	o := s.cfg.Remote
	o.BaseURL, o.Model, o.ContextSize, o.Logger = base, name, s.cfg.ContextTokens, s.log
	g, err := remote.Open(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	s.log.Warn(g.Notice())
	return g, g.Close, nil
}

// openRemoteEncoder says where text is about to go before any goes there. A store that names a server is not enough: it
// may come from anywhere.
func (s *Sluice) openRemoteEncoder(ctx context.Context, base, model string) (embed.Embedder, func() error, error) {
	if s.cfg.Encoder == "" {
		return nil, nil, fmt.Errorf("%w: %s#%s; name it as the encoder to send questions and documents there",
			ErrRemoteEncoder, base, model)
	}
	o := s.cfg.RemoteEncoder
	o.BaseURL, o.Model, o.Logger = base, model, s.log
	e, err := encoderremote.Open(ctx, encoderremote.Options{Server: o, Workers: s.cfg.Workers,
		Progress: s.base.EncoderProgress})
	if err != nil {
		return nil, nil, err
	}
	s.log.Warn(e.Notice())
	return e, e.Close, nil
}

// acquireThreads says before each decode of the language model how many threads it may use: what the
// process's budget has free, and no more than other processes leave idle. The threads of a decode wait for
// each other after every operation, so one thread without a CPU of its own stops them all: on two cores
// with twenty runnable tasks, an answer took 35 s with two threads and 5 s with one.
func (s *Sluice) acquireThreads() (threads int, release func()) {
	n, release, err := s.budget.Acquire(s.decodeContext(), s.load.Idle(runtime.NumCPU(), s.budget.Size()))
	if err != nil { // cannot happen: the context does not end
		return 1, func() {}
	}
	return n, release
}
