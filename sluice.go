package sluice

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/cpuload"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/remote"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/decisions"
	"github.com/sluice-rag/sluice/rag/exam"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/web"
)

// The defaults of Config. The models are those that the set-up brings.
const (
	DefaultStore   = knowledge.DefaultDir
	DefaultEncoder = "all-MiniLM-L6-v2"
	DefaultModel   = "SmolLM2-135M-Instruct"
)

// The errors of this package. Errors of the packages below (store.ErrNotFound, gate.ErrStale, …) are passed on,
// wrapped.
var (
	ErrNotCalibrated = knowledge.ErrNotCalibrated
	ErrEmptyStore    = knowledge.ErrEmptyStore
	ErrClosed        = knowledge.ErrClosed
	ErrOption        = knowledge.ErrOption
	ErrLocked        = calibrate.ErrLocked // a calibration of the same name is being made
	// ErrRemoteEncoder: a store was made with the encoder of a server, which its user has not named.
	ErrRemoteEncoder = errors.New("sluice: the store's encoder is a server's")
	// ErrRemoteModel: the language model is a server's, and what would be sent there was not asked for.
	ErrRemoteModel = errors.New("sluice: the language model is a server's")
)

// Config of Open. The zero value is a store in ./.sluice with the default models and all cores.
type Config struct {
	Store string // folder; "" is DefaultStore
	// Encoder is a name or a folder; "" takes the encoder whose name the store records, for a new store
	// DefaultEncoder. "https://HOST/v1#MODEL" is a model of an OpenAI-compatible server: documents and questions are
	// then sent there to be embedded, as RemoteEncoder says, and a warning is logged. A store that records such a name
	// is ErrRemoteEncoder unless it is given here.
	Encoder       string
	RemoteEncoder remote.Options // URL, model and logger are filled in; ContextSize is where texts are cut
	// Model is a name or a GGUF file, "" is DefaultModel; or "https://HOST/v1#MODEL", a model of an
	// OpenAI-compatible server: questions and the passages found for them are then sent there, as Remote says,
	// and a warning is logged.
	Model  string
	Remote remote.Options // URL, model, context size and logger are filled in
	// Classifier and Reranker are names or folders of the models of Models.Classify or Spans, and of Rerank; "": none.
	Classifier, Reranker string
	Entailment           string // name or folder of the model that checks what answers say; "": the encoder checks it
	// ModelHelper is the program, with its arguments, that opens a GGUF file before this process does, unless the file
	// is a built-in model with a pinned digest or was opened before: llama.cpp ends the process for some damaged files,
	// then that one (llm.Probe). The command line names itself; a library's user may name "sluice probe-model" or a
	// program that calls llm.ServeProbe. Empty: only the file's header is checked, against what is known to do that.
	ModelHelper []string

	Threads        int            // CPU threads at most; 0 takes what the machine or container grants
	ISA            string         // instruction set of the kernels; "" takes the best
	MemLimit       int64          // scratch bytes of the engine; 0 is 1 GiB
	Device         string         // of the engine: "", "auto", "cpu", "cuda" or "cuda:1" (engine.Options)
	DeviceMemory   int64          // bytes of each GPU at most; 0 is 90 % of what is free
	GPULayers      int            // layers of the language model that go to a GPU; none unless asked for
	GPULibrary     string         // llama.cpp's back-end for GPUs; "" is searched (llm.Options)
	ONNXRuntime    string         // path of the library; "" is searched
	Workers        int            // concurrent encoder runs; 0 takes one per thread
	MaxBatchTokens int            // tokens of an encoder batch; 0 is 512, on a GPU 16384
	EncoderQueue   int            // tokens that may wait for the encoder before calls are embed.ErrBusy; 0: any
	EncoderDevice  string         // of encoder, classifiers and reranker: "", "cpu", "cuda", "cuda:1" or "auto"
	EncoderMemory  int64          // bytes of the GPU's memory that each of them takes at most; 0: any
	Precision      string         // f32 or int8: what the encoder computes in; "" or "auto": the store's own, else f32
	Metric         kernels.Metric // of a new store; an existing one keeps its own
	ContextTokens  int            // window of the language model; 0 takes its own, at most 4096
	// Slots is how many requests the language model decodes together, CacheTokens the cells of the cache that they
	// share, BatchTokens the tokens of one decode. 0 chooses by cores and memory (llm.ChooseSizes; Sizes tells what).
	Slots, CacheTokens, BatchTokens int
	Queue                           int // requests that may wait for a slot of it; 0: 1024, one more is llm.ErrBusy

	Templates string // folder of prompt templates that replace the built-in ones of the same name

	// StaleTolerance is the share of live chunks that the calibration may not have seen; above it the gate
	// refuses with gate.ErrStale. nil never refuses.
	StaleTolerance *float64

	// Web says who is asked where an answer needs the web; the zero value asks nobody. The logger is filled in.
	Web web.Options
	// WebLifetime is how long pages of the web are kept and searched; 0 is web.DefaultLifetime.
	WebLifetime time.Duration

	// Decisions is where the gate's decisions are logged; the zero value logs none.
	Decisions decisions.Options
	// Shadow is a policy that is tried beside the one in force: it decides nothing (gate.Decision.Shadow).
	Shadow gate.Shadow

	Logger *slog.Logger // warnings, what was cut, what is stale; nil is slog.Default()

	// Embedder, Generator and Scorer are used instead of Encoder, Model and Reranker when set. The caller closes them.
	Embedder  embed.Embedder
	Generator llm.Generator
	Scorer    embed.Scorer
}

// Sluice is an open system. Its methods may be called from any goroutine.
type Sluice struct {
	cfg     Config
	log     *slog.Logger
	budget  *cores.Budget
	engine  *engine.Engine
	base    *knowledge.Base
	calls   *calls
	asking  *atomic.Int64 // calls of Ask under way
	shares  bool          // the models are another one's (With)
	encoder *lazy[embed.Embedder]
	model   *lazy[llm.Generator]
	others  *others // language models of nodes of a flow that have one of their own
	cards   *cards

	classifier *lazy[labeller]
	reranker   *lazy[embed.Scorer]
	entailment *lazy[*embed.Entailment]
	web        *web.Client    // nil without a provider
	decisions  *decisions.Log // nil without one

	load cpuload.Meter
}

// Open checks the options. Store and models are opened when a method first needs them.
func Open(_ context.Context, cfg Config) (*Sluice, error) {
	if cfg.Store == "" {
		cfg.Store = DefaultStore
	}
	if cfg.Model == "" {
		cfg.Model = DefaultModel
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if t := cfg.StaleTolerance; t != nil && !(*t >= 0 && *t <= 1) {
		return nil, fmt.Errorf("%w: the stale tolerance is a share, 0 to 1, given %g", ErrOption, *t)
	}
	if cfg.Threads < 0 || cfg.Workers < 0 || cfg.MaxBatchTokens < 0 || cfg.EncoderQueue < 0 || cfg.ContextTokens < 0 ||
		cfg.Slots < 0 || cfg.CacheTokens < 0 || cfg.BatchTokens < 0 {
		return nil, fmt.Errorf("%w: threads %d, workers %d, batch tokens %d, encoder queue %d, context tokens %d, "+
			"slots %d, cache tokens %d, tokens of a decode %d: none may be negative", ErrOption, cfg.Threads,
			cfg.Workers, cfg.MaxBatchTokens,
			cfg.EncoderQueue, cfg.ContextTokens, cfg.Slots, cfg.CacheTokens, cfg.BatchTokens)
	}
	s := &Sluice{cfg: cfg, log: cfg.Logger, budget: cores.New(cfg.Threads), asking: &atomic.Int64{}}
	var err error
	s.engine, err = engine.New(engine.Options{
		Threads: cfg.Threads, MemLimit: cfg.MemLimit, ISA: cfg.ISA, Cores: s.budget,
		Device: cfg.Device, DeviceMemory: cfg.DeviceMemory, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	if s.web, err = openWeb(cfg); err != nil {
		return nil, err
	}
	if err = checkShadow(cfg.Shadow); err != nil {
		return nil, err
	}
	if s.decisions, err = openDecisions(cfg); err != nil {
		return nil, err
	}
	s.calls, s.encoder, s.model = newCalls(), newLazy(s.openEncoder), newLazy(s.openModel)
	s.cards = &cards{known: map[string]*exam.Card{}}
	s.others = &others{open: s.openModelNamed, models: map[string]*lazy[llm.Generator]{}}
	s.classifier, s.reranker = newLazy(s.openClassifier), newLazy(s.openReranker)
	s.entailment = newLazy(s.openEntailment)
	s.base = knowledge.New(s.knowledge())
	return s, nil
}

// knowledge returns the configuration of the store's base.
func (s *Sluice) knowledge() knowledge.Config {
	c := knowledge.Config{
		Dir: s.cfg.Store, Engine: s.engine, Encoder: s.encoder.get, Scorer: s.reranker.get, Metric: s.cfg.Metric,
		StaleTolerance: s.cfg.StaleTolerance, Shadow: s.cfg.Shadow, Logger: s.log, Multilingual: models.Multilingual,
	}
	if s.cfg.Entailment != "" {
		c.Entails = func(ctx context.Context, premises, hypotheses []string) ([]float64, error) {
			e, err := s.entailment.get(ctx)
			if err != nil {
				return nil, err
			}
			return e.Entails(ctx, premises, hypotheses)
		}
	}
	return c
}

// Close ends the calls under way, which return ErrClosed, waits for them, and frees models and store. Later calls are
// ErrClosed. It must not be called from a function that a call was given, such as answer.Options.Stream.
func (s *Sluice) Close() error {
	s.calls.close()
	if s.shares {
		return errors.Join(s.base.Close(), s.encoder.close())
	}
	if s.web != nil {
		_ = s.web.Close()
	}
	return errors.Join(s.base.Close(), s.encoder.close(), s.model.close(), s.others.close(), s.classifier.close(),
		s.reranker.close(), s.entailment.close(), s.decisions.Close(), s.engine.Close())
}

// Device says which device, instruction set and threads the engine uses, and why.
func (s *Sluice) Device() engine.Choice { return s.engine.Describe() }
